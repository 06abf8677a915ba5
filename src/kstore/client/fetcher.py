"""Reads the records of a consumer's partitions from their logs, each partition in turn."""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kstore._native.format.record import name_partition
from kstore.client.assignment import AssignedPartition, Assignment
from kstore.errors import (
    ClosedError,
    InvalidConfigError,
    KStoreError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnstableOffsetCommitError,
)
from kstore.log.read_committed import check_isolation
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.log.log import Log
    from kstore.log.view import LogView
    from kstore.record import Record
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

RESETS = ("earliest", "latest", "none")
_ATTEMPTS = 8  # to read where others delete or truncate at the same time


class Fetched(NamedTuple):
    """Records of one partition, from ``start_offset`` up to but excluding ``stop_offset``."""

    tp: TopicPartition
    source: AssignedPartition
    records: list["Record"]
    start_offset: int
    stop_offset: int


class Fetcher:
    """Advances the positions of an assignment. The caller holds the consumer's lock."""

    def __init__(
        self,
        store: "Store",
        assignment: Assignment,
        group: "StoreGroup | None",
        *,
        auto_offset_reset: str,
        isolation_level: str,
    ) -> None:
        self._committed_only = check_isolation(isolation_level)
        if auto_offset_reset not in RESETS:
            raise InvalidConfigError(
                f"auto.offset.reset must be one of {', '.join(RESETS)}, not {auto_offset_reset!r}"
            )
        self.auto_offset_reset = auto_offset_reset
        self.isolation_level = isolation_level
        self._store = store
        self._assignment = assignment
        self._group = group
        self.is_shared = False  # whether other members of the group may have read a partition
        self._turn = 0

    @property
    def path(self) -> str:
        """The store's first directory, which errors name."""
        return self._store.paths[0]

    def check_open(self) -> None:
        """Raise ClosedError if the consumer is closed, ForkedError in a forked child."""
        if self._assignment.is_closed:
            self._store._check()
            raise ClosedError("the consumer is closed")

    def log(self, tp: TopicPartition) -> "Log":
        return self._store._log(tp.topic, tp.partition)

    def end(self, log: "Log") -> int:
        """The last stable offset with read_committed, else the high watermark."""
        return log.last_stable_offset if self._committed_only else log.high_watermark

    def fetch(self, count: int) -> Fetched | None:
        """Up to count records of the next partition that has some.

        First it gives every partition a position, also those that it does not read, because a
        commit covers all of them, as in Kafka (SubscriptionState.allConsumed).
        """
        active = self._assignment.active()
        for tp, partition in active:
            if partition.position is None:
                with suppress(UnstableOffsetCommitError):  # until the transaction has ended
                    self.position(tp)
        for step in range(len(active)):
            turn = (self._turn + step) % len(active)
            if (fetched := self._read(*active[turn], count)) is not None:
                self._turn = turn + 1
                return fetched
        return None

    def put_back(self, fetched: Fetched) -> None:
        """Undo the last fetch: the next one begins with the same partition."""
        fetched.source.position = fetched.start_offset
        self._turn -= 1

    def logs(self) -> list["Log"]:
        """The logs that are read; without those of topics that were deleted just now."""
        found: list[Log] = []
        for tp, _ in self._assignment.active():
            with suppress(KStoreError):  # the next read raises it, or finds why
                found.append(self.log(tp))
        return found

    @property
    def is_unstable(self) -> bool:
        """Whether a position waits for the end of another member's transaction."""
        return any(each.position is None for _, each in self._assignment.active())

    def _read(
        self,
        tp: TopicPartition,
        partition: AssignedPartition,
        count: int,
        attempts: int = _ATTEMPTS,
    ) -> Fetched | None:
        log = self.log(tp)
        position = partition.position
        if position is None:  # another member's transaction may commit it
            return None
        position = self._before_truncations(tp, partition, log, position)
        end = partition.end_offset = log.high_watermark
        if not log.start_offset <= position <= log.end_offset:  # as Kafka's leader
            position = self._reset(tp, position)
        start = position
        if self._committed_only:
            end = min(end, log.last_stable_offset)
        while position < end:
            stop = min(position + count, end)  # compaction leaves gaps: there may be no records
            try:
                records = list(self._view(tp, log, position, stop))
            except OffsetOutOfRangeError:  # deleted or truncated meanwhile: checks the position
                if attempts == 1:
                    raise
                return self._read(tp, partition, count, attempts - 1)
            if log.start_offset > position and not (records and records[0].offset == position):
                return self._read(
                    tp, partition, count
                )  # deleted meanwhile: resets the position, or raises
            partition.position = position = stop
            if records:
                name_partition(records, tp.topic, tp.partition)
                return Fetched(tp, partition, records, start, stop)
        return None

    def _view(self, tp: TopicPartition, log: "Log", start: int, stop: int) -> "LogView":
        from kstore.log.view import LogView

        if not self._committed_only:
            return LogView(log, start, stop)
        partition = self._assignment[tp]
        if partition.outcomes is None:
            from kstore.log.transaction_outcomes import TransactionOutcomes

            partition.outcomes = TransactionOutcomes(log)
        return LogView(
            log, start, stop, isolation=self.isolation_level, outcomes=partition.outcomes
        )

    def position(self, tp: TopicPartition) -> int:
        """The offset to read next: by the last read or seek, the group, or auto.offset.reset.

        UnstableOffsetCommitError while an open transaction of another member may commit it.
        """
        partition = self._assignment[tp]
        if partition.position is None:
            if self.is_shared and self._group is not None and self._group.is_unstable(tp):
                raise UnstableOffsetCommitError(
                    f"an open transaction may commit the offset of {tp.topic}-{tp.partition} for "
                    f"group {self._group.name!r}: try again when it has ended"
                )
            committed = self.committed(tp)
            partition.position = self._reset(tp) if committed is None else committed
        return partition.position

    def committed(self, tp: TopicPartition) -> int | None:
        """The group's committed offset of a partition; None without one, or without a group."""
        commit = None if self._group is None else self._group.fetch(tp)
        return None if commit is None else commit.offset

    def start_of_added(self, tp: TopicPartition) -> int | None:
        """Where to begin in a partition that was added while its topic was read."""
        start = self.committed(tp)
        if start is None and self.auto_offset_reset != "none":
            start = self.log(tp).start_offset
        return start

    def _reset(self, tp: TopicPartition, lost: int | None = None) -> int:
        log, reset = self.log(tp), self.auto_offset_reset
        if reset == "none":
            what = "nothing is committed" if lost is None else "the position is outside the log"
            raise OffsetOutOfRangeError(
                f"{what} for {tp.topic}-{tp.partition}, which holds offsets from "
                f"{log.start_offset} to {log.end_offset}, and auto.offset.reset is none",
                path=log.path,
                offset=lost,
            )
        position = log.start_offset if reset == "earliest" else self.end(log)
        if lost is not None:
            _LOGGER.warning(
                "offset %d is out of range: %s-%d holds offsets from %d up to %d; it is read from "
                "offset %d on (auto.offset.reset=%s)",
                lost, tp.topic, tp.partition, log.start_offset, log.end_offset, position, reset,
            )  # fmt: skip
        self._assignment[tp].seek(position)
        return position

    def _before_truncations(
        self, tp: TopicPartition, partition: AssignedPartition, log: "Log", position: int
    ) -> int:
        """The position, or the offset below it to which the log was truncated since the last read:
        it may have grown beyond both again (KIP-320)."""
        truncations = log._truncations
        count = len(truncations)
        if partition.truncations is not None and partition.truncations[0] is truncations:
            lowest = min(truncations[partition.truncations[1] : count], default=position)
            if lowest < position:
                position = self._diverged(tp, partition, position, lowest)
        partition.truncations = truncations, count
        return position

    def _diverged(
        self, tp: TopicPartition, partition: AssignedPartition, position: int, end: int
    ) -> int:
        what = (
            f"{tp.topic}-{tp.partition} was truncated to offset {end}, below the position "
            f"{position}: records that were read are gone"
        )
        if self.auto_offset_reset == "none":
            raise LogTruncationError(
                f"{what}, and auto.offset.reset is none: seek to continue",
                path=self.log(tp).path,
                offset=end,
            )
        _LOGGER.warning("%s; it is read from offset %d on", what, end)
        partition.position, partition.outcomes = end, None
        return end
