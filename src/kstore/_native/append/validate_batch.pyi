"""Complete batches: validation as Kafka's leader does it, and stamping.

Safe to call from several threads; validation releases the GIL. A status is a number whose name
and sentence ``status.name`` and ``status.reason`` give. Sources of the rules: Kafka's
``LogValidator``, ``DefaultRecordBatch`` and ``DefaultRecord``.
"""

from _typeshed import ReadableBuffer, WriteableBuffer

from kstore._native.format.batch_table import BatchTable as BatchTable
from kstore._native.format.batch_table import FramePositions as FramePositions
from kstore._native.format.batch_table import scan as scan
from kstore._native.format.batch_table import walk_frames as walk_frames

class LeaderReport:
    """What ``validate_leader`` or ``validate_records`` found; read-only."""

    status: int
    """0 if right; else the fault that Kafka would put on top."""
    bad_position: int
    """Byte where a check failed, counted from the buffer's start; -1 if none did."""
    bad_record: int
    """Index of the record that failed, -1 if none did."""
    base_offset: int
    last_offset: int
    size: int
    """Bytes of the complete batch; more bytes may follow it in the buffer."""
    count: int
    attributes: int
    max_timestamp: int
    """What the header should say: now for a LogAppendTime topic, else the largest of the records
    (-1 if none has one). Of a compressed batch only ``validate_records`` knows."""
    restamp: bool
    """The header's timestamp type or max timestamp differ: ``stamp_timestamp`` is due."""
    @property
    def ok(self) -> bool: ...
    @property
    def status_name(self) -> str: ...
    @property
    def reason(self) -> str: ...

def validate_leader(
    buffer: ReadableBuffer,
    *,
    now: int,
    before_max: int = ...,
    after_max: int = ...,
    max_message_bytes: int = -1,
    log_append_time: bool = False,
    key_required: bool = False,
    from_client: bool = True,
) -> LeaderReport:
    """Check the v2 batch at the start of a buffer as Kafka's leader does.

    Size limits, magic, CRC, count against lastOffsetDelta, codec; from a client also base
    offset 0, no control batch and a sequence beside a producer id. An uncompressed batch is
    walked: every length, offset deltas 0, 1, 2 ..., header sections, nothing left over,
    timestamps from ``now - before_max`` to ``now + after_max`` (ms) unless the topic has
    LogAppendTime, a key in every record of a compacted topic. A negative
    ``max_message_bytes`` is no limit. Raises nothing for bad bytes: see the report.
    """

def validate_records(
    buffer: ReadableBuffer,
    *,
    count: int,
    now: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    before_max: int = ...,
    after_max: int = ...,
    log_append_time: bool = False,
    key_required: bool = False,
) -> LeaderReport:
    """Check decompressed records, exactly the buffer, against the header they came with."""

def stamp(buffer: WriteableBuffer, *, base_offset: int, leader_epoch: int) -> None:
    """Write both into the v2 batch at the start of a writable buffer, outside its CRC.

    Raises ``CorruptRecordError`` without a complete v2 batch.
    """

def stamp_timestamp(buffer: WriteableBuffer, *, log_append_time: bool, max_timestamp: int) -> None:
    """Write timestamp type, max timestamp and a new CRC into the v2 batch at the start.

    Raises ``CorruptRecordError`` without a complete v2 batch.
    """

def prefix(*, base_offset: int, size: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a v2 batch of ``size`` bytes: all that stamping changes."""
