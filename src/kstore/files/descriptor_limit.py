"""File descriptors, of which a process has a limited number (``ulimit -n``)."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kstore._native.files.owned_descriptor import OwnedDescriptor
from kstore.errors import TooManyOpenFilesError


def lacks_descriptors(error: OSError) -> bool:
    """Whether a call failed only because no descriptor was free: the disk was not accessed."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def too_many_open_files(
    doing: str, error: OSError, path: str | os.PathLike[str] | None
) -> TooManyOpenFilesError:
    """The error, which names the limit to raise."""
    if error.errno == errno.ENFILE:
        advice = "the system has too many open files: raise the sysctl fs.file-max"
    else:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        advice = (
            f"this process may have {limit} open files, and has as many: raise its limit "
            "(`ulimit -n`, RLIMIT_NOFILE), or lower StoreConfig(max_open_logs=...), "
            "of which each takes three"
        )
    return TooManyOpenFilesError(f"{doing}: {advice}", errno=error.errno, path=path)


@contextmanager
def loading(doing: str) -> Iterator[None]:
    """Around an import on first use, which opens files: TooManyOpenFilesError if none can be.

    ``doing`` says what cannot be done without the module.
    """
    try:
        yield
    except ImportError as error:  # of a kernel: the text is the dynamic linker's
        if os.strerror(errno.EMFILE) not in str(error):
            raise
        scarce = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        raise too_many_open_files(doing, scarce, error.path) from error
    except OSError as error:
        if not lacks_descriptors(error):
            raise
        raise too_many_open_files(doing, error, error.filename) from error


class SpareDescriptors:
    """Unused descriptors, which :meth:`release` frees for a close that needs some.

    They refer to no file, and are closed with this object at the latest. Where no descriptors
    are free there are fewer.
    """

    def __init__(self, count: int) -> None:
        self._owned: list[OwnedDescriptor] = []
        with suppress(OSError):
            for _ in range(count):
                self._owned.append(OwnedDescriptor(os.eventfd(0, os.EFD_CLOEXEC)))

    def release(self) -> None:
        """Close them; a second call does nothing."""
        self._owned.clear()
