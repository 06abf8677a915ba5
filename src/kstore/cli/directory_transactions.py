"""The transactions of a directory, for ``kstore transactions``."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kstore.cli.common import WrongOptionsError, named_topic, node_id
from kstore.clock import now_ms
from kstore.partition_files import read_all_states
from kstore.remote.answer_errors import raise_for
from kstore.remote.transactions import (
    TRANSACTIONAL_ID_NOT_FOUND,
    ListedTransaction,
    ProducerDescription,
    TransactionDescription,
)
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import TransactionMetadata
    from kstore.store.store import Store


class DirectoryTransactions:
    """The states in ``__transaction_state`` and the producers of logs, as a broker answers them.

    They come from the files, so they may be read beside the directory's writer.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._node = node_id(store)

    @cached_property
    def _states(self) -> "dict[str, TransactionMetadata]":
        """Read when first needed: producers are described beside damaged states."""
        return {each.transactional_id: each for each in read_all_states(self._store)}

    def listed(
        self, producer_ids: Iterable[int] = (), *, longer_than_ms: int | None = None
    ) -> "list[ListedTransaction]":
        wanted, now = set(producer_ids), now_ms()
        return [
            ListedTransaction(name, self._node, each.producer_id, each.state.kafka_name)
            for name, each in self._states.items()
            if not wanted or each.producer_id in wanted
            if longer_than_ms is None or now - each.start_ms > longer_than_ms
        ]

    def describe(self, transactional_id: str) -> TransactionDescription:
        found = self.find(transactional_id)
        if found is None:
            raise_for(TRANSACTIONAL_ID_NOT_FOUND, None, transactional_id)
            raise AssertionError  # unreachable
        return found

    def find(self, transactional_id: str) -> TransactionDescription | None:
        found = self._states.get(transactional_id)
        if found is None:
            return None
        return TransactionDescription(
            transactional_id,
            self._node,
            found.producer_id,
            found.producer_epoch,
            found.state.kafka_name,
            found.timeout_ms,
            None if found.start_ms < 0 else found.start_ms,
            tuple(TopicPartition(*tp) for tp in sorted(found.partitions)),
        )

    def producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None
    ) -> dict[TopicPartition, "list[ProducerDescription]"]:
        self._check(broker)
        return {tp: producers_of(self._log(tp)) for tp in partitions}

    def partitions(self, topic: str | None, broker: int | None) -> "list[TopicPartition]":
        """The partitions of a topic, or all: a directory belongs to one broker."""
        self._check(broker)
        names = list(self._store) if topic is None else [named_topic(self._store, topic).name]
        return [
            TopicPartition(name, number)
            for name in names
            for number in sorted(self._store[name].partitions)
        ]

    def abort(self, tp: TopicPartition, producer_id: int, epoch: int, coordinator: int) -> None:
        """Append the ABORT marker, which is on disk on return."""
        log = self._log(tp)
        log.append_end_marker(producer_id, epoch, commit=False, coordinator_epoch=coordinator)
        log.flush()

    def _log(self, tp: TopicPartition) -> "Log":
        return named_topic(self._store, tp.topic)[tp.partition]

    def _check(self, broker: int | None) -> None:
        if broker not in (None, self._node):
            raise WrongOptionsError(
                f"--broker-id {broker}: the directory belongs to broker {self._node}"
            )


def producers_of(log: "Log") -> "list[ProducerDescription]":
    """The producers of a log, with the start offsets of their open transactions."""
    return [
        ProducerDescription(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.timestamp,
            (
                None
                if each.current_transaction_first_offset < 0
                else each.current_transaction_first_offset
            ),
        )
        for each in log.producers()
    ]
