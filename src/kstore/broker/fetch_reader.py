"""Reads the partitions of one Fetch request (Kafka's ReplicaManager.readFromLog).

Records are slices of segment files, not copies. Consumers read up to the high watermark,
read_committed consumers up to the last stable offset.
"""

from typing import TYPE_CHECKING

from kstore._native.read import segment_pages
from kstore._native.read.segment_end import find_end
from kstore._native.read.segment_view import Slice
from kstore.broker.fetch_session import FetchedPartition
from kstore.broker.leader_hints import LeaderHints
from kstore.broker.partitions import HostedPartition, Partitions, error_code_of
from kstore.broker.send_queue import SEND_LIMIT
from kstore.cluster.image import ZERO_UUID, ClusterImage
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.writable_log import WritableLog
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from kstore.broker.authorization import Access
    from kstore.log.log import Log

PartitionAnswer = FetchResponse.Responses.Partitions

_HARD_LIMIT_UP_TO = 2  # versions of Fetch whose limits cut batches
_OLD_STORAGE_ERROR_UP_TO = 5  # clients that do not know KAFKA_STORAGE_ERROR
_ZSTD_SINCE = 10
_HINTS_SINCE = 16
_NAMES_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@lazy_dataclass(frozen=True)
class FetchParameters:
    """The parameters of a request that apply to all its partitions."""

    version: int
    replica_id: int
    is_committed: bool  # isolation level read_committed
    max_bytes: int
    min_bytes: int
    max_wait_seconds: float

    @property
    def is_follower(self) -> bool:
        """Whether a broker fetches, which reads up to the log end. -2 is Kafka's debugging
        consumer."""
        return self.replica_id >= 0

    @property
    def cuts_batches(self) -> bool:
        """Whether limits may cut the last batch, as they do before version 3."""
        return self.version <= _HARD_LIMIT_UP_TO


class PartitionRead:
    """The result for one partition: its response, and the state that a parked request needs.

    ``size`` is the size of the records in bytes. ``is_urgent``: the request must not wait for more
    bytes, because of an error, or because the log continues in the next segment. ``is_cold``:
    nothing was read, because up to ``size`` bytes, or the headers of segments that may have
    aborted transactions, must be read from the disk.
    """

    __slots__ = ("answer", "hosted", "is_cold", "is_urgent", "limit", "size", "wanted")

    def __init__(self, wanted: FetchedPartition, hosted: HostedPartition | None) -> None:
        self.wanted = wanted
        self.hosted = hosted
        self.answer = PartitionAnswer(partition_index=wanted.number, records=b"")
        self.size = 0
        self.is_cold = False
        self.is_urgent = False
        self.limit = -1  # the read limit when the partition was read

    def fail(self, error: ErrorCode) -> None:
        answer = self.answer
        answer.error_code = int(error)
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1


class FetchReader:
    """Reads partitions for one request. Loop's thread only."""

    __slots__ = ("_access", "_hints", "_parameters", "_partitions", "_unreadable")

    def __init__(
        self,
        partitions: Partitions,
        parameters: FetchParameters,
        hints: LeaderHints | None,
        access: "Access | None" = None,
    ) -> None:
        self._access = access
        self._partitions = partitions
        self._parameters = parameters
        self._hints = hints if parameters.version >= _HINTS_SINCE else None
        self._unreadable: dict[FetchedPartition, Exception] = {}

    def load_cold(self, reads: list[PartitionRead]) -> None:
        """Read the data of the cold reads from the disk. Blocks: for disk workers only."""
        left = self._parameters.max_bytes
        for read in reads:
            if read.is_cold:
                assert read.hosted is not None
                assert read.hosted.log is not None
                log, offset = read.hosted.log, read.wanted.fetch_offset
                try:
                    records = load_pages(log, offset, min(read.size, left))
                    if records is not None and self._parameters.is_committed:
                        stop = min(records.next_offset, read.limit)
                        if offset >= read.limit:  # it waits for any transaction to end
                            stop = read.answer.high_watermark
                        log.aborted_transactions(offset, stop)
                # touching the mapped page would kill the process (SIGBUS)
                except Exception as error:
                    self._unreadable[read.wanted] = error
                left = max(0, left - read.size)

    def read_all(
        self, wanted: list[FetchedPartition], image: ClusterImage, *, may_wait: bool
    ) -> list[PartitionRead]:
        """Read in the given order, within the limits of the request.

        Unless ``may_wait``, a partition whose data is not in the page cache gives a cold read.
        """
        limit = self._parameters.max_bytes
        min_one_batch = not self._parameters.cuts_batches
        reads = []
        for each in wanted:
            read = self.read(each, image, limit, min_one_batch, may_wait=may_wait)
            if read.size:
                min_one_batch = False
                limit = max(0, limit - read.size)
            reads.append(read)
        return reads

    def read(
        self,
        wanted: FetchedPartition,
        image: ClusterImage,
        max_bytes: int,
        min_one_batch: bool,
        *,
        may_wait: bool = True,
    ) -> PartitionRead:
        """Read one partition; an error is in the response."""
        if wanted.topic is None:
            read = PartitionRead(wanted, None)
            read.fail(ErrorCode.UNKNOWN_TOPIC_ID)
            return read
        if self._access is not None and not self._access.may_fetch(
            wanted.topic, is_follower=self._parameters.is_follower
        ):
            read = PartitionRead(wanted, None)
            read.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            read.is_urgent = True
            return read
        hosted = self._partitions.get(wanted.topic, wanted.number, image)
        read = PartitionRead(wanted, hosted)
        error = self._check(wanted, hosted)
        if error == ErrorCode.NONE:
            assert hosted.log is not None
            try:
                if self._unreadable and wanted in self._unreadable:
                    raise self._unreadable[wanted]
                self._read_log(read, hosted.log, max_bytes, min_one_batch, may_wait)
            except Exception as raised:
                error = error_code_of(raised)
                if error == ErrorCode.KAFKA_STORAGE_ERROR:
                    self._partitions.report_storage_error(hosted, "read", raised)
        if error != ErrorCode.NONE:
            self._fail(read, hosted, error)
        return read

    def _check(self, wanted: FetchedPartition, hosted: HostedPartition) -> ErrorCode:
        """The error that prevents reading the log, checked in Kafka's order."""
        if hosted.image is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if wanted.topic_id != ZERO_UUID and wanted.topic_id != hosted.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        error = hosted.check_leader_epoch(wanted.current_leader_epoch)
        if error != ErrorCode.NONE or hosted.error != ErrorCode.NONE:
            return error or hosted.error
        replica = self._parameters.replica_id
        if replica >= 0 and (
            replica == hosted.image.leader or replica not in hosted.image.replicas
        ):
            # Not a follower of this partition; Kafka's Partition.followerReplicaOrThrow.
            if wanted.current_leader_epoch >= 0:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _fail(self, read: PartitionRead, hosted: HostedPartition, error: ErrorCode) -> None:
        version = self._parameters.version
        # Kafka checks for this error before it reads, and the other partitions may still wait.
        read.is_urgent = error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error == ErrorCode.LEADER_NOT_AVAILABLE or (
            error == ErrorCode.KAFKA_STORAGE_ERROR and version <= _OLD_STORAGE_ERROR_UP_TO
        ):
            # Clients do not expect these errors here: Java's consumer fails on
            # LEADER_NOT_AVAILABLE.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        read.fail(error)
        read.size, read.answer.records = 0, b""
        if self._hints is not None and error in _NAMES_LEADER:
            leader = self._hints.leader_of(hosted)
            if leader is not None:
                read.answer.current_leader = PartitionAnswer.CurrentLeader(*leader)

    def _read_log(
        self,
        read: PartitionRead,
        log: "Log",
        max_bytes: int,
        min_one_batch: bool,
        may_wait: bool,
    ) -> None:
        wanted, answer, parameters = read.wanted, read.answer, self._parameters
        offset, segments = wanted.fetch_offset, log.segments
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.start_offset
        if parameters.version < _ZSTD_SINCE and log.config.compression_type == "zstd":
            read.fail(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            read.is_urgent = True
            return
        if parameters.is_follower:
            read.limit = log.end_offset
        elif parameters.is_committed:
            read.limit = answer.last_stable_offset
        else:
            read.limit = answer.high_watermark
        if not parameters.is_committed:
            answer.aborted_transactions = None
        if wanted.last_fetched_epoch >= 0 and self._diverges(read, log):
            read.is_urgent = True
            return
        limit = max(0, min(wanted.max_bytes, max_bytes))
        if not may_wait and not segment_pages.is_resident(segments, offset, limit):
            read.is_cold, read.size = True, limit
            return
        records = log.read(offset, limit, up_to=read.limit, min_one_batch=min_one_batch)
        if records is None:
            # A marker that ends its wait must not make this thread search the segments.
            if parameters.is_committed and not may_wait:
                read.is_cold = log._known_aborted(offset, answer.high_watermark) is None
            return
        if not may_wait and len(records) > limit and not records.is_resident():
            read.is_cold, read.size = True, limit  # its first batch is longer than the limit
            return
        if not (
            min_one_batch or parameters.cuts_batches or records.first_batch_size <= len(records)
        ):
            read.is_urgent = True  # its first batch goes into the next response
            return
        if parameters.is_committed:
            stop = min(records.next_offset, read.limit)
            aborted = log._known_aborted(offset, stop)
            if aborted is None:
                if not may_wait:
                    read.is_cold, read.size = True, limit
                    return
                aborted = log.aborted_transactions(offset, stop)
            if log.segments is not segments:  # the records' segment may have left the log
                self._read_log(read, log, max_bytes, min_one_batch, may_wait)
                return
            if aborted:
                end = find_end(records, 0, offset, False)[1]
                answer.aborted_transactions = [
                    PartitionAnswer.AbortedTransactions(each.producer_id, each.first_offset)
                    for each in aborted
                    if each.first_offset < end
                ]
        answer.records = records
        read.size = len(records)
        read.is_urgent = records.segment.next_offset < read.limit  # the log continues after it

    def _diverges(self, read: PartitionRead, log: "Log") -> bool:
        """Whether the fetcher's log has diverged from this one (KIP-595).

        Fails with OFFSET_OUT_OF_RANGE where Kafka's Partition.readRecords does.
        """
        wanted = read.wanted
        epoch, end_offset = log.epoch_end(wanted.last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.start_offset:
            read.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
            return True
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            read.answer.diverging_epoch = PartitionAnswer.DivergingEpoch(epoch, end_offset)
            return True
        return False


def load_pages(log: "Log", offset: int, max_bytes: int) -> Slice | None:
    """Load the index and data pages of a later read from the disk. Blocks: for disk workers only.

    Returns what such a read gives. Raises StorageError if the disk cannot read, and what opening a
    segment raises.
    """
    assert isinstance(log, WritableLog)
    access = log._writer.access  # works for a failed log, too, which remains readable
    access.on_current_segments(lambda segments: segment_pages.load(segments, offset, max_bytes))
    records = log.read(offset, max_bytes)
    if records is not None and len(records) > max_bytes:  # a long first batch
        records.load(0, min(len(records), SEND_LIMIT))
    return records
