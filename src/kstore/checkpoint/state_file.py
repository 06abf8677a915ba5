"""JSON state files, of which every log directory of a store has a copy: ``kstore.topics``,
``kstore.broker``, ``kstore.acls``, ``kstore.credentials``.

Such a file has a format version and a generation, which grows with every write::

    {"format": 1, "generation": 7, ...}

The copy with the highest generation counts. So a crash between two writes, or a directory that was
missing or offline for a while, does no harm.
"""

import json
from collections.abc import Callable, Iterable
from os.path import join
from typing import Any, NamedTuple, Protocol, TypeVar

from kstore.errors import CorruptFileError, KStoreError, NewerFormatError, StorageError
from kstore.files.failure_detector import FailureDetectingFiles
from kstore.lazy_dataclass import lazy_dataclass

_MAX_SIZE = 1 << 26

State = TypeVar("State")
Value = TypeVar("Value")


class Directory(Protocol):
    """The part of a log directory that this module uses."""

    path: str
    files: FailureDetectingFiles
    offline: StorageError | None


class StateDocument(NamedTuple):
    """The content of one file; ``body`` includes ``format`` and ``generation``."""

    generation: int
    body: dict[str, Any]
    path: str


@lazy_dataclass(frozen=True)
class StateFile:
    """A state file, by its name. Immutable.

    ``newest_format`` is the newest format that this version of kstore reads. Only its owner can
    read a private file, and no error message quotes it.
    """

    name: str
    newest_format: int
    is_private: bool = False

    def read_newest(
        self, directories: Iterable[Directory], parse: Callable[[StateDocument], State]
    ) -> tuple[int, State | None]:
        """Generation and content of the newest file; 0 and None without one.

        ``parse`` raises CorruptFileError, KeyError, TypeError or ValueError for invalid content;
        it is called for each file. Raises NewerFormatError for a file of a newer kstore,
        CorruptFileError for an invalid file.
        """
        newest: tuple[int, State | None] = (0, None)
        for _, document in self.read_all(directories):
            try:
                found = parse(document)
            except KStoreError:
                raise
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise CorruptFileError(f"{self.name} does not parse", path=document.path) from None
            if document.generation > newest[0]:
                newest = document.generation, found
        return newest

    def read_all(self, directories: Iterable[Directory]) -> list[tuple[Directory, StateDocument]]:
        """The file of each online directory that has one. Raises as :meth:`parse`."""
        found = []
        for directory in directories:
            path = join(directory.path, self.name)
            if directory.offline is None and directory.files.exists(path):
                data = directory.files.read(path, _MAX_SIZE)
                found.append((directory, self.parse(data, path)))
        return found

    def parse(self, data: bytes, path: str) -> StateDocument:
        """Parse the frame. Raises NewerFormatError, CorruptFileError."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(
                f"{self.name} does not parse as JSON: {error}", path=path
            ) from None
        frame = body if isinstance(body, dict) else {}
        version, generation = frame.get("format"), frame.get("generation")
        if type(version) is int and version > self.newest_format:
            raise NewerFormatError(
                f"{self.name} has format {version} and was written by a newer kstore; this one "
                f"knows formats up to {self.newest_format}",
                path=path,
            )
        if type(version) is not int or type(generation) is not int or min(version, generation) < 1:
            raise CorruptFileError(
                f"{self.name} does not parse: 'format' and 'generation' must be positive integers",
                path=path,
            )
        return StateDocument(generation, body, path)

    def value(
        self, body: object, key: str, kind: type[Value], path: str, default: Value | None = None
    ) -> Value:
        """The value of a key in an object of the file. Raises CorruptFileError for another type,
        and for a missing key without a default."""
        found = body.get(key, default) if isinstance(body, dict) else None
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            shown = "another type" if self.is_private else repr(found)
            raise CorruptFileError(
                f"{self.name}: {key!r} must be {kind.__name__}, not {shown}", path=path
            )
        return found

    def write(
        self,
        directories: Iterable[Directory],
        generation: int,
        content: dict[str, Any],
        *,
        version: int | None = None,
    ) -> None:
        """Replace the file atomically in each online directory.

        ``version``: the format, the newest by default. Raises StorageError if all directories fail.
        """
        frame = {"format": version or self.newest_format, "generation": generation}
        data = json.dumps(frame | content, indent=1).encode() + b"\n"
        is_written, failure = False, None
        for directory in directories:
            if directory.offline is not None:
                failure = failure or directory.offline
                continue
            files = directory.files
            write = files.write_private if self.is_private else files.write_atomically
            try:
                write(join(directory.path, self.name), data)
                is_written = True
            except StorageError as error:
                if directory.offline is None:  # the directory itself still works
                    raise
                failure = failure or error
        if not is_written and failure is not None:
            raise failure
