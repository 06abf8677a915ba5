"""Implements the embedded transaction coordinator's effects on a store.

The coordinator (:mod:`kstore.coordinator.transaction.embedded_coordinator`) is a state machine
without I/O. This module stores its states in ``__transaction_state`` and writes its markers into
the logs of the store.
"""

import logging
import weakref
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kstore.background.scheduler import ScheduledTask
from kstore.clock import now_ms
from kstore.config import LogConfig
from kstore.coordinator.internal_topics import filled_partitions
from kstore.coordinator.transaction.embedded_coordinator import EmbeddedCoordinator
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    encode_key,
    encode_value,
)
from kstore.coordinator.transaction.transaction_state_store import (
    STATE_PARTITIONS,
    STATE_PROPERTIES,
    STATE_TOPIC,
    read_states,
)
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    RecoveryNeededError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from kstore.log.read_committed import began_after
from kstore.producer_state.producer_ids import LOWEST_PRODUCER_ID, new_producer_id
from kstore.protocol.fields import partition_for_name

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.log_manager import LogManager
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

# transaction.abort.timed.out.transaction.cleanup.interval.ms
CHECK_INTERVAL_MS = 10_000
_UNREADABLE = (
    "Until the states of transactions can be read, this store is not writable, because decided "
    "transactions might be lost. mode='r' still reads it; restore the folder {0}, or let "
    "`kstore repair` write a copy of the store without the corrupt records; or move {0} away, if "
    "decided but unfinished transactions may be aborted"
)


class StoreTransactions:
    """The transaction coordinator of a store that is open for writing. Thread safe.

    Created on first use: at opening, if the store has ``__transaction_state``.
    """

    def __init__(self, store: "Store", manager: "LogManager") -> None:
        # a proxy, so that it does not keep the store alive
        self._store: Store = weakref.proxy(store)
        self.coordinator = EmbeddedCoordinator(
            self,
            max_timeout_ms=store.config.transaction_max_timeout_ms,
            lowest_producer_id=LOWEST_PRODUCER_ID,
        )
        self.is_retired = False
        self._manager = manager
        self._epoch = 0  # coordinator epoch in markers
        self._decided: dict[
            str, TransactionMetadata
        ] = {}  # the last PrepareCommit of each id, as loaded
        manager.loaded = self.end_unknown_transactions
        manager.owns_producer = self.coordinator.knows
        if STATE_TOPIC in store:
            self._load()
        for log in manager.logs:
            self.end_unknown_transactions(log)
        self._task = ScheduledTask("transactions", CHECK_INTERVAL_MS, self.run_maintenance)
        manager.more_tasks.append(self._task)

    def retire(self) -> None:
        """Hand over the transactions to a broker that starts serving the store."""
        self.is_retired = True
        self._manager.loaded = self._manager.owns_producer = None
        self._manager.more_tasks.remove(self._task)
        self.coordinator.retire()

    def _load(self) -> None:
        """Load the last state of every id; complete decided transactions of kstore's producers.

        A Kafka broker completes those of its own producers, unless their id is used here.
        """
        for tp in filled_partitions(self._store, STATE_TOPIC):
            try:
                self._take_states(self._store._log(*tp))
            except (CorruptRecordError, CorruptFileError, RecoveryNeededError) as error:
                name = f"{tp.topic}-{tp.partition}"
                raise type(error)(
                    f"{error.reason}. {_UNREADABLE.format(name)}",
                    path=error.path or name,
                    position=error.position,
                    offset=error.offset,
                ) from error
        self._drop_deleted()
        self.coordinator.finish()
        self.run_maintenance()

    def _drop_deleted(self) -> None:
        """Drop partitions from transactions that a crash deleted before they were dropped.

        Those that are created again get no markers then. Partitions of a Kafka broker's
        transactions may be on other brokers.
        """
        if self._store._catalog.offline:
            return
        used = {
            tp
            for known in self.coordinator.all()
            if known.producer_id >= LOWEST_PRODUCER_ID
            for tp in known.partitions
        }
        for topic, partition in sorted(used):
            if not self._store._catalog.partition_changes.knows(topic, partition):
                self.coordinator.drop_topic(topic, (), partition)

    def _take_states(self, log: "Log") -> None:
        """Load the last state of every id in this partition."""
        loaded = read_states(log)
        for metadata in loaded.states:
            self.coordinator.load(metadata)
        self._decided.update(loaded.commits)

    def run_maintenance(self) -> None:
        """Abort timed-out transactions; drop expired transactional ids."""
        self.coordinator.abort_timed_out()
        self.coordinator.expire(self._store.config.transactional_id_expiration_ms)

    def end_unknown_transactions(self, log: "Log") -> None:
        """Abort open transactions of kstore's own producers that have no state.

        A power failure may lose the state and keep the records. The records were never committed,
        unless the power failure lost the marker of the last commit, which is then written again.
        For a broker's producers neither is known, so their transactions hang, as in Kafka, with a
        warning.
        """
        tp = (log.topic, log.partition)
        for entry in log.producers():
            offset = entry.current_transaction_first_offset
            if (
                offset < 0
                or not self.coordinator.knows(entry.producer_id)
                or self.coordinator.is_open(entry.producer_id, tp)
            ):
                continue
            if entry.producer_id < LOWEST_PRODUCER_ID:
                _LOGGER.warning(
                    "%s-%d: a transaction hangs (producer id %d, from offset %d): it has no end "
                    "marker in the log, and is not open in the broker's %s. read_committed stops "
                    "here until `kstore transactions ... abort` or Log.append_end_marker ends it",
                    *tp, entry.producer_id, offset, STATE_TOPIC,
                )  # fmt: skip
                continue
            lost = [
                decided
                for decided in self._decided.values()
                if decided[1:3] == (entry.producer_id, entry.producer_epoch)
                and tp in decided.partitions
                and not began_after(log, entry, decided.last_update_ms)
            ]
            if lost:
                _LOGGER.warning(
                    "%s-%d: the marker of a committed transaction was lost; writing it again "
                    "(producer id %d, from offset %d)", *tp, entry.producer_id, offset,
                )  # fmt: skip
                self._end(log, *lost[0][1:3], lost[0].last_update_ms, commit=True)
                continue
            _LOGGER.warning(
                "%s-%d: a transaction without a state is aborted (producer id %d, from "
                "offset %d)", *tp, entry.producer_id, offset,
            )  # fmt: skip
            now = self.now_ms()
            self._end(log, entry.producer_id, entry.producer_epoch, now, commit=False)

    # --- effects of the coordinator ---------------------------------------------------------

    def now_ms(self) -> int:
        return now_ms()

    def new_producer_id(self) -> int:
        return new_producer_id()

    def store(self, metadata: TransactionMetadata) -> None:
        self._put(metadata.transactional_id, encode_value(metadata))

    def forget(self, transactional_id: str) -> None:
        self._put(transactional_id, None)

    def _put(self, transactional_id: str, value: bytes | None) -> None:
        log = self._state_log(transactional_id)
        log.append(value, key=encode_key(transactional_id))

    def flush_state(self, transactional_id: str) -> None:
        self._state_log(transactional_id).flush()

    def flush(self, partitions: Iterable[PartitionKey]) -> None:
        for tp in partitions:
            log = self._log(tp)
            if log is not None:
                log.flush()

    def mark(self, tp: PartitionKey, metadata: TransactionMetadata, *, commit: bool) -> None:
        """Append a marker. After a crash the decision's marker may already be in the log, and the
        open transaction may be the next one, whose state a power failure lost; that one is aborted.
        """
        log = self._log(tp)
        if log is None:
            return
        if commit and self._decided.get(metadata.transactional_id) == metadata:
            commit = not any(
                entry.producer_id == metadata.producer_id
                and began_after(log, entry, metadata.last_update_ms)
                for entry in log.producers()
            )
        self._end(log, *metadata[1:3], metadata.last_update_ms, commit=commit)

    def _end(
        self, log: "Log", producer_id: int, producer_epoch: int, timestamp: int, *, commit: bool
    ) -> None:
        """Append a marker under a coordinator epoch that the log accepts.

        A broker that used the directory in between may have ended this producer's transactions with
        a higher epoch. The process that holds the directory's lock is the only coordinator, so no
        other needs to be fenced.
        """
        append = partial(
            log.append_end_marker, producer_id, producer_epoch, commit=commit, timestamp=timestamp
        )
        try:
            append(coordinator_epoch=self._epoch)
        except TransactionCoordinatorFencedError:
            seen = [e.coordinator_epoch for e in log.producers() if e.producer_id == producer_id]
            self._epoch = max(self._epoch, *seen)
            append(coordinator_epoch=self._epoch)

    def _log(self, tp: PartitionKey) -> "Log | None":
        """The log of a partition; None if its topic was deleted during the transaction.

        Raises LogDirOfflineError if any directory is offline, since it may contain the partition.
        """
        try:
            return self._store._log(*tp)
        except UnknownTopicOrPartitionError:
            for each in self._store._catalog.offline:
                raise each.refusal() from None
            return None

    def _state_log(self, transactional_id: str) -> "Log":
        if STATE_TOPIC not in self._store:
            self._store.create_topic(
                STATE_TOPIC,
                STATE_PARTITIONS,
                config=LogConfig.from_properties(STATE_PROPERTIES),
                exist_ok=True,
            )
        topic = self._store.topic(STATE_TOPIC)
        return topic[partition_for_name(transactional_id, len(topic))]
