"""Lists the partitions of several log directories while another process moves some of them.

The directories are listed one after the other, so a partition that is renamed from one to another
in between may be in neither listing, or in both. Such a listing is repeated.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kstore.checkpoint.log_dir import Contents, LogDir
from kstore.errors import CorruptFileError, StorageError
from kstore.files import marker_file
from kstore.files.failure_detector import keeps_from_opening
from kstore.files.filenames import MOVED, PartitionName, partition_directory
from kstore.files.modification_time import is_settled
from kstore.store.partition_factory import peek_end_offset

_PASSES = 20  # maximum number of listings of all directories


class Retired(NamedTuple):
    """A folder with one of Kafka's suffixes: ``-delete``, ``-future`` or ``-stray``."""

    log_dir: LogDir
    folder: str
    name: PartitionName


class Listing(NamedTuple):
    """The names in all log directories of a store."""

    log_dirs: dict[str, dict[int, LogDir]]  # by topic and partition
    retired: list[Retired]
    superseded: list[tuple[LogDir, PartitionName]]  # old copies of finished moves
    unrecognized: list[str]  # paths of unrecognized directories
    loose_files: tuple[str, ...]
    stamps: list[int] | None  # modification times of the directories; None: just changed


def list_log_dirs(dirs: Sequence[LogDir]) -> Listing:
    """List the directories of a store; a reader repeats it while the names change.

    A listing counts where no directory has changed since before it, or where the partitions of
    the one before were the same. Only the writer of a store moves partitions: its own listing
    needs no repetition. Raises CorruptFileError if two directories have the same partition,
    StorageError if no directory can be listed.
    """
    before: list[list[PartitionName]] | None = None
    for attempt in range(_PASSES):
        is_last = len(dirs) == 1 or dirs[0].writable or attempt == _PASSES - 1
        stamps = [each.modified_ns for each in dirs]
        is_quiet = all(map(is_settled, stamps))
        found = [(each, contents) for each in dirs if (contents := _scan(each, dirs)) is not None]
        names = [contents.partitions for _, contents in found]
        if not is_last and is_quiet:
            is_last = stamps == [each.modified_ns for each in dirs]
        if is_last or _is_equal(names, before):
            try:
                return _merge(found, stamps if is_quiet else None)
            except (CorruptFileError, StorageError):  # one of two copies is gone meanwhile
                if is_last:
                    raise
                names = []
        before = names
    raise AssertionError("the last pass returns or raises")


def _is_equal(names: list[list[PartitionName]], before: list[list[PartitionName]] | None) -> bool:
    return (
        before is not None
        and len(names) == len(before)
        and all(set(one) == set(other) for one, other in zip(names, before, strict=True))
    )


def _scan(directory: LogDir, dirs: Sequence[LogDir]) -> Contents | None:
    """The contents of a directory; None if it is offline, or fails while others are readable.

    A writer tries only once: a failed directory stays offline until the store is reopened.
    """
    if directory.offline is not None and directory.writable:
        return None
    try:
        contents = directory.scan()
    except StorageError as error:
        if len(dirs) == 1 or not keeps_from_opening(error):
            raise
        directory.fail(error)
        return None
    directory.offline = None
    return contents


def _merge(found: list[tuple[LogDir, Contents]], stamps: list[int] | None) -> Listing:
    log_dirs: dict[str, dict[int, LogDir]] = {}
    retired: list[Retired] = []
    superseded: list[tuple[LogDir, PartitionName]] = []
    unrecognized: list[str] = []
    loose: list[str] = []
    for directory, contents in found:
        unrecognized += (directory.join(name) for name in contents.unrecognized)
        loose += (directory.join(name) for name in contents.files)
        retired += (Retired(directory, *item) for item in contents.retired.items())
        for name in contents.partitions:
            where = log_dirs.setdefault(name.topic, {})
            first = where.get(name.partition)
            if first is None:
                where[name.partition] = directory
            else:
                where[name.partition], other = _choose(name, first, directory)
                superseded.append((other, name))
    return Listing(log_dirs, retired, superseded, unrecognized, tuple(loose), stamps)


def _choose(name: PartitionName, first: LogDir, second: LogDir) -> tuple[LogDir, LogDir]:
    """Which of two copies of a partition to use after an interrupted move of kstore, the other.

    ``kstore.moved`` marks the new copy as complete until the old one is removed. Without it
    the copies cannot be distinguished: Kafka does not start on such directories either.
    """
    folder = partition_directory(name.topic, name.partition)
    complete, ends = [], []
    for each in (first, second):
        if marker_file.exists(each.files, each.join(folder, MOVED)):
            complete.append(each)
        else:
            ends.append(peek_end_offset(each.files, each.join(folder), 0))
    if (
        len(complete) == 1
        and peek_end_offset(complete[0].files, complete[0].join(folder), 0) >= ends[0]
    ):
        return complete[0], second if complete[0] is first else first
    raise CorruptFileError(
        f"partition {name.topic}-{name.partition} is in two log directories, here and in "
        f"{first.path}; remove one of them (Kafka does not start either)",
        path=second.join(folder),
    )
