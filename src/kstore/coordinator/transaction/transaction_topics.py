"""Checks that no topic, partition or record of a transaction is deleted before its commit."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.errors import InvalidTxnStateError

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store


class TransactionTopics:
    """The topics of one producer's transaction, with their identities at its start, and its
    partitions.

    A transaction must not write records, offsets or markers of a deleted topic or partition to
    one that was recreated under its name, and its commit must not leave out records that were
    deleted, or removed by a truncation. Kafka only compares names. Not thread-safe.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._catalog = store._catalog
        self._version = -1
        self._identities: dict[str, str | None] = {}
        self._partitions: dict[tuple[str, int], int] = {}  # how often each was deleted before
        # The logs with records of the transaction, how often each was truncated before the last
        # append, and the offset after that.
        self._appended: dict[tuple[str, int], tuple[Log, int, int]] = {}

    def has(self, topic: str, partition: int | None = None) -> bool:
        """Whether the transaction uses a topic, or a partition of it."""
        if partition is None:
            return topic in self._identities
        return (topic, partition) in self._partitions

    def add(self, topic: str) -> None:
        """Add a topic before its first use in the transaction."""
        if topic not in self._identities:
            self._identities[topic] = self._store._manager.identities.identity_of(topic)
        if self._version != self._catalog.version:
            self.check()

    def add_partition(self, key: tuple[str, int]) -> None:
        """Add a partition before the first record for it."""
        self._partitions.setdefault(key, self._catalog.partition_changes.deletions[key])

    def check(self) -> None:
        """Raise InvalidTxnStateError if one of the topics or partitions was deleted since."""
        version = self._catalog.version
        for topic, known in self._identities.items():
            if not self._store._manager.identities.is_same(topic, known):
                raise deleted(f"topic {topic!r}")
        for key, known_deletions in self._partitions.items():
            if self._catalog.partition_changes.deletions[key] != known_deletions:
                raise deleted(f"partition {key[0]}-{key[1]}")
        self._version = version

    def append(self, key: tuple[str, int], log: "Log", append: Callable[[], int]) -> None:
        """Append records of the transaction to a partition; ``append`` returns the offset after
        them. Raises as :meth:`check_records`, before the append."""
        self._check_records(key)
        count = len(log._truncations)
        self._appended[key] = log, count, append()

    def check_records(self) -> None:
        """Raise InvalidTxnStateError if this process has truncated records of the transaction."""
        for key in self._appended:
            self._check_records(key)

    def _check_records(self, key: tuple[str, int]) -> None:
        if key in self._appended:
            log, count, end = self._appended[key]
            lowest = min(log._truncations[count:], default=end)
            if lowest < end:
                raise InvalidTxnStateError(
                    f"partition {key[0]}-{key[1]} was truncated to offset {lowest}, and records of "
                    "the transaction are gone: it can only be aborted"
                )

    def clear(self) -> None:
        self._appended.clear()
        self._identities.clear()
        self._partitions.clear()


def deleted(what: str) -> InvalidTxnStateError:
    return InvalidTxnStateError(
        f"{what}, which the transaction uses, was deleted since it began: the "
        "transaction can only be aborted"
    )
