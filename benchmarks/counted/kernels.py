"""One operation for each kernel, on constant bytes in memory."""

import struct
from array import array
from collections.abc import Callable

import numpy as np

from counted.operation import Action, Workspace, operation
from engine.data.batches import message
from kstore._native.append import validate_batch
from kstore._native.append.encode import BatchBuffer
from kstore._native.append.producer_table import ProducerTable
from kstore._native.broker.produce_frame import parse_request
from kstore._native.compaction.key_indexer import KeyIndexer
from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.compaction.record_filter import RecordFilter
from kstore._native.format import batch_fields, batch_scan, crc, murmur2, ragged_bytes, status
from kstore._native.format.committed_offsets import sort_commits
from kstore._native.format.converter import Converter
from kstore._native.index.index_audit import BatchAudit
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore._native.jit import kernel_addresses
from kstore._native.read.aborted_transactions import AbortedRanges, TransactionWalk
from kstore._native.read.decode import Scanner
from kstore._native.read.dump_lines import LineDumper
from kstore._native.recovery import find_valid_batches
from kstore._native.recovery.header_checksums import ChecksumCheck, ChecksumWriter
from kstore._native.recovery.segment_scan import SegmentScan
from kstore._native.spark import encode_arrow
from kstore._native.spark.log_statistics import Survey
from kstore._native.spark.tally import Tally
from kstore.coordinator.group.offset_records import OffsetKey, encode_offset_key
from load.frames import produce

Prepared = tuple[Action, object]
TIME = 1_700_000_000_000
NO_LIMIT = 1 << 30
SECRET = bytes(range(16))
NOISE = bytes((n * 31 + (n >> 8) * 7) & 0xFF for n in range(1 << 17))


def values(count: int, size: int = 100) -> list[bytes]:
    return [NOISE[n * 37 : n * 37 + size] for n in range(count)]


def one_batch(
    records: int, base_offset: int = 0, *, keyed: bool = False, producer: int = -1
) -> bytes:
    """A v2 batch; keyed: each record has a key of 8 bytes and a header."""
    buffer = BatchBuffer()
    if producer >= 0:
        buffer.set_producer(producer, 0, base_offset)
    for n, value in enumerate(values(records)):
        key = b"%08d" % (n % 61) if keyed else None
        buffer.put(value, key, [("kind", b"counted")] if keyed else None, TIME + n)
    return buffer.to_bytes(base_offset, 0, 0)


def batches(records: int, count: int, *, keyed: bool = False) -> bytes:
    """Consecutive batches, offsets from 0."""
    one = one_batch(records, keyed=keyed)[8:]
    return b"".join((n * records).to_bytes(8, "big") + one for n in range(count))


def messages(count: int) -> bytes:
    return b"".join(message(134, n) for n in range(count))


def no_codec(*_: object) -> bytes:
    raise AssertionError("no batch is compressed")


# --- checksums ----------------------------------------------------------------------------------

for _name, _function in (("crc32c", crc.crc32c), ("crc32", crc.crc32)):
    for _size in (100, 1024, 65536):

        @operation(f"{_name} of {_size} bytes", rounds=20, by_path=True)
        def checksum_of(
            _: Workspace, function: Callable[..., int] = _function, size: int = _size
        ) -> Prepared:
            data, half = NOISE[:size], size // 2
            return lambda: function(data), function(data[half:], function(data[:half]))


# --- batches ------------------------------------------------------------------------------------


@operation("walk frames of 100 bytes", 2000, "frame")
def walk_frames(_: Workspace) -> Prepared:
    data = message(100) * 2000
    return lambda: len(batch_scan.walk_frames(data)), 2000


@operation("walk frames of 100 bytes, seeded", 2000, "frame")
def walk_seeded(_: Workspace) -> Prepared:
    data = message(100) * 2000
    seeds = list(range(4100, len(data), 4100))
    return lambda: len(batch_scan.walk_frames(data, seeds)), 2000


@operation("check batches of 16 KiB", 16, "batch", by_path=True)
def check_large(_: Workspace) -> Prepared:
    data = batches(150, 16)
    return lambda: batch_scan.scan(data).bad_crc_count, 0


@operation("check batches of one record", 200, "batch", by_path=True)
def check_small(_: Workspace) -> Prepared:
    data = batches(1, 200)
    return lambda: batch_scan.scan(data).bad_crc_count, 0


@operation("validate a batch as a leader", 150, "record", by_path=True)
def validate(_: Workspace) -> Prepared:
    data = one_batch(150)
    return lambda: validate_batch.validate_leader(data, now=TIME).ok, True


@operation("validate a batch with keys and headers", 150, "record")
def validate_keyed(_: Workspace) -> Prepared:
    data = one_batch(150, keyed=True)
    return lambda: validate_batch.validate_leader(data, now=TIME, key_required=True).ok, True


# --- encode and decode --------------------------------------------------------------------------


@operation("encode values into a batch", 1000, "record", by_path=True)
def encode_values(_: Workspace) -> Prepared:
    given, buffer = values(1000), BatchBuffer(1 << 18)

    def encode() -> int:
        buffer.reset()
        buffer.put_values(given, 0, TIME, NO_LIMIT)
        return len(buffer.finish())

    by_one = BatchBuffer(1 << 18)
    for value in given:
        by_one.put(value, None, None, TIME)
    return encode, len(by_one.to_bytes())


@operation("encode records one by one", 150, "record")
def encode_records(_: Workspace) -> Prepared:
    given, buffer = values(150), BatchBuffer(1 << 18)
    headers = [("kind", b"counted")]

    def encode() -> bytes:
        buffer.reset()
        for n, value in enumerate(given):
            buffer.put(value, b"%08d" % (n % 61), headers, TIME + n)
        return buffer.to_bytes(0, 0, 0)

    return encode, one_batch(150, keyed=True)


def drained(scanner: Scanner) -> int:
    total = 0
    while (block := scanner.next_block()) is not None:
        total += len(block)
    return total


for _kind, _data in (
    ("batches of 150", batches(150, 10)),
    ("batches of one", batches(1, 300)),
    ("messages v1", messages(300)),
):
    _count = sum(len(block) for block in Scanner(_data))

    @operation(f"decode into columns, {_kind}", _count, "record", by_path=_kind == "batches of 150")
    def into_columns(_: Workspace, data: bytes = _data, count: int = _count) -> Prepared:
        return lambda: drained(Scanner(data)), count

    @operation(f"decode into positions of values, {_kind}", _count, "record")
    def into_places(_: Workspace, data: bytes = _data, count: int = _count) -> Prepared:
        return lambda: drained(Scanner(data, values_only=True)), count

    @operation(f"decode into values, {_kind}", _count, "record")
    def into_values(_: Workspace, data: bytes = _data, count: int = _count) -> Prepared:
        def read() -> int:
            scanner, total = Scanner(data, values_only=True), 0
            while (found := scanner.next_values()) is not None:
                total += len(found)
            return total

        return read, count

    @operation(f"decode into records, {_kind}", _count, "record")
    def into_records(_: Workspace, data: bytes = _data, count: int = _count) -> Prepared:
        return lambda: sum(1 for _ in Scanner(data).records()), count


@operation("decode keys and headers of a record", 1500, "record")
def into_fields(_: Workspace) -> Prepared:
    data = batches(150, 10, keyed=True)

    def read() -> int:
        return sum(
            len(record.key or b"") + len(record.headers) for record in Scanner(data).records()
        )

    return read, 1500 * 9


@operation("dump lines", 150, "record")
def dump(_: Workspace) -> Prepared:
    data = one_batch(150)

    def lines() -> int:
        dumper, found = LineDumper(deep=True), 0
        dumper.feed(data, 0)
        while (text := dumper.next_lines()) is not None:
            found += text.count(b"\n")
        dumper.close()
        return found

    return lines, 151


for _to, _codec in ((2, "messages v1 to v2"), (1, "batches v2 to v1")):

    @operation(f"convert {_codec}", 150, "record")
    def convert(_: Workspace, magic: int = _to) -> Prepared:
        data = messages(150) if magic == 2 else one_batch(150)

        def run() -> int:
            made = Converter(data, magic, decompress=no_codec, compress=no_codec).convert()
            return drained(Scanner(made))

        return run, 150


# --- columns ------------------------------------------------------------------------------------


def rows(count: int = 1000) -> tuple[bytes, "np.ndarray", "np.ndarray"]:
    positions = np.arange(count, dtype=np.int64) * 100
    return NOISE[: count * 100], positions, np.full(count, 100, np.int32)


@operation("gather rows", 1000, "row")
def gather(_: Workspace) -> Prepared:
    data, positions, lengths = rows()
    return lambda: len(ragged_bytes.gather(data, positions, lengths)), 1000


@operation("pack rows", 1000, "row")
def pack(_: Workspace) -> Prepared:
    data, positions, lengths = rows()
    offsets, out = np.zeros(1001, np.int32), np.zeros(100_000, np.uint8)
    return lambda: ragged_bytes.pack(data, positions, lengths, offsets, out), 0


@operation("make binary views", 1000, "row")
def binary_views(_: Workspace) -> Prepared:
    data, positions, lengths = rows()
    out = np.zeros(16_000, np.uint8)
    return lambda: ragged_bytes.binary_views(data, positions, lengths, out), None


@operation("count records by key", 1000, "record")
def tally(_: Workspace) -> Prepared:
    data, positions, lengths = rows()
    counted = Tally(SECRET, 60_000, by_key=True)
    offsets = np.arange(1000, dtype=np.int64)
    times = offsets * 100 + TIME
    short = np.full(1000, 8, np.int32)

    def add() -> int:
        counted.add(data, offsets, times, positions % 800, short, lengths)
        return len(counted)

    add()
    return add, len(counted)


@operation("survey batches of 100 records", 1000, "record")
def survey(_: Workspace) -> Prepared:
    data = batches(100, 10, keyed=True)

    def walk() -> tuple[int, int]:
        walked = Survey(Tally(SECRET, 3_600_000), no_codec)
        walked.begin_segment("counted", 0, NO_LIMIT)
        walked.attach(data, 0)
        walked.run()
        return walked.records, walked.consumed

    return walk, (1000, len(data))


@operation("put rows of Arrow's into a batch", 1000, "record", by_path=True)
def put_rows(_: Workspace) -> Prepared:
    data, positions, _lengths = rows()
    ends = np.arange(1001, dtype=np.int32) * 100
    column = encode_arrow.ArrowBinary(1000, 0, None, ends, data)
    order, times = np.arange(1000, dtype=np.int64), np.full(1000, TIME, np.int64)
    buffer = BatchBuffer(1 << 18)

    def put() -> int:
        buffer.reset()
        count = encode_arrow.put_rows(buffer, order, times, None, column, None)
        buffer.finish()
        return count

    return put, len(positions)


@operation("give staged batches their offsets", 10, "batch")
def assign_offsets(_: Workspace) -> Prepared:
    data = bytearray(batches(150, 10))
    return lambda: encode_arrow.assign_offsets(data, 0, NO_LIMIT, 70, 2), (len(data), 70 + 1500)


@operation("hash and partition keys", 1000, "key")
def partitions(_: Workspace) -> Prepared:
    data, positions, _lengths = rows()
    short = np.full(1000, 8, np.int32)
    out = np.zeros(1000, np.int32)

    def run() -> int:
        murmur2.partitions_for_keys(data, positions, short, 12, out)
        return int(out[999])

    return run, murmur2.partition_for_key(data[99_900:99_908], 12)


@operation("partition one key")
def partition(_: Workspace) -> Prepared:
    key = b"00000042"
    return lambda: murmur2.partition_for_key(key, 12), murmur2.murmur2(key) % 2**31 % 12


# --- indexes ------------------------------------------------------------------------------------

ENTRIES = 1 << 15
_SLOTS = [(40 * n + n * n % 13, n + 1) for n in range(ENTRIES)]
_ASKED = [_SLOTS[n * 7919 % ENTRIES][0] for n in range(2048)]


def offset_index() -> OffsetIndex:
    return OffsetIndex(b"".join(struct.pack(">ii", *slot) for slot in _SLOTS), 1000)


@operation("one index lookup", 256, "lookup")
def lookup(_: Workspace) -> Prepared:
    index = offset_index()
    asked = [1000 + key for key in _ASKED[:256]]
    return lambda: sum(map(index.lookup, asked)), sum(n * 7919 % ENTRIES + 1 for n in range(256))


@operation("many index lookups in one call", 2048, "lookup", by_path=True)
def lookup_many(_: Workspace) -> Prepared:
    index = offset_index()
    asked, out = array("q", [1000 + key for key in _ASKED]), array("q", bytes(8 * 2048))

    def run() -> int:
        index.lookup_many(asked, out)
        return out[2047]

    return run, 2047 * 7919 % ENTRIES + 1


@operation("one time index lookup", 256, "lookup")
def time_lookup(_: Workspace) -> Prepared:
    data = b"".join(struct.pack(">qi", TIME + key, n) for n, (key, _) in enumerate(_SLOTS))
    index = TimeIndex(data, 1000)
    asked = [TIME + key for key in _ASKED[:256]]
    return lambda: sum(map(index.lookup, asked)), sum(n * 7919 % ENTRIES for n in range(256)) + (
        256 * 1000
    )


@operation("check an index", ENTRIES, "entry", rounds=3)
def check_index(_: Workspace) -> Prepared:
    index = offset_index()
    return index.find_fault, None


# --- recovery, audits, seals --------------------------------------------------------------------


@operation("recover a segment", 200, "batch", by_path=True)
def recover(_: Workspace) -> Prepared:
    data = batches(10, 200)

    def run() -> int:
        scan = SegmentScan(0, len(data))
        scan.feed(data)
        scan.finish()
        return scan.next_offset

    return run, 2000


@operation("audit batches", 100, "batch")
def audit(_: Workspace) -> Prepared:
    data = batches(10, 100)

    def run() -> int:
        found = BatchAudit(0, len(data), b"", b"")
        found.walk(data)
        return found.batches

    return run, 100


@operation("find a run of sound batches", 100, "batch")
def scan_valid_batches(_: Workspace) -> Prepared:
    data = batches(10, 100)
    return lambda: find_valid_batches.scan_valid_batches(data, 0).batch_count, 100


@operation("find a batch in garbage", 16384, "byte")
def find_valid_batch(_: Workspace) -> Prepared:
    data = NOISE[:16384] + batches(10, 20)
    return lambda: find_valid_batches.find_valid_batch(data, 0, 0, 1 << 40), 16384


@operation("seal batches", 128, "batch")
def seal(_: Workspace) -> Prepared:
    data = batches(10, 128)

    def run() -> bool:
        maker = ChecksumWriter(len(data))
        maker.feed(data)
        check = ChecksumCheck(maker.finish(), len(data))
        return not check.feed(data, 0) and not check.finish()

    return run, True


# --- compaction ---------------------------------------------------------------------------------


@operation("put keys into a map", 1000, "key")
def keymap(_: Workspace) -> Prepared:
    names = [b"%08d" % n for n in range(1000)]

    def run() -> int:
        found = OffsetMap(1 << 18, 0.9, SECRET)
        for offset, name in enumerate(names):
            found.put(name, offset)
        return sum(found.get(name) for name in names)

    return run, sum(range(1000))


def indexed(data: bytes) -> OffsetMap:
    known = OffsetMap(1 << 18, 0.9, SECRET)
    indexer = KeyIndexer(known, 0, no_codec)
    indexer.begin("counted", 0)
    indexer.attach(data, 0)
    indexer.run()
    indexer.detach()
    indexer.finish()
    return known


@operation("index keys for a compaction", 1500, "record")
def key_indexer(_: Workspace) -> Prepared:
    data = batches(150, 10, keyed=True)
    return lambda: len(indexed(data)), 61


@operation("keep the latest of each key", 1500, "record")
def record_filter(_: Workspace) -> Prepared:
    data = batches(150, 10, keyed=True)
    known = indexed(data)

    def run() -> int:
        chosen = RecordFilter(
            known,
            first_dirty=0,
            latest=1499,
            upper_bound=1500,
            now=TIME,
            delete_retention=1,
            last_offsets=(),
            decompress=no_codec,
            compress=no_codec,
        )
        chosen.begin_segment("counted", 0, False)
        chosen.attach(data, 0)
        chosen.run()
        chosen.detach()
        return chosen.records_kept

    return run, 61


# --- producers and transactions -----------------------------------------------------------------


def of_producers(count: int) -> bytes:
    one = [one_batch(1, 0, producer=number) for number in range(8)]
    return b"".join(n.to_bytes(8, "big") + one[n % 8][8:] for n in range(count))


@operation("replay producers", 8, "batch")
def producers(_: Workspace) -> Prepared:
    data = of_producers(8)
    table = ProducerTable()

    def run() -> int:
        table.clear()
        table.replay(data)
        return len(table) if table.snapshot() else 0

    return run, 8


@operation("walk transactions", 200, "batch")
def transactions(_: Workspace) -> Prepared:
    data = of_producers(200)
    return lambda: TransactionWalk(0).walk(data, 0, 1 << 40), len(data)


@operation("ask whether a batch was aborted")
def aborted(_: Workspace) -> Prepared:
    known = AbortedRanges([(7, n * 10, n * 10 + 5) for n in range(1000)])
    return lambda: (7, 5003) in known, True


# --- consumer groups -----------------------------------------------------------------------------


@operation("sort committed offsets by group", 1000, "commit")
def sort_a_thousand(_: Workspace) -> Prepared:
    keys = [
        encode_offset_key(OffsetKey(f"group-{number % 50}", "topic", number // 50))
        for number in range(1000)
    ]
    value = b"v" * 24
    data = b"".join(key + value for key in keys)
    sizes = np.array([len(key) for key in keys], np.int32)
    ends = np.cumsum(sizes + len(value)).astype(np.int64)
    value_positions = ends - len(value)
    key_positions = value_positions - sizes
    value_sizes = np.full(1000, len(value), np.int32)

    def sort() -> tuple[list[int] | None, int, int]:
        groups: dict[str, dict[bytes, bytes | None]] = {}
        others = sort_commits(data, key_positions, sizes, value_positions, value_sizes, groups)
        return others, len(groups), sum(map(len, groups.values()))

    return sort, ([], 50, 1000)


# --- others -------------------------------------------------------------------------------------


@operation("fields of a header", 200, "batch")
def header_fields(_: object) -> Prepared:
    data = batches(1, 200)

    def walk() -> int:
        position, last = 0, -1
        while position < len(data):
            last = batch_fields.last_offset(data, position)
            position = batch_fields.next_position(data, position)
        return last

    return walk, 199


@operation("name a status")
def status_name(_: Workspace) -> Prepared:
    return lambda: len(status.name(1)) > 0, True


@operation("addresses of the kernels")
def addresses(_: Workspace) -> Prepared:
    return lambda: all(kernel_addresses.addresses().values()), True


@operation("parse and answer a produce of one record", rounds=50)
def parse_produce(_: Workspace) -> Prepared:
    frame = memoryview(produce("counted", 3, one_batch(1)).data)[4:]

    def answered() -> int:
        request = parse_request(frame)
        return 0 if request is None else len(request.answer(5, -1, 0))

    return answered, 65
