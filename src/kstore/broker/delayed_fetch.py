"""Fetch requests that wait for records (Kafka's DelayedFetch and its purgatory).

A parked request waits for changes of its partitions' logs and for one timer, without polling. A
change re-reads only its own partition; the others keep their first result. A request of one
partition waits in :mod:`kstore.broker.delayed_fetch_frame`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.broker.fetch_reader import FetchParameters, FetchReader, PartitionRead
from kstore.broker.partitions import HostedPartition, continue_with
from kstore.broker.purgatory_size import PurgatorySize
from kstore.broker.request import Answer, Pending
from kstore.cluster.image import ClusterImage

if TYPE_CHECKING:
    from kstore.broker.loop import Loop, Timer

Respond = Callable[[list[PartitionRead]], Answer]


def is_enough(reads: list[PartitionRead], parameters: FetchParameters) -> bool:
    """Whether these results complete a request without waiting for more bytes."""
    if parameters.max_wait_seconds <= 0:
        return True
    if not any(read.hosted is not None and read.hosted.image is not None for read in reads):
        return True  # Kafka waits only for partitions that exist
    return sum(read.size for read in reads) >= parameters.min_bytes or any(
        read.is_urgent for read in reads
    )


class DelayedFetch:
    """One parked request. Loop's thread only."""

    __slots__ = (
        "_by_partition",
        "_bytes",
        "_get_image",
        "_is_urgent",
        "_loop",
        "_parameters",
        "_pending",
        "_purgatory",
        "_reader",
        "_reads",
        "_respond",
        "_timer",
    )

    def __init__(
        self,
        reads: list[PartitionRead],
        *,
        loop: "Loop",
        purgatory: PurgatorySize,
        reader: FetchReader,
        parameters: FetchParameters,
        get_image: Callable[[], ClusterImage],
        respond: Respond,
    ) -> None:
        self._reads = reads
        self._loop = loop
        self._purgatory = purgatory
        self._reader = reader
        self._parameters = parameters
        self._get_image = get_image  # the current image: a topic may be deleted during the wait
        self._respond = respond
        self._pending: Pending | None = None
        self._timer: Timer | None = None
        self._bytes = sum(read.size for read in reads)
        self._is_urgent = False
        self._by_partition: dict[HostedPartition, int] = {}

    def start(self) -> Pending:
        """Wait for enough bytes, an error, or the expiry of ``max_wait_ms``."""
        pending = self._pending = Pending()
        self._purgatory.requests += 1
        pending.on_cancel = self._stop_waiting
        pending.on_stop = self._complete
        self._timer = self._loop.call_later(self._parameters.max_wait_seconds, self._complete)
        for index, read in enumerate(self._reads):
            hosted = read.hosted
            if hosted is not None and hosted.image is not None:
                self._by_partition[hosted] = index
                hosted.add_waiter(self)
        for index, read in enumerate(self._reads):
            # Another thread may have appended between the first read and add_waiter.
            log = None if read.hosted is None else read.hosted.log
            if log is not None and log.end_offset != read.limit:
                self._read_again(index)
        self._check()
        return pending

    def partition_changed(self, hosted: HostedPartition) -> None:
        index = self._by_partition.get(hosted)
        if index is not None and self._pending is not None:
            self._read_again(index)
            self._check()

    def _read_again(self, index: int) -> None:
        """Read a partition again, within the bytes that the other partitions leave of the limit."""
        before = self._reads[index]
        left = self._bytes - before.size
        limit = max(0, self._parameters.max_bytes - left)
        min_one_batch = left == 0 and not self._parameters.cuts_batches
        read = self._reader.read(before.wanted, self._get_image(), limit, min_one_batch)
        self._reads[index] = read
        self._bytes = left + read.size
        # A different hosted partition: the topic was deleted, and perhaps recreated.
        if read.is_urgent or read.hosted is not before.hosted:
            self._is_urgent = True

    def _check(self) -> None:
        if self._is_urgent or self._bytes >= self._parameters.min_bytes:
            self._complete()

    def _complete(self) -> None:
        """Respond with the current results."""
        pending = self._pending
        if pending is None:
            return
        self._stop_waiting()
        continue_with(pending, lambda: self._respond(self._reads))

    def _stop_waiting(self) -> None:
        self._pending = None
        self._purgatory.requests -= 1
        if self._timer is not None:
            self._timer.cancel()
        for hosted in self._by_partition:
            hosted.remove_waiter(self)
        self._by_partition = {}
