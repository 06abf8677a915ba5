"""The transaction coordinator's interface for embedded producers."""

from collections.abc import Iterable
from typing import Protocol

from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
)


class TransactionOwner(Protocol):
    """The single coordinator of a store's transactions: the store's own, or that of the broker that
    serves the store. Thread safe; every method may block.

    The errors are those of ``EmbeddedCoordinator`` in
    :mod:`kstore.coordinator.transaction.embedded_coordinator`.
    """

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Return a producer id and epoch; fence earlier producers of the id."""

    def check(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> TransactionMetadata:
        """The state of an id, for the producer that has it."""

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[PartitionKey],
    ) -> None:
        """Add partitions to the transaction; on return they are stored."""

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        durable: bool = True,
    ) -> None:
        """Commit or abort; on return the markers are written."""

    def drop_topic(
        self, topic: str, users: Iterable[str] = (), partition: int | None = None
    ) -> None:
        """Remove a topic, or a partition of it, that is being deleted from its transactions."""
