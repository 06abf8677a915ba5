"""The batches of a log by their headers: offsets, codec, producer, sizes; no record is read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kstore._native.format import batch_fields, batch_scan
from kstore._native.format.status import name as status_name
from kstore.errors import CorruptRecordError
from kstore.hints.kafka_names import OF_BATCH_INFOS
from kstore.hints.missing_names import answer_names
from kstore.lazy_dataclass import lazy_dataclass
from kstore.record.codec import NAMES

if TYPE_CHECKING:
    from kstore._native.read.segment_view import Slice
    from kstore.log.view import LogView

_WINDOW = 1 << 20  # bytes of a segment whose headers are read at once, so that memory is bounded
_LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


@lazy_dataclass(frozen=True)
class RecordBatchInfo:
    """The header of a record batch, as Kafka's ``DumpLogSegments`` prints it. Immutable.

    ``compression`` is Kafka's name of the codec. ``count`` is the number of records, -1 (unknown)
    in a compressed set of messages v0 or v1, where ``base_offset`` is that of the last one, too.
    ``producer_id``, ``producer_epoch``, ``base_sequence`` and ``leader_epoch`` are -1 for none.
    Timestamps are milliseconds since 1970, -1 for none; ``first_timestamp`` is -1, too, where
    compaction has replaced it by ``delete_horizon``, the time from which on compaction may remove
    the batch's tombstones or marker. ``position`` and ``size`` are bytes in
    the file ``path``.
    """

    base_offset: int
    last_offset: int
    count: int
    compression: str
    magic: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    timestamp_type: str
    first_timestamp: int
    delete_horizon: int
    max_timestamp: int
    crc: int
    position: int
    size: int
    path: str


answer_names(RecordBatchInfo, OF_BATCH_INFOS)


def batches_of(view: "LogView") -> Iterator[RecordBatchInfo]:
    """The batches that hold an offset of the window, in order."""
    stop = view.stop
    for data, offset in view.slices():
        for batch in _batches_in(data, view.log.writable):
            if batch.base_offset >= stop and batch.last_offset >= stop:
                return
            if batch.last_offset >= offset:
                yield batch


def _batches_in(data: "Slice", is_writer: bool) -> Iterator[RecordBatchInfo]:
    """The batches of a slice, window by window; a batch larger than a window widens it."""
    at, window = 0, _WINDOW
    while at < data.size:
        end = min(at + window, data.size)
        table = batch_scan.scan(data, at, end, check_crc=False)
        for row in range(len(table)):
            yield _row(table, row, data)
        ended = status_name(table.status)
        if len(table):
            at, window = table.stop, _WINDOW
        elif ended == "TRUNCATED":
            window *= 4
        if ended == "OK" or (ended == "TRUNCATED" and end < data.size):
            continue
        if not is_writer and (ended == "TRUNCATED" or not any(data.memory()[at:])):
            return  # the next slice has the rest; or it is not written yet
        raise CorruptRecordError(
            f"no batch begins here ({ended})", path=data.path, position=data.position + at
        )


def _row(table: Any, row: int, data: "Slice") -> RecordBatchInfo:
    attributes = table.attributes[row]
    magic = table.magic[row]
    first = table.base_timestamp[row]
    has_horizon = magic > 1 and bool(attributes & _DELETE_HORIZON)
    kind = "LogAppendTime" if attributes & _LOG_APPEND_TIME else "CreateTime"
    codec = attributes & batch_fields.CODEC_MASK
    return RecordBatchInfo(
        base_offset=table.base_offset[row],
        last_offset=table.last_offset[row],
        count=table.count[row],
        compression=NAMES[codec] if codec < len(NAMES) else f"unknown ({codec})",
        magic=magic,
        producer_id=table.producer_id[row],
        producer_epoch=table.producer_epoch[row],
        base_sequence=table.base_sequence[row],
        leader_epoch=table.leader_epoch[row],
        is_transactional=magic > 1 and bool(attributes & _TRANSACTIONAL),
        is_control=magic > 1 and bool(attributes & _CONTROL),
        timestamp_type=kind if magic else "NoTimestampType",
        first_timestamp=-1 if has_horizon else first,
        delete_horizon=first if has_horizon else -1,
        max_timestamp=table.max_timestamp[row],
        crc=table.crc[row],
        position=data.position + table.position[row],
        size=table.size[row],
        path=data.path,
    )
