"""Reads one partition for a Fetch request on the fast path, and encodes the response.

Errors, aborted transactions, and what a disk worker must load, are left to
:mod:`kstore.broker.fetch_reader`.
"""

from enum import Enum
from typing import TYPE_CHECKING

from kstore._native.read.segment_pages import is_resident
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore._native.broker.fetch_frame import WantedFrame
    from kstore.broker.fetch_session import FetchSessions
    from kstore.broker.partitions import HostedPartition
    from kstore.broker.services import Services
    from kstore.protocol.wire import Chunk

_ZSTD_SINCE = 10
_COPIED_SIZE = 16_384  # records up to this size leave with the head in one send


class NoAnswer(Enum):
    """Why the fast path has no response."""

    TOO_FEW_BYTES = "the request waits for more records"
    UNUSUAL = "the request needs the general handler"


class FetchFrameReader:
    """Reads partitions, one for each request. Loop's thread only."""

    __slots__ = ("_counters", "_metadata", "_partitions", "_sessions")

    def __init__(self, services: "Services", sessions: "FetchSessions") -> None:
        self._sessions = sessions
        self._counters = services.counters
        self._metadata = services.metadata
        self._partitions = services.partitions

    def hosted(self, wanted: "WantedFrame") -> "HostedPartition | None":
        """The partition of a request, as of now.

        None if no topic has the request's id, or if the answer depends on other partitions of the
        request's session.
        """
        if wanted.session_id and self._sessions.only_partition(wanted) is None:
            return None
        image = self._metadata.image
        topic = wanted.topic
        if topic is None:
            topic = image.names_by_id.get(wanted.topic_id)  # type: ignore[arg-type]  # one is set
            if topic is None:
                return None
        return self._partitions.get(topic, wanted.partition, image)

    def read(
        self,
        wanted: "WantedFrame",
        hosted: "HostedPartition",
        is_due: bool,
        may_wait: bool = False,
    ) -> "bytes | list[Chunk] | NoAnswer":
        """The response with the records that are available. ``is_due``: even if they are too few.

        Unless ``may_wait``, records that are not in the page cache are left to the general handler.
        """
        log, image = hosted.log, hosted.image
        if (
            log is None
            or image is None
            or hosted.error
            or (wanted.leader_epoch != -1 and wanted.leader_epoch != image.leader_epoch)
            or (wanted.version < _ZSTD_SINCE and log.config.compression_type == "zstd")
        ):
            return NoAnswer.UNUSUAL
        offset, limit = wanted.offset, wanted.max_bytes
        segments = log.segments
        try:
            if not may_wait and not is_resident(segments, offset, limit):
                return NoAnswer.UNUSUAL
            high_watermark = log.high_watermark
            stable, start = log.last_stable_offset, log.start_offset
            end = stable if wanted.is_committed else high_watermark
            records = log.read(offset, limit, up_to=end)
            if (
                wanted.is_committed
                and records is not None
                and (
                    log._known_aborted(offset, min(records.next_offset, end)) != []
                    or log.segments is not segments  # the records' segment may have left the log
                )
            ):
                return NoAnswer.UNUSUAL
        except (KStoreError, OSError):
            return NoAnswer.UNUSUAL
        size = 0 if records is None else len(records)
        if not size and wanted.session_id:
            return NoAnswer.UNUSUAL  # a session sends only news, and may have to wait for it
        if (
            size < wanted.min_bytes
            and not is_due
            # a read ends with its segment: more bytes would not follow however long it waits
            and (records is None or records.segment.next_offset >= end)
        ):
            return NoAnswer.TOO_FEW_BYTES
        if not may_wait and size > limit and records is not None and not records.is_resident():
            return NoAnswer.UNUSUAL  # its first batch is longer than the limit
        if wanted.session_id:
            self._sessions.advance(wanted, high_watermark, start)
        if self._counters is not None:
            self._counters.topic(hosted.topic).fetched(size, 0)
        if size <= _COPIED_SIZE:
            return wanted.complete_answer(
                high_watermark, stable, start, b"" if records is None else records
            )
        assert records is not None
        head, tail = wanted.answer_around(high_watermark, stable, start, size)
        return [head, records, tail] if tail else [head, records]
