"""Reads one partition for a Fetch request on the fast path, and encodes the response.

Errors, and records that a disk worker must load, are left to :mod:`kstore.broker.fetch_reader`.
"""

from enum import Enum
from typing import TYPE_CHECKING

from kstore._native.broker import fetch_frame
from kstore._native.read import segment_pages
from kstore.errors import KStoreError
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.partitions import HostedPartition
    from kstore.broker.services import Services
    from kstore.protocol.wire import Chunk

_ZSTD_SINCE = 10
_COPIED_SIZE = 16_384  # records up to this size leave with the head in one send


class NoAnswer(Enum):
    """Why the fast path has no response."""

    TOO_FEW_BYTES = "the request waits for more records"
    UNUSUAL = "the request needs the general handler"


@lazy_dataclass()
class WantedFrame:
    """A parsed request."""

    version: int
    correlation_id: int
    topic: str
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int
    min_bytes: int


class FetchFrameReader:
    """Reads partitions, one for each request. Loop's thread only."""

    __slots__ = ("_counters", "_metadata", "_partitions")

    def __init__(self, services: "Services") -> None:
        self._counters = services.counters
        self._metadata = services.metadata
        self._partitions = services.partitions

    def hosted(self, wanted: WantedFrame) -> "HostedPartition":
        """The partition of a request, as of now."""
        return self._partitions.get(wanted.topic, wanted.partition, self._metadata.image)

    def read(
        self,
        wanted: WantedFrame,
        hosted: "HostedPartition",
        *,
        is_due: bool = False,
        may_wait: bool = False,
    ) -> "bytes | list[Chunk] | NoAnswer":
        """The response with the records that are available. ``is_due``: even if they are too few.

        Unless ``may_wait``, records that are not in the page cache are left to the general handler.
        """
        log, image = hosted.log, hosted.image
        if (
            log is None
            or image is None
            or hosted.error != ErrorCode.NONE
            or (wanted.leader_epoch != -1 and wanted.leader_epoch != image.leader_epoch)
            or (wanted.version < _ZSTD_SINCE and log.config.compression_type == "zstd")
        ):
            return NoAnswer.UNUSUAL
        offset, limit = wanted.offset, wanted.max_bytes
        try:
            if not may_wait and not segment_pages.is_resident(log.segments, offset, limit):
                return NoAnswer.UNUSUAL
            high_watermark = log.high_watermark
            stable, start = log.last_stable_offset, log.start_offset
            records = log.read(offset, limit, up_to=high_watermark)
        except (KStoreError, OSError):
            return NoAnswer.UNUSUAL
        size = 0 if records is None else len(records)
        if (
            size < wanted.min_bytes
            and not is_due
            # a read ends with its segment: more bytes would not follow however long it waits
            and (records is None or records.segment.next_offset >= high_watermark)
        ):
            return NoAnswer.TOO_FEW_BYTES
        if not may_wait and size > limit and records is not None and not records.is_resident():
            return NoAnswer.UNUSUAL  # its first batch is longer than the limit
        if self._counters is not None:
            self._counters.topic(wanted.topic).fetched(size, 0)
        fields = (
            wanted.version,
            wanted.correlation_id,
            wanted.topic,
            wanted.partition,
            high_watermark,
            stable,
            start,
        )
        if size <= _COPIED_SIZE:
            return fetch_frame.complete_answer(*fields, b"" if records is None else records)
        assert records is not None
        return [fetch_frame.answer_head(*fields, size), records]
