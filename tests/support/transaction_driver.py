"""Drives a transaction coordinator: executes effects immediately, with a clock that the test
advances."""

from collections.abc import Iterable
from itertools import count

from kstore.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kstore.coordinator.transaction.transaction_events import (
    AddPartitions,
    AskAgain,
    EndTransaction,
    InitProducerId,
    StoreTransaction,
    TransactionAnswer,
    WaitForCompletion,
    WriteMarkers,
)
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    TransactionState,
)
from kstore.protocol.error_codes import ErrorCode

Producer = tuple[int, int]


class TransactionDriver:
    """Stores states and writes markers immediately, unless a test holds them."""

    def __init__(self) -> None:
        ids = count(100)
        self.coordinator = TransactionCoordinator(max_timeout_ms=60_000, new_id=lambda: next(ids))
        self.now = 1_000_000
        self.log: list[
            tuple[str, TransactionMetadata | None]
        ] = []  # the contents of __transaction_state
        self.marked: list[tuple[str, bool, frozenset[PartitionKey]]] = []
        self.store_error = ErrorCode.NONE
        self.held_stores: list[StoreTransaction] | None = None
        self.held_markers: list[WriteMarkers] | None = None
        self.kept: list[AddPartitions] = []  # requests that wait for a completion
        self.answers: dict[int, TransactionAnswer] = {}
        self._replies = count()

    def carry_out(self) -> None:
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, TransactionAnswer):
                    assert isinstance(effect.reply, int)
                    assert effect.reply not in self.answers, "answered twice"
                    self.answers[effect.reply] = effect
                elif isinstance(effect, StoreTransaction):
                    if self.held_stores is not None:
                        self.held_stores.append(effect)
                    else:
                        self.store(effect)
                elif isinstance(effect, WaitForCompletion):
                    self.kept.append(effect.request)
                elif isinstance(effect, AskAgain):
                    self.coordinator.add_partitions(effect.request, self.now)
                elif self.held_markers is not None:
                    self.held_markers.append(effect)
                else:
                    self.mark(effect)

    def store(self, effect: StoreTransaction) -> None:
        if self.store_error == ErrorCode.NONE:
            self.log.append((effect.transactional_id, effect.metadata))
        self.coordinator.stored(effect, self.store_error)

    def mark(self, effect: WriteMarkers) -> None:
        metadata = effect.metadata
        is_commit = metadata.state is TransactionState.PREPARE_COMMIT
        self.marked.append((metadata.transactional_id, is_commit, metadata.partitions))
        self.coordinator.marked(effect, self.now)

    def release(self) -> None:
        """Execute the held effects."""
        stores, self.held_stores = self.held_stores or [], None
        markers, self.held_markers = self.held_markers or [], None
        for each in stores:
            self.store(each)
        for marker in markers:
            self.mark(marker)
        self.carry_out()

    # --- requests: the response, None while it waits ----------------------------------------

    def init(
        self, name: str = "x", *, timeout_ms: int = 10_000, expected: Producer = (-1, -1)
    ) -> TransactionAnswer | None:
        reply = next(self._replies)
        self.coordinator.init_producer_id(
            InitProducerId(
                transactional_id=name,
                timeout_ms=timeout_ms,
                producer_id=expected[0],
                producer_epoch=expected[1],
                reply=reply,
            ),
            self.now,
        )
        return self._answer(reply)

    def producer(self, name: str = "x", **fields: int) -> Producer:
        answer = self.init(name, **fields)
        assert answer is not None
        assert answer.error == ErrorCode.NONE
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        producer: Producer,
        partitions: Iterable[PartitionKey] = (("t", 0),),
        name: str = "x",
        *,
        may_wait: bool = False,
    ) -> ErrorCode | None:
        reply = next(self._replies)
        self.coordinator.add_partitions(
            AddPartitions(
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                partitions=frozenset(partitions),
                may_wait=may_wait,
                reply=reply,
            ),
            self.now,
        )
        return self._error(reply)

    def end(
        self, producer: Producer, *, commit: bool, name: str = "x", waits_for_markers: bool = False
    ) -> ErrorCode | None:
        reply = next(self._replies)
        self.coordinator.end(
            EndTransaction(
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                is_commit=commit,
                waits_for_markers=waits_for_markers,
                reply=reply,
            ),
            self.now,
        )
        return self._error(reply)

    def state(self, name: str = "x") -> TransactionState | None:
        found = self.coordinator.find(name)
        return None if found is None else found.state

    def last_answer(self) -> TransactionAnswer:
        return self.answers[max(self.answers)]

    def _answer(self, reply: int) -> TransactionAnswer | None:
        self.carry_out()
        return self.answers.get(reply)

    def _error(self, reply: int) -> ErrorCode | None:
        answer = self._answer(reply)
        return None if answer is None else answer.error
