"""The fast path for Produce requests of one small batch.

A producer typically sends one small batch for one partition. Native code parses such a request and
encodes its response, without the objects of :mod:`kstore.broker.handlers.produce`. That module
handles all other cases: requests that are rejected, wait, or need a disk worker. Both give the same
responses.
"""

from typing import TYPE_CHECKING

from kstore._native.broker import produce_frame
from kstore.broker.partitions import HostedPartition, append_at_once
from kstore.broker.request import Attempt
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.broker.settings import BrokerSettings

INLINE_SIZE = 64 << 10  # the largest batch, in bytes, that the event loop's thread appends itself


class ProduceFrames:
    """Handles Produce requests of one small batch. Loop's thread only."""

    __slots__ = ("_counters", "_metadata", "_partitions", "_settings", "_workers")

    def __init__(self, services: "Services") -> None:
        self._counters = services.counters
        self._metadata = services.metadata
        self._partitions = services.partitions
        self._workers = services.workers
        self._settings = services.settings

    def handle_frame(
        self, frame: memoryview, version: int, correlation_id: int
    ) -> bytes | Attempt | None:
        """Append the batch and return the response. An Attempt if the acknowledgement must wait or
        the log rejected the batch; None if nothing was done."""
        found = produce_frame.parse(frame)
        if found is None:
            return None
        topic, partition, acks, start, end = found
        if end - start > INLINE_SIZE:
            return None
        hosted = self._partitions.get(topic, partition, self._metadata.image)
        if not self._is_open(hosted, acks):
            return None
        log, config = hosted.log, hosted.config
        assert log is not None
        assert config is not None
        try:
            info = append_at_once(log, frame[start:end])
        except Exception as error:
            return Attempt(error=error)
        if info is None:
            return None
        if acks == -1 and log.high_watermark <= info.last_offset:
            return Attempt((log, info))
        if self._counters is not None:
            self._counters.topic(topic).appended(info)
        if acks == 0:
            return b""
        has_time = info.size == 0 or config.message_timestamp_type == "LogAppendTime"
        return produce_frame.answer(
            version,
            correlation_id,
            topic,
            partition,
            info.first_offset,
            info.max_timestamp if has_time else -1,
            log.start_offset,
        )

    def _is_open(self, hosted: HostedPartition, acks: int) -> bool:
        """Whether a batch can be appended immediately and acknowledged without a disk flush."""
        topic, image = hosted.topic_image, hosted.image
        return (
            hosted.log is not None
            and topic is not None
            and image is not None
            and hosted.error == ErrorCode.NONE
            and hosted.is_plain
            and not topic.is_internal
            and (0 <= acks <= 1 or (acks == -1 and len(image.isr) >= len(image.replicas)))
            and not self._workers.is_busy(hosted.key)
            and not is_durable(hosted, self._settings)
        )


def is_durable(hosted: HostedPartition, settings: "BrokerSettings") -> bool:
    """Whether an acknowledgement for this partition means that its records are on disk."""
    topic = hosted.topic_image
    of_topic = None if topic is None else topic.config.get("kstore.acks.durable")
    if of_topic is not None:
        return of_topic == "true"
    return settings.kstore_acks_durable
