"""The transactions of a server, for ``kstore transactions``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.remote import transactions
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore
    from kstore.remote.transactions import (
        ListedTransaction,
        ProducerDescription,
        TransactionDescription,
    )


class ServerTransactions:
    """What the coordinators and leaders of a cluster answer."""

    def __init__(self, store: "RemoteStore") -> None:
        self._store = store

    def listed(
        self, producer_ids: Iterable[int] = (), *, longer_than_ms: int | None = None
    ) -> "list[ListedTransaction]":
        return transactions.list_transactions(
            self._store.cluster, producer_ids=producer_ids, longer_than_ms=longer_than_ms
        )

    def describe(self, transactional_id: str) -> "TransactionDescription":
        return transactions.describe_transaction(self._store.cluster, transactional_id)

    def find(self, transactional_id: str) -> "TransactionDescription | None":
        return transactions.find_transaction(self._store.cluster, transactional_id)

    def producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None
    ) -> "dict[TopicPartition, list[ProducerDescription]]":
        return transactions.describe_producers(self._store.cluster, partitions, broker=broker)

    def partitions(self, topic: str | None, broker: int | None) -> "list[TopicPartition]":
        """The partitions of a topic, or all; those with a replica on a broker."""
        names = None if topic is None else [self._store[topic].name]
        return [
            TopicPartition(name, partition.partition_index)
            for name, entry in sorted(self._store.cluster.metadata(names).items())
            for partition in entry.partitions
            if broker is None or broker in partition.replica_nodes
        ]

    def abort(self, tp: TopicPartition, producer_id: int, epoch: int, coordinator: int) -> None:
        transactions.abort_transaction(self._store.cluster, tp, producer_id, epoch, coordinator)
