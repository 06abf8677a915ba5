"""What a store's log directory contains now, for ``store.log_dirs`` and DescribeLogDirs."""

from typing import NamedTuple

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.uncleanable_partitions import UncleanablePartition, try_to_read_uncleanable
from kstore.errors import StorageError
from kstore.files.filenames import DELETE, FUTURE, STRAY


class LogDirInfo(NamedTuple):
    """The current state of a store's log directory. Folders have their names on disk."""

    path: str
    offline: StorageError | None  # why it is not used until the store is reopened
    partitions: tuple[tuple[str, int], ...]
    futures: tuple[str, ...]  # -future: copies of unfinished moves
    deleted: tuple[str, ...]  # -delete: to be removed
    strays: tuple[str, ...]  # -stray: set aside by a Kafka broker, never touched
    strangers: tuple[str, ...]  # unrecognized: Kafka refuses to start
    uncleanable: tuple[UncleanablePartition, ...] = ()  # not compacted until the cause is removed


def describe_log_dir(
    log_dir: LogDir, uncleanable: tuple[UncleanablePartition, ...] | None
) -> LogDirInfo:
    """List a directory, unless it is offline. Raises StorageError if it cannot be listed.

    ``uncleanable``: those of all directories, of the store's own cleaner; None: read what the
    writer, another process, saved.
    """
    contents = None
    if log_dir.offline is None:
        contents = log_dir.scan()
        if uncleanable is None:
            uncleanable = try_to_read_uncleanable(log_dir.files, log_dir.path)
    partitions = (
        () if contents is None else tuple(sorted(entry[:2] for entry in contents.partitions))
    )
    folders = {} if contents is None else contents.retired

    def named(state: str) -> tuple[str, ...]:
        return tuple(sorted(name for name, found in folders.items() if found.state == state))

    return LogDirInfo(
        log_dir.path,
        log_dir.offline,
        partitions,
        named(FUTURE),
        named(DELETE),
        named(STRAY),
        () if contents is None else tuple(contents.unrecognized),
        tuple(entry for entry in uncleanable or () if entry[:2] in partitions),
    )
