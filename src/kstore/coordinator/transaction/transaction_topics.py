"""Checks that no topic of a transaction is deleted before its commit."""

from typing import TYPE_CHECKING

from kstore.errors import InvalidTxnStateError

if TYPE_CHECKING:
    from kstore.store.store import Store


class TransactionTopics:
    """The topics of one producer's transaction, with their identities at its start.

    A transaction must not write records, offsets or markers of a deleted topic to a topic that
    was recreated under its name. Kafka only compares names. Not thread-safe.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._catalog = store._catalog
        self._version = -1
        self._identities: dict[str, str | None] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._identities

    def add(self, topic: str) -> None:
        """Add a topic before its first use in the transaction."""
        if topic not in self._identities:
            self._identities[topic] = self._store._manager.identities.identity_of(topic)
        if self._version != self._catalog.version:
            self.check()

    def check(self) -> None:
        """Raise InvalidTxnStateError if one of the topics was deleted since."""
        version = self._catalog.version
        for topic, known in self._identities.items():
            if not self._store._manager.identities.is_same(topic, known):
                raise deleted(topic)
        self._version = version

    def clear(self) -> None:
        self._identities.clear()


def deleted(topic: str) -> InvalidTxnStateError:
    return InvalidTxnStateError(
        f"topic {topic!r}, which the transaction uses, was deleted since it began: the "
        "transaction can only be aborted"
    )
