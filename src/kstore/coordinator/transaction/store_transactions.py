"""The transactions of a store: carries out what the transaction coordinator decides.

The coordinator (:mod:`kstore.coordinator.transaction.coordinator`) is a state machine without
I/O. This module keeps its states in ``__transaction_state`` and writes its markers into the
logs of the store.
"""

import logging
import weakref
from collections.abc import Iterable
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from kstore.background.scheduler import ScheduledTask
from kstore.config import LogConfig
from kstore.coordinator.internal_topics import filled_partitions
from kstore.coordinator.transaction.coordinator import Coordinator
from kstore.coordinator.transaction.messages import (
    LOWEST_PRODUCER_ID,
    Metadata,
    Place,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_commit,
    new_producer_id,
)
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    RecoveryNeededError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from kstore.log.read_committed import began_after
from kstore.protocol.fields import partition_for_name

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.manager import LogManager
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 50  # transaction.state.log.num.partitions
STATE_PROPERTIES = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
# transaction.abort.timed.out.transaction.cleanup.interval.ms
CHECK_INTERVAL_MS = 10_000
_UNREADABLE = (
    "Until the states of transactions can be read, nothing in this store is written: what was "
    "decided there might be lost. Reading goes on with mode='r'; restore the folder {0}, or let "
    "`kstore repair` make a copy of the store without what is damaged; or move {0} away, if what "
    "was decided and not finished may count as aborted"
)


class StoreTransactions:
    """The coordinator of a store that is open for writing, with its hands. Thread safe.

    Made when it is first needed: at opening, if the store has ``__transaction_state``.
    """

    def __init__(self, store: "Store", manager: "LogManager") -> None:
        self._store: Store = weakref.proxy(store)  # which has this, and must not be kept by it
        self.coordinator = Coordinator(
            self,
            max_timeout_ms=store.config.transaction_max_timeout_ms,
            lowest_producer_id=LOWEST_PRODUCER_ID,
        )
        self._epoch = 0  # the coordinator's, in markers
        self._decided: dict[str, Metadata] = {}  # the last PrepareCommit of each id that was read
        manager.loaded = self.settle
        if STATE_TOPIC in store:
            self._load()
        for log in manager.logs:
            self.settle(log)
        manager.more_tasks.append(ScheduledTask("transactions", CHECK_INTERVAL_MS, self.do_upkeep))

    def _load(self) -> None:
        """Read the last state of every id; finish what kstore's own producers had decided.

        What a Kafka broker's producers had decided is the broker's to finish, unless one of its
        ids is used here.
        """
        for place in filled_partitions(self._store, STATE_TOPIC):
            try:
                self._take_states(self._store._log(*place))
            except (CorruptRecordError, CorruptFileError, RecoveryNeededError) as error:
                name = f"{place.topic}-{place.partition}"
                raise type(error)(
                    f"{error.reason}. {_UNREADABLE.format(name)}",
                    path=error.path or name,
                    position=error.position,
                    offset=error.offset,
                ) from error
        self.coordinator.finish()
        self.do_upkeep()

    def _take_states(self, log: "Log") -> None:
        """The last state of every id that has its states in this partition."""
        states: dict[bytes | None, bytes | None] = {}
        commits: dict[bytes | None, bytes] = {}
        for columns in log.view().scan():
            rows = list(zip(columns.keys, columns.values, strict=True))
            states.update(rows)
            for key, value in rows:
                if value is not None and is_commit(value):
                    commits[key] = value
        for key, value in states.items():
            transactional_id = None if key is None else decode_key(key)
            if transactional_id is not None and value is not None:
                self.coordinator.load(decode_value(transactional_id, value))
                if key in commits:
                    self._decided[transactional_id] = decode_value(transactional_id, commits[key])

    def do_upkeep(self) -> None:
        """Abort what ran into its timeout; forget ids that were not used for a week."""
        self.coordinator.abort_timed_out()
        self.coordinator.expire(self._store.config.transactional_id_expiration_ms)

    def settle(self, log: "Log") -> None:
        """Abort open transactions of kstore's own producers that no state knows of.

        A power cut may take the state and leave the records. They were never committed, unless
        what it took is the marker of the last commit, which then is written again. Of a broker's
        producers neither can be told. Those hang, as they do in Kafka, and are named.
        """
        place = (log.topic, log.partition)
        for entry in log.producers():
            offset = entry.current_transaction_first_offset
            if (
                offset < 0
                or not self.coordinator.knows(entry.producer_id)
                or self.coordinator.is_open(entry.producer_id, place)
            ):
                continue
            if entry.producer_id < LOWEST_PRODUCER_ID:
                _LOGGER.warning(
                    "%s-%d: a transaction hangs (producer id %d, from offset %d): it has no end "
                    "in the log, and by the broker's %s it has none open. read_committed stops "
                    "there until Log.append_end_marker or Kafka's kafka-transactions ends it",
                    *place, entry.producer_id, offset, STATE_TOPIC,
                )  # fmt: skip
                continue
            lost = [
                decided
                for decided in self._decided.values()
                if decided[1:3] == (entry.producer_id, entry.producer_epoch)
                and place in decided.partitions
                and not began_after(log, entry, decided.last_update_ms)
            ]
            if lost:
                _LOGGER.warning(
                    "%s-%d: the marker of a committed transaction was lost; it is written again "
                    "(producer id %d, from offset %d)", *place, entry.producer_id, offset,
                )  # fmt: skip
                self._end(log, *lost[0][1:3], lost[0].last_update_ms, commit=True)
                continue
            _LOGGER.warning(
                "%s-%d: a transaction that nobody knows of is aborted (producer id %d, from "
                "offset %d)", *place, entry.producer_id, offset,
            )  # fmt: skip
            now = self.now_ms()
            self._end(log, entry.producer_id, entry.producer_epoch, now, commit=False)

    # --- what the coordinator needs done ----------------------------------------------------

    def now_ms(self) -> int:
        return time_ns() // 1_000_000

    def new_producer_id(self) -> int:
        return new_producer_id()

    def store(self, metadata: Metadata) -> None:
        self._put(metadata.transactional_id, encode_value(metadata))

    def forget(self, transactional_id: str) -> None:
        self._put(transactional_id, None)

    def _put(self, transactional_id: str, value: bytes | None) -> None:
        log = self._state_log(transactional_id)
        log.append(value, key=encode_key(transactional_id))

    def flush_state(self, transactional_id: str) -> None:
        self._state_log(transactional_id).flush()

    def flush(self, places: Iterable[Place]) -> None:
        for place in places:
            log = self._log(place)
            if log is not None:
                log.flush()

    def mark(self, place: Place, metadata: Metadata, *, commit: bool) -> None:
        """As the coordinator says; but where a decision was read from the disk its marker may
        be there already, and what is open the next transaction, whose state a power cut took.
        """
        log = self._log(place)
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
        """Append a marker, under a coordinator's epoch that the log does not refuse.

        A broker that had the directory in between may have ended this producer's transactions
        under a higher one. Whoever holds the directory is the coordinator: there is no other
        to be fenced.
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

    def _log(self, place: Place) -> "Log | None":
        """None where the topic was deleted while the transaction was open.

        With a directory offline nobody can tell: it may be there (LogDirOfflineError).
        """
        try:
            return self._store._log(*place)
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
