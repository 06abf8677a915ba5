"""Lists partitions for tools, while another process may delete topics."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.errors import ClosedError, StorageError, UnknownTopicOrPartitionError
from kstore.files.files import DISK
from kstore.lazy_dataclass import lazy_dataclass

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

_MAX_ATTEMPTS = 3  # a topic may be deleted and recreated while its partitions are listed


@lazy_dataclass(frozen=True)
class FoundLog:
    """A listed partition, for tools that work on its files beside a writer."""

    log: "Log"
    size: int  # bytes of its logs
    inode: int | None  # of its folder
    store: "Store"
    identity: str | None  # of its topic

    def exists(self) -> bool:
        """Whether it was not deleted since; its owner may have moved it."""
        now = DISK.identity_of(self.log.path)
        if now is not None and now[0] == self.inode:
            return True
        if self.identity is None:
            return False
        topic, partition = self.log.topic, self.log.partition
        return (
            topic in self.store
            and partition in self.store._catalog.topics.get(topic, ())
            and self.store._manager.identities.is_same(topic, self.identity)
        )


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
    identity = store._manager.identities.identity_of(name)
    inodes = [(DISK.identity_of(log.path) or (None,))[0] for log in logs]
    return [
        FoundLog(log, log.size, inode, store, identity)
        for log, inode in zip(logs, inodes, strict=True)
    ]
