"""The fast path for Fetch requests of one partition without a session.

Native code parses such a request and, if enough records are available immediately, encodes the head
of the response. The fast path changes no state, so it leaves all other cases (errors, and requests
that must wait for records or for the disk) to :mod:`kstore.broker.handlers.fetch`, which reads
again. Both give the same responses.
"""

from typing import TYPE_CHECKING

from kstore._native.broker import fetch_frame
from kstore._native.read import segment_pages
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.protocol.wire import Chunk

_ZSTD_SINCE = 10


class FetchFrames:
    """Handles Fetch requests of one partition. Loop's thread only."""

    __slots__ = ("_counters", "_max_bytes", "_metadata", "_partitions")

    def __init__(self, services: "Services") -> None:
        self._counters = services.counters
        self._metadata = services.metadata
        self._partitions = services.partitions
        self._max_bytes = services.settings.fetch_max_bytes

    def handle_frame(
        self, frame: memoryview, version: int, correlation_id: int
    ) -> "list[Chunk] | None":
        """The chunks of the response; None if the request needs the general handler."""
        found = fetch_frame.parse(frame)
        if found is None:
            return None
        topic, partition, epoch, offset, partition_max_bytes, max_bytes, min_bytes = found
        hosted = self._partitions.get(topic, partition, self._metadata.image)
        log = hosted.log
        if (
            log is None
            or hosted.image is None
            or hosted.error != ErrorCode.NONE
            or (epoch != -1 and epoch != hosted.image.leader_epoch)
            or (version < _ZSTD_SINCE and log.config.compression_type == "zstd")
        ):
            return None
        max_bytes = max(0, min(max_bytes, self._max_bytes))
        limit = max(0, min(partition_max_bytes, max_bytes))
        try:
            if not segment_pages.is_resident(log.segments, offset, limit):
                return None
            high_watermark = log.high_watermark
            stable, start = log.last_stable_offset, log.start_offset
            records = log.read(offset, limit, up_to=high_watermark)
        except (KStoreError, OSError):
            return None
        size = 0 if records is None else len(records)
        if records is None or size < min(min_bytes, max_bytes):
            return None
        if size > limit and not records.is_resident():  # its first batch is longer than the limit
            return None
        if self._counters is not None:
            self._counters.topic(topic).fetched(size, 0)
        head = fetch_frame.answer_head(
            version, correlation_id, topic, partition, high_watermark, stable, start, size
        )
        return [head, records]
