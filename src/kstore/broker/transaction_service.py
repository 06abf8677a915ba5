"""Executes the transaction coordinator's decisions: records, markers, timeouts and responses.

The coordinator's state belongs to the event loop's thread, which appends states and markers itself
where that cannot block; otherwise disk workers do, in order for each partition. If acknowledgements
are durable, a transaction's records are synced before its prepare state is appended, the prepare
state before the markers, and the markers before the completed state. Requests share these syncs.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.durable_commits import durable_commits
from kstore.broker.embedded_transactions import EmbeddedTransactions
from kstore.broker.hanging_transactions import HangingTransactions
from kstore.broker.internal_topic import InternalTopic
from kstore.broker.partitions import append_at_once, error_code_of
from kstore.broker.transaction_markers import MarkerWriter
from kstore.clock import now_ms
from kstore.coordinator.transaction.end_markers import (
    AppendedMarker,
    end_unknown_transaction,
    open_transactions,
)
from kstore.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kstore.coordinator.transaction.transaction_events import (
    AddPartitions,
    AskAgain,
    Effect,
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
from kstore.coordinator.transaction.transaction_state_store import (
    STATE_PROPERTIES,
    STATE_TOPIC,
    AppendedState,
    LoadedStates,
    TransactionStateStore,
    append_state,
    encode_state,
    size_of_state,
)
from kstore.producer_state.producer_ids import LOWEST_PRODUCER_ID
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.loop import Timer
    from kstore.broker.services import Services
    from kstore.log.log import Log
    from kstore.producer_state.snapshot import ProducerEntry

_LOGGER = logging.getLogger("kstore.broker")
# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_EMPTY = TransactionState.EMPTY
_RETRY_SECONDS = 1.0  # delay before a completed state is stored again after an error
_COMPLETION_SECONDS = 0.5  # how long a request waits for the previous transaction's completion
_LOADING_SECONDS = 0.5  # between checks whether all states are loaded
_VERIFICATION = "transaction.partition.verification.enable"

# The error code that a client gets for an append error (Kafka's TransactionStateManager).
_STATE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


# Retriable error codes for producers, which would not retry the originals (Kafka's ReplicaManager).
_APPEND_ERRORS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}


def transaction_service(services: "Services") -> "TransactionService":
    """The broker's transaction service; the first call creates it."""
    if services.transactions is None:
        services.transactions = TransactionService(services)
    return services.transactions


class TransactionService:
    """The transactions of one broker. Loop's thread only."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        settings = services.settings
        self.coordinator = TransactionCoordinator(
            max_timeout_ms=settings.transaction_max_timeout_ms
        )
        self._states = TransactionStateStore(services.store)
        self._commits = durable_commits(services)
        self._markers = MarkerWriter(services, self._commits)
        self.topic = InternalTopic(
            services,
            STATE_TOPIC,
            partition_count=settings.transaction_state_log_num_partitions,
            properties=STATE_PROPERTIES,
            filled=self._states.filled,
            load=self._states.load,
            on_loaded=self._take_states,
            on_lost=self._lose_states,
        )
        self._epochs: dict[int, int] = {}  # coordinator epochs, by partition of the topic
        # end offsets of records, by producer id
        self._written: dict[int, dict[PartitionKey, int]] = {}
        self._last_commits: dict[
            str, TransactionMetadata
        ] = {}  # the last committed transactions, as loaded
        self._waits: dict[object, Timer] = {}  # for completions, by the reply that is called then
        self._unchecked: list[tuple[Log, list[ProducerEntry]]] = []
        self._is_checking = False
        self._is_carrying_out = False
        self._steps: dict[type[Effect], Callable[[Any], None]] = {
            StoreTransaction: self._store,
            WriteMarkers: self._write_markers,
            WaitForCompletion: self._wait,
            AskAgain: self._ask_again,
            TransactionAnswer: self._answer,
        }
        self._embedded = EmbeddedTransactions(services, self)
        self.hanging = HangingTransactions(services)
        services.loop.call_soon(self._start)

    def take_over(self) -> None:
        """Take ownership of the store's transactions. Call it before the loop runs."""
        store = self._services.store
        with store._lock:
            known = store._known_transactions
            store._transaction_owner = self._embedded
        if known is not None and not known.is_retired:
            known.retire()

    def _start(self) -> None:
        self.topic.start()
        self._services.store._manager.loaded = self._log_loaded
        self._services.store._manager.owns_producer = self.coordinator.knows
        for log in tuple(self._services.store._logs):
            self._services.workers.submit(
                (log.topic, log.partition), partial(self._log_loaded, log), lambda *_: None
            )
        settings = self._services.settings
        self._every(
            settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self._abort_timed_out,
        )
        self._every(
            settings.transaction_remove_expired_transaction_cleanup_interval_ms, self._expire
        )

    def stop(self) -> None:
        """End the calls of other threads that wait for the loop, which has ended."""
        self._embedded.close()

    def close(self) -> None:
        """Return ownership of transactions to the store, after all disk work has ended."""
        store = self._services.store
        store._manager.loaded = store._manager.owns_producer = None
        with store._lock:
            if store._transaction_owner is self._embedded:
                store._transaction_owner = None

    def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            self._services.loop.call_later(interval_ms / 1000, run)
            work()

        self._services.loop.call_later(interval_ms / 1000, run)

    # --- transactional ids and their loading ------------------------------------------------

    def check(self, transactional_id: str) -> ErrorCode:
        """NONE if this broker coordinates an id now, otherwise INVALID_REQUEST, NOT_COORDINATOR, or
        the state of loading."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self.topic.check(transactional_id)

    def verify_append(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: PartitionKey,
        *,
        knows_abortable: bool,
    ) -> ErrorCode:
        """Verify that a producer's transaction is ongoing in a partition before records are
        appended (KIP-890). The error depends on the version of the request: TRANSACTION_ABORTABLE
        or INVALID_TXN_STATE."""
        if not self._verifies():
            return _NONE
        error = self.check(transactional_id)
        if error == ErrorCode.NOT_COORDINATOR:  # without the topic no transaction is ongoing
            error = ErrorCode.TRANSACTION_ABORTABLE
        elif error == _NONE:
            error = self.coordinator.verify(
                transactional_id, producer_id, producer_epoch, partition
            )
        if error == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return _APPEND_ERRORS.get(error, error)

    def _verifies(self) -> bool:
        """transaction.partition.verification.enable, which may change while the broker runs."""
        text = self._services.metadata.image.broker_config.get(_VERIFICATION)
        if text is None:
            return self._services.settings.transaction_partition_verification_enable
        return text == "true"

    def records_appended(self, producer_id: int, partition: PartitionKey, end_offset: int) -> None:
        """Note the end offset of a transaction's records in a partition."""
        self._written.setdefault(producer_id, {})[partition] = end_offset

    def _take_states(self, partition: int, loaded: LoadedStates) -> None:
        self._epochs[partition] = max(self._epochs.get(partition, 0), loaded.leader_epoch)
        self._last_commits.update(loaded.commits)
        for metadata in loaded.states:
            self.coordinator.load(metadata)
        self.carry_out()

    def _lose_states(self) -> None:
        """Unload all states, since the topic was deleted."""
        self.coordinator.unload([each.transactional_id for each in self.coordinator])
        self.carry_out()

    # --- effects ----------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Execute the coordinator's effects, and those that follow at once."""
        if self._is_carrying_out:
            return  # the caller is an effect
        self._is_carrying_out = True
        try:
            while effects := self.coordinator.take_effects():
                for effect in effects:
                    try:
                        self._steps[type(effect)](effect)
                    except Exception:  # the other effects do not depend on it
                        _LOGGER.exception("an effect of a transaction failed")
        finally:
            self._is_carrying_out = False

    def _wait(self, effect: WaitForCompletion) -> None:
        self._waits[effect.request.reply] = self._services.loop.call_later(
            _COMPLETION_SECONDS, self.give_up, effect.request
        )

    def _ask_again(self, effect: AskAgain) -> None:
        self._end_wait(effect.request.reply)
        self.coordinator.add_partitions(effect.request, now_ms())

    def _answer(self, effect: TransactionAnswer) -> None:
        if callable(effect.reply):
            self._end_wait(effect.reply)
            effect.reply(effect)

    def _end_wait(self, reply: object) -> None:
        timer = self._waits.pop(reply, None)
        if timer is not None:
            timer.cancel()

    def give_up(self, request: AddPartitions) -> None:
        """Answer a request now if it waits for the completion of a transaction."""
        self.coordinator.give_up(request)
        self.carry_out()

    def _is_durable(self) -> bool:
        of_topic = self.topic.config.get("kstore.acks.durable")
        if of_topic is not None:
            return of_topic == "true"
        return self._services.settings.kstore_acks_durable

    def _store(self, effect: StoreTransaction) -> None:
        metadata = effect.metadata
        if metadata is not None and metadata.state is _PREPARE_COMMIT and self._is_durable():
            self._sync_records(metadata, partial(self._records_synced, effect))
        else:
            self._append(effect)

    def _sync_records(
        self, metadata: TransactionMetadata, done: Callable[[BaseException | None], object]
    ) -> None:
        """Call ``done`` once a transaction's records are on disk. That is usually immediate,
        because their producer has waited for it."""
        written = self._written.get(metadata.producer_id, {})
        waiting = []
        for key in metadata.partitions:
            log = self._services.partitions.get(*key).log
            if log is not None:
                end_offset = written.get(key, log._data_end)
                if log.recovery_point < end_offset:
                    waiting.append((log, end_offset))
        if not waiting:
            done(None)
            return
        errors: list[BaseException | None] = []

        def synced(error: BaseException | None) -> None:
            errors.append(error)
            if len(errors) == len(waiting):
                done(next((each for each in errors if each is not None), None))

        for log, end_offset in waiting:
            self._commits.wait(log, end_offset, synced)

    def _records_synced(self, effect: StoreTransaction, error: BaseException | None) -> None:
        if error is None:
            self._append(effect)
        else:
            self._stored(effect, error)

    def _append(self, effect: StoreTransaction) -> None:
        if not self.topic.partition_count:
            self.coordinator.stored(effect, ErrorCode.NOT_COORDINATOR)
            self.carry_out()
            return
        partition = self.topic.partition_of(effect.transactional_id)
        try:
            appended = self._append_at_once(partition, effect)
        except Exception as error:
            self._appended(effect, None, error)
            return
        if appended is not None:
            self._appended(effect, appended, None)
            return
        self._services.workers.submit(
            (STATE_TOPIC, partition),
            partial(self._states.append, partition, effect.transactional_id, effect.metadata),
            partial(self._appended, effect),
        )

    def _append_at_once(self, partition: int, effect: StoreTransaction) -> AppendedState | None:
        """Append a state without a worker, whose turn would cost more than the append; None,
        without any effect, if the append may block or has to wait for others of its partition."""
        log = self._states.loaded_log(partition)
        if log is None or log.closed or self._services.workers.is_busy((STATE_TOPIC, partition)):
            return None
        state = encode_state(effect.transactional_id, effect.metadata)
        return append_at_once(log, size_of_state(state), partial(append_state, log, state))

    def _appended(
        self, effect: StoreTransaction, appended: AppendedState | None, error: BaseException | None
    ) -> None:
        if appended is None or not effect.must_sync or not self._must_sync(effect):
            self._stored(effect, error)
        else:
            self._commits.wait(appended.log, appended.end_offset, partial(self._stored, effect))

    def _must_sync(self, effect: StoreTransaction) -> bool:
        is_init = effect.metadata is not None and effect.metadata.state is _EMPTY
        return is_init or effect.is_durable or self._is_durable()

    def _stored(self, effect: StoreTransaction, error: BaseException | None) -> None:
        code = _NONE
        if error is not None:
            code = error_code_of(error)
            code = _STATE_ERRORS.get(code, code)
            _LOGGER.warning(
                "the state of transactional id %r was not stored: %s",
                effect.transactional_id, error,
            )  # fmt: skip
            self._services.loop.call_later(_RETRY_SECONDS, self._store_again)
        self.coordinator.stored(effect, code)
        self.carry_out()

    def _store_again(self) -> None:
        if self.coordinator.store_again():
            self.carry_out()

    def _write_markers(self, effect: WriteMarkers) -> None:
        metadata = effect.metadata
        partition = self.topic.partition_of(metadata.transactional_id)
        self._written.pop(metadata.producer_id, None)

        def on_epoch(epoch: int) -> None:
            self._epochs[partition] = max(self._epochs.get(partition, 0), epoch)

        def done() -> None:
            self.coordinator.marked(effect, now_ms())
            self.carry_out()

        self._markers.write(
            metadata,
            self._epochs.get(partition, 0),
            on_epoch,
            done,
            is_durable=effect.is_durable or self._is_durable(),
        )

    # --- time -------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        for name in self.coordinator.abort_timed_out(now_ms()):
            _LOGGER.warning("aborting the transaction of %r, which exceeded its timeout", name)
        self.coordinator.store_again()
        self.carry_out()
        self.hanging.look()

    def _expire(self) -> None:
        settings = self._services.settings
        expired = self.coordinator.expire(now_ms(), settings.transactional_id_expiration_ms)
        if expired:
            _LOGGER.info("expired %d transactional ids", len(expired))
        self.carry_out()

    # --- open transactions without a state ----------------------------------------------------

    def _log_loaded(self, log: "Log") -> None:
        """Called on the thread that opened a log."""
        found = open_transactions(log)
        if found:
            self._services.loop.call_soon_threadsafe(self._found_open, log, found)

    def _found_open(self, log: "Log", found: "list[ProducerEntry]") -> None:
        self._unchecked.append((log, found))
        if not self._is_checking:
            self._is_checking = True
            self._check_open()

    def _check_open(self) -> None:
        """Once all states are loaded, end or report open transactions without a transactional
        id."""
        if self.topic.is_loading:
            for partition in range(self.topic.partition_count):
                self.topic.state_of(partition)
            self._services.loop.call_later(_LOADING_SECONDS, self._check_open)
            return
        self._is_checking = False
        unchecked, self._unchecked = self._unchecked, []
        for log, found in unchecked:
            for entry in found:
                key = (log.topic, log.partition)
                if not self.coordinator.is_open(entry.producer_id, key):
                    self._end_unknown(log, entry, key)

    def _end_unknown(self, log: "Log", entry: "ProducerEntry", key: PartitionKey) -> None:
        is_own = entry.producer_id >= LOWEST_PRODUCER_ID
        if not is_own or not self.coordinator.knows(entry.producer_id):
            _LOGGER.warning(
                "%s-%d: a transaction hangs (producer id %d, from offset %d): no transactional id "
                "has it, and read_committed consumers stop here until `kstore transactions "
                "abort` or Kafka's kafka-transactions ends it",
                *key, entry.producer_id, entry.current_transaction_first_offset,
            )  # fmt: skip
            return
        commits = [
            each
            for each in self._last_commits.values()
            if each[1:3] == (entry.producer_id, entry.producer_epoch) and key in each.partitions
        ]

        def ended(appended: AppendedMarker | None, error: BaseException | None) -> None:
            if error is not None or appended is not None:
                _LOGGER.warning(
                    "%s-%d: a transaction without a state is ended (producer id %d, from offset "
                    "%d)%s", *key, entry.producer_id, entry.current_transaction_first_offset,
                    "" if error is None else f": {error}",
                )  # fmt: skip

        self._services.workers.submit(
            key, partial(end_unknown_transaction, log, entry, commits, 0), ended
        )
