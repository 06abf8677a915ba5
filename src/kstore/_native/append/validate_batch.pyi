"""Validation of a batch as Kafka's leader does it.

Safe to call from several threads; validation releases the GIL. ``status.name`` and
``status.reason`` describe a status. Rules: Kafka's ``LogValidator``, ``DefaultRecordBatch`` and
``DefaultRecord``.
"""

from _typeshed import ReadableBuffer

class LeaderReport:
    """The result of ``validate_leader`` or ``validate_records``; read-only."""

    status: int
    """0 if valid; else the fault that Kafka reports first."""
    bad_position: int
    """Position in the buffer where a check failed; -1 if none."""
    bad_record: int
    """Index of the invalid record; -1 if none."""
    base_offset: int
    last_offset: int
    size: int
    """Size of the batch; more bytes may follow it in the buffer."""
    count: int
    attributes: int
    max_timestamp: int
    """Correct value of the header field: now for a LogAppendTime topic, else the largest of the
    records (-1 if none). For a compressed batch, only ``validate_records`` sets it."""
    restamp: bool
    """The header's timestamp type or max timestamp is wrong."""
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
    """Validate the v2 batch at the start of a buffer as Kafka's leader does.

    Checks size limits, magic, CRC, count against lastOffsetDelta, and codec; from a client also
    base offset 0, that it is not a control batch, and that a producer id has a sequence. In an
    uncompressed batch, checks every length, offset deltas 0, 1, 2 ..., headers, that no bytes
    are left, timestamps from ``now - before_max`` to ``now + after_max`` (ms) unless the topic has
    LogAppendTime, and that every record of a compacted topic has a key. A negative
    ``max_message_bytes`` is no limit. Reports invalid bytes in the result, without an exception.
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
    """Validate the decompressed records of a batch against its header fields."""
