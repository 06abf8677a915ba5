"""Lists partitions for tools, while another process may delete topics."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore.errors import ClosedError, StorageError, UnknownTopicOrPartitionError
from kstore.files.files import DISK

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

_MAX_ATTEMPTS = 3  # a topic may be deleted and recreated while its partitions are listed


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A listed partition, for tools that work on its files beside a writer."""

    log: "Log"
    size: int  # bytes of its logs
    inode: int | None  # of its folder

    def exists(self) -> bool:
        """Whether its folder still is the listed one and was not deleted since."""
        identity = DISK.identity_of(self.log.path)
        return identity is not None and identity[0] == self.inode


def find_logs(
    store: "Store", names: Iterable[str], *, partition: int | None = None
) -> tuple[list[FoundLog], list[str]]:
    """The partitions of some topics, or one partition of each, and a note on each deleted topic.

    A writer in another process may delete and recreate topics meanwhile. Raises
    StorageError for a partition that exists and cannot be read.
    """
    found: list[FoundLog] = []
    notes = []
    for name in names:
        for _ in range(_MAX_ATTEMPTS):
            try:
                found += _logs_of(store, name, partition)
                break
            except (UnknownTopicOrPartitionError, StorageError, ClosedError) as error:
                failure = error
                if name not in store:
                    notes.append(f"{name}: skipped, the topic was deleted meanwhile")
                    break
        else:
            raise failure
    return found, notes


def _logs_of(store: "Store", name: str, partition: int | None) -> list[FoundLog]:
    topic = store[name]
    logs = list(topic) if partition is None else [topic[partition]]
    inodes = [DISK.identity_of(log.path) or (None, 0) for log in logs]
    return [FoundLog(log, log.size, inode) for log, (inode, _) in zip(logs, inodes, strict=True)]
