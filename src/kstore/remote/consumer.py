"""Reads assigned partitions of a cluster."""

from collections.abc import Iterable, Iterator
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

from kstore._native.format import batch_fields
from kstore._native.read.aborted_transactions import AbortedRanges, TransactionWalk
from kstore.errors import CorruptRecordError
from kstore.integers import INT64_MAX
from kstore.record import Record
from kstore.record.scan import scan_records
from kstore.remote.fetch_counts import FetchCounts
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.protocol.messages.fetch import FetchResponse
    from kstore.remote.remote_log import RemoteLog
    from kstore.remote.store import RemoteStore

_FETCH_BYTES = 4 << 20
_LARGEST_FETCH = 1 << 30
READ_COMMITTED = 1


class RemoteBatch(NamedTuple):
    """Records of one partition, from ``start_offset`` up to but excluding ``stop_offset``."""

    topic: str
    partition: int
    records: list[Record]
    start_offset: int
    stop_offset: int

    def __iter__(self) -> Iterator[Record]:  # type: ignore[override]  # as ConsumerBatch
        return iter(self.records)


class RemoteConsumer:
    """Reads partitions in turn. Not thread safe.

    An offset that the log no longer has raises OffsetOutOfRangeError; records deleted before they
    were read are never skipped silently.
    """

    def __init__(
        self,
        store: "RemoteStore",
        assignment: Iterable[tuple[str, int]],
        auto_offset_reset: str,
        isolation_level: str,
    ) -> None:
        self.assignment = tuple(TopicPartition(*each) for each in assignment)
        self._is_committed = isolation_level == "read_committed"
        topics = {name: store[name] for name in {each.topic for each in self.assignment}}
        self._logs: dict[TopicPartition, RemoteLog] = {
            each: topics[each.topic][each.partition] for each in self.assignment
        }
        self._reset = auto_offset_reset
        self._counts = FetchCounts(store.cluster.metrics)
        self._positions: dict[TopicPartition, int] = {}
        self._sizes = dict.fromkeys(self.assignment, _FETCH_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing, since the connections belong to the store."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue reading at an offset."""
        self._positions[tp] = offset

    def seek_to_beginning(self) -> None:
        """Continue reading at the oldest record of every partition."""
        self._positions = {tp: log.start_offset for tp, log in self._logs.items()}

    def seek_to_time(self, when: int) -> None:
        """Continue at the first record at or after a time in ms, or at the end if there is none."""
        for tp, log in self._logs.items():
            found = log.first_offset_at(when)
            self._positions[tp] = log.end_offset if found is None else found

    def position(self, tp: TopicPartition) -> int:
        """The offset to read next."""
        if tp not in self._positions:
            log = self._logs[tp]
            is_first = self._reset == "earliest"
            self._positions[tp] = log.start_offset if is_first else log.end_offset
        return self._positions[tp]

    def batches(self, timeout: float) -> Iterator[RemoteBatch]:
        """Yield batches of records until none arrives for ``timeout`` seconds."""
        for tp in self.assignment:
            self.position(tp)
        last = monotonic()
        while True:
            left = max(0.0, timeout - (monotonic() - last))
            share = left / max(1, len(self.assignment))
            for tp in self.assignment:
                batch = self._next(tp, int(share * 1000))
                if batch is not None:
                    last = monotonic()
                    if batch.records:
                        yield batch
            if monotonic() - last >= timeout:
                return

    def _next(self, tp: TopicPartition, wait_ms: int) -> RemoteBatch | None:
        """Fetch from the current position; None if there are no records."""
        start = self._positions[tp]
        began = monotonic()
        found = self._logs[tp].fetch(
            start,
            max_bytes=self._sizes[tp],
            max_wait_ms=wait_ms,
            isolation_level=READ_COMMITTED if self._is_committed else 0,
        )
        data = bytes(found.records or b"")
        self._counts.fetch((monotonic() - began) * 1000)
        if not data:
            return None
        records = list(self._decode(found, data, start))
        stop = end_of_batches(data)
        if stop is None:  # before Fetch 3: no complete batch fits
            self._enlarge(tp, start)
            return None
        if stop <= start:  # it would send the same batches without end
            raise CorruptRecordError(
                f"{tp.topic}-{tp.partition}: the leader sends batches that end before offset "
                f"{start}, at which the fetch begins",
                offset=start,
            )
        self._positions[tp] = stop
        self._counts.records(tp.topic, len(records), data)
        return RemoteBatch(tp.topic, tp.partition, records, start, stop)

    def _enlarge(self, tp: TopicPartition, offset: int) -> None:
        self._sizes[tp] *= 4
        if self._sizes[tp] > _LARGEST_FETCH:
            raise CorruptRecordError(
                f"{tp.topic}-{tp.partition} has a batch of more than {_LARGEST_FETCH} bytes",
                offset=offset,
            )

    def _decode(
        self, found: "FetchResponse.Responses.Partitions", data: bytes, start: int
    ) -> Iterator[Record]:
        find_aborted = None
        if self._is_committed:
            find_aborted = partial(aborted_ranges, data, found.aborted_transactions or ())
        return scan_records(data, start_offset=start, find_aborted=find_aborted)


def aborted_ranges(
    data: bytes, aborted: "Iterable[FetchResponse.Responses.Partitions.AbortedTransactions]"
) -> AbortedRanges:
    """The aborted transactions of a response, each up to its marker (Kafka's CompletedFetch)."""
    begun = [(each.producer_id, each.first_offset) for each in aborted]
    first = batch_fields.base_offset(data)
    walk = TransactionWalk(first, {producer: at for producer, at in begun if at < first})
    walk.walk(data, 0, INT64_MAX)
    still_open = [
        (producer, at, INT64_MAX) for producer, at in begun if walk.open.get(producer) == at
    ]
    return AbortedRanges([*walk.aborted, *still_open])


def end_of_batches(data: bytes) -> int | None:
    """The offset after the last complete batch; None if there is none."""
    end = None
    position = 0
    while 0 < batch_fields.declared_size(data, position) <= len(data) - position:
        end = batch_fields.last_offset(data, position) + 1
        position = batch_fields.next_position(data, position)
    return end
