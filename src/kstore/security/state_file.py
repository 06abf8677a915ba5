"""A small JSON file of security state, identical in every log directory.

The file with the highest ``generation`` is used, as for ``kstore.broker``. Error messages do not
show the contents of a file.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kstore.checkpoint.log_dir import LogDir
from kstore.errors import CorruptFileError, NewerFormatError, StorageError

FORMAT = 1
_MAX_SIZE = 1 << 26

State = TypeVar("State")


def read_newest(
    log_dirs: Sequence[LogDir], name: str, parse: Callable[[dict[str, Any]], State]
) -> tuple[int, State | None]:
    """Generation and content of the newest file of the online directories; 0 and None without one.

    ``parse`` raises KeyError, TypeError or ValueError for invalid content. Raises NewerFormatError
    for a file of a newer kstore, CorruptFileError for an invalid file.
    """
    newest: tuple[int, State | None] = (0, None)
    for log_dir in log_dirs:
        path = log_dir.join(name)
        if log_dir.offline is not None or not log_dir.files.exists(path):
            continue
        found = _parse(log_dir.files.read(path, _MAX_SIZE), name, path, parse)
        if found[0] > newest[0]:
            newest = found
    return newest


def write_to_all(
    log_dirs: Iterable[LogDir], name: str, generation: int, content: dict[str, Any]
) -> None:
    """Replace the file in each online directory; only the owner can read it.

    Raises StorageError if all directories fail.
    """
    document = {"format": FORMAT, "generation": generation, **content}
    data = json.dumps(document, indent=1).encode() + b"\n"
    is_written, failure = False, None
    for log_dir in log_dirs:
        if log_dir.offline is not None:
            failure = failure or log_dir.offline
            continue
        try:
            log_dir.files.write_private(log_dir.join(name), data)
            is_written = True
        except StorageError as error:
            if log_dir.offline is None:  # the directory itself still works
                raise
            failure = failure or error
    if not is_written and failure is not None:
        raise failure


def _parse(
    data: bytes, name: str, path: str, parse: Callable[[dict[str, Any]], State]
) -> tuple[int, State]:
    try:
        document = json.loads(data)
        version, generation = document["format"], document.get("generation")
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormatError(
                f"{name} has format {version} and was written by a newer kstore; this one knows "
                f"formats up to {FORMAT}",
                path=path,
            )
        if not isinstance(generation, int) or generation < 1:
            raise ValueError
        return generation, parse(document)
    except NewerFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CorruptFileError(f"{name} does not parse", path=path) from None
