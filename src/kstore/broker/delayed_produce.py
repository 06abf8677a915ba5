"""A Produce request that waits for acknowledgement (Kafka's DelayedProduce).

With ``acks=-1`` a partition is acknowledged once its high watermark has passed the batch, that is,
once every in-sync replica has the batch; with durable acknowledgements, once the batch is on disk.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.partitions import HostedPartition, error_code_of
from kstore.broker.purgatory_size import PurgatorySize
from kstore.broker.request import Pending
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import Message
from kstore.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from kstore.broker.durable_commits import DurableCommits
    from kstore.broker.loop import Loop, Timer
    from kstore.cluster.image import ClusterImage
    from kstore.log.log import Log

PartitionAnswer = ProduceResponse.Responses.PartitionResponses

_WITHOUT_STORAGE_ERROR = 3  # version: clients up to it retry only after NOT_LEADER_OR_FOLLOWER


class AppendedPartition:
    """An appended batch, acknowledged once its log reaches ``required_offset``.

    ``is_synced_later``: its append left a sync that ``flush.messages`` asks for to the committer.
    """

    __slots__ = ("answer", "hosted", "is_synced_later", "log", "required_offset")

    def __init__(
        self,
        hosted: HostedPartition,
        log: "Log",
        required_offset: int,
        answer: PartitionAnswer,
        is_synced_later: bool,
    ) -> None:
        self.hosted = hosted
        self.log = log
        self.required_offset = required_offset
        self.answer = answer
        self.is_synced_later = is_synced_later


class DelayedProduce:
    """Waits until each partition of a request is acknowledged or failed. Loop's thread only."""

    __slots__ = (
        "_acks",
        "_commits",
        "_is_durable",
        "_loop",
        "_min_in_sync",
        "_partitions",
        "_pending",
        "_purgatory",
        "_respond",
        "_timeout_ms",
        "_timer",
        "_waits_in",
    )

    def __init__(
        self,
        partitions: list[AppendedPartition],
        *,
        loop: "Loop",
        purgatory: PurgatorySize,
        commits: "DurableCommits | None",
        acks: int,
        is_durable: Callable[[HostedPartition], bool],
        timeout_ms: int,
        min_in_sync: Callable[[HostedPartition], int],
    ) -> None:
        self._partitions = partitions
        self._loop = loop
        self._purgatory = purgatory
        self._commits = commits
        self._acks = acks
        self._is_durable = is_durable
        self._timeout_ms = timeout_ms
        self._min_in_sync = min_in_sync
        self._pending: Pending | None = None
        self._respond: Callable[[], Message | bytes] | None = None
        self._timer: Timer | None = None
        self._waits_in: list[HostedPartition] = []

    def is_fulfilled(self) -> bool:
        """Drop acknowledged and failed partitions; True if none is left."""
        if self._partitions:
            self._partitions = [each for each in self._partitions if not self._is_done(each)]
        return not self._partitions

    def _is_done(self, each: AppendedPartition) -> bool:
        log, hosted = each.log, each.hosted
        is_synced = log.recovery_point >= each.required_offset or not self._is_durable(hosted)
        if hosted.log is not log and (self._acks == -1 or not is_synced):
            code = hosted.error
            each.answer.error_code = int(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if code == ErrorCode.NONE else code
            )
            return True
        if not is_synced or (self._acks == -1 and log.high_watermark < each.required_offset):
            return False
        if self._acks == -1 and hosted.image is not None:
            isr, replicas = len(hosted.image.isr), len(hosted.image.replicas)
            if isr < replicas and isr < self._min_in_sync(hosted):
                each.answer.error_code = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def start(self, pending: Pending, respond: Callable[[], Message | bytes]) -> None:
        """Complete ``pending`` with ``respond()`` once all partitions are done, or on timeout."""
        self._pending, self._respond = pending, respond
        self._purgatory.requests += 1
        pending.on_cancel = self._stop_waiting
        self._timer = self._loop.call_later(max(self._timeout_ms, 0) / 1000, self._expire)
        self._waits_in = [each.hosted for each in self._partitions]
        for each in list(self._partitions):
            # a sync may hang in a log directory that goes offline
            awaits_followers = self._acks == -1 and each.log.high_watermark < each.required_offset
            each.hosted.add_waiter(self, of_log=awaits_followers)
            if self._is_durable(each.hosted) and self._commits is not None:
                self._commits.wait(each.log, each.required_offset, partial(self._synced, each))
        self._check()  # a follower may have fetched between the first check and here

    def partition_changed(self, hosted: HostedPartition) -> None:
        self._check()

    def _synced(self, each: AppendedPartition, error: BaseException | None) -> None:
        if error is not None and each in self._partitions:
            each.answer.error_code = int(error_code_of(error))
            self._partitions.remove(each)
        self._check()

    def _check(self) -> None:
        if self._pending is not None and self.is_fulfilled():
            self._complete()

    def _expire(self) -> None:
        """Time out. As in Kafka the records stay in the log, with an outcome unknown to clients."""
        if not self.is_fulfilled():
            for each in self._partitions:
                each.answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        self._complete()

    def _complete(self) -> None:
        pending, respond = self._pending, self._respond
        if pending is None or respond is None:
            return
        self._stop_waiting()
        pending.complete(respond())

    def _stop_waiting(self) -> None:
        self._pending = None
        self._purgatory.requests -= 1
        if self._timer is not None:
            self._timer.cancel()
        for hosted in self._waits_in:
            hosted.remove_waiter(self)


def min_in_sync(hosted: HostedPartition, image: "ClusterImage", default: int) -> int:
    """The topic's min.insync.replicas, clamped to the number of replicas (KIP-966)."""
    assert hosted.image is not None
    assert hosted.topic_image is not None
    name = "min.insync.replicas"
    text = hosted.topic_image.config.get(name) or image.broker_config.get(name)
    return min(int(text) if text else default, len(hosted.image.replicas))


def for_version(response: ProduceResponse, version: int) -> ProduceResponse:
    """A response whose errors the clients of a version handle."""
    if version <= _WITHOUT_STORAGE_ERROR:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return response
