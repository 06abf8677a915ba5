"""dump-log where the files of real Kafka do not lead: damage, tails, partial dumps, refusals."""

import os
import struct
import tracemalloc

import pytest

from kstore._native.append.encode import BatchBuffer
from kstore._native.format.crc import crc32c
from kstore.cli import dump_log, main
from kstore.errors import CorruptRecordError
from kstore.producer_state import snapshot
from kstore.protocol.kafka_messages import decode
from kstore.segment import transaction_index
from support.damage import write_damaged


def batch(base_offset, *values, key=b"k"):
    buffer = BatchBuffer()
    buffer.reset()
    for number, value in enumerate(values):
        buffer.put(value, key, [("h", b"1"), ("h2", None)], 1000 + number)
    return buffer.to_bytes(base_offset, 3)


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, b"one", b"two") + batch(2, None) + batch(3, "ü".encode(), b"\xff"))
    return path


def dumped(capfdbinary, *words):
    status = main(["dump-log", *map(str, words)])
    output, errors = capfdbinary.readouterr()
    return status, output.decode().splitlines(), errors.decode().splitlines()


def test_without_print_data_log_only_batches_are_printed(segment, capfdbinary):
    status, lines, errors = dumped(capfdbinary, "--files", segment)
    assert (status, errors) == (0, [])
    assert lines[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    first = segment.read_bytes()[: len(batch(0, b"one", b"two"))]
    crc = int.from_bytes(first[17:21], "big")
    assert lines[2] == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 size: {len(first)} "
        f"magic: 2 compresscodec: none crc: {crc} isvalid: true"
    )
    assert len(lines) == 5


def test_print_data_log_shows_keys_and_payloads(segment, capfdbinary):
    _, lines, _ = dumped(capfdbinary, "--print-data-log", "--files", segment)
    records = [line for line in lines if line.startswith("|")]
    metadata = "sequence: -1 headerKeys: [h,h2] key: k"
    assert records == [
        f"| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 3 {metadata} payload: one",
        f"| offset: 1 CreateTime: 1001 keySize: 1 valueSize: 3 {metadata} payload: two",
        f"| offset: 2 CreateTime: 1000 keySize: 1 valueSize: -1 {metadata}",
        f"| offset: 3 CreateTime: 1000 keySize: 1 valueSize: 2 {metadata} payload: ü",
        f"| offset: 4 CreateTime: 1001 keySize: 1 valueSize: 1 {metadata} payload: \ufffd",
    ]


def test_chunks_of_any_size_give_the_same_lines(segment, capfdbinary, monkeypatch):
    complete = dumped(capfdbinary, "--print-data-log", "--files", segment)
    for size in (1, 20, 61, 100, 150):
        monkeypatch.setattr(dump_log, "_CHUNK", size)
        assert dumped(capfdbinary, "--print-data-log", "--files", segment) == complete


@pytest.mark.parametrize("cut", [1, 12, 17, 60])
def test_a_cut_tail_is_counted(segment, cut, capfdbinary):
    data = segment.read_bytes()
    segment.write_bytes(data + data[:cut])
    status, lines, errors = dumped(capfdbinary, "--deep-iteration", "--files", segment)
    assert (status, errors) == (0, [])
    assert lines[-1] == f"Found {cut} invalid bytes at the end of {segment.name}"


def test_zeros_at_the_end_are_reported(segment, capfdbinary):
    data = segment.read_bytes()
    segment.write_bytes(data + bytes(100))
    status, lines, errors = dumped(capfdbinary, "--files", segment)
    assert status == 1
    assert lines[-1] == f"Found 100 invalid bytes at the end of {segment.name}"
    assert errors[0].startswith(f"No valid batch at position {len(data)} of {segment}: ")


def test_a_flipped_byte_shows_as_invalid(segment, capfdbinary):
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    write_damaged(segment, data)
    _, lines, _ = dumped(capfdbinary, "--files", segment)
    assert [line.rpartition(" ")[2] for line in lines[2:]] == ["true", "true", "false"]


def test_unreadable_records_cost_their_batch_only(segment, capfdbinary):
    data = bytearray(segment.read_bytes())
    data[61] = 0x7F  # the first record claims more bytes than it has
    segment.write_bytes(data)
    status, lines, errors = dumped(capfdbinary, "--deep-iteration", "--files", segment)
    assert status == 1
    assert [line[:11] for line in lines if line[0] == "|"] == [
        f"| offset: {offset}" for offset in (2, 3, 4)
    ]
    assert "batch with offset 0 at position 0" in errors[0]


def test_gaps_are_reported_at_the_end(tmp_path, capfdbinary):
    path = tmp_path / "00000000000000000007.log"
    path.write_bytes(batch(7, b"a") + batch(10, b"b", b"c"))
    status, _, errors = dumped(capfdbinary, "--deep-iteration", "--files", path)
    assert status == 0
    assert errors == [f"Non-consecutive offsets in {path}", "  7 is followed by 10"]


def test_max_bytes_limits_what_is_dumped(segment, capfdbinary):
    size = len(batch(0, b"one", b"two"))
    _, lines, _ = dumped(capfdbinary, "--max-bytes", size + 5, "--files", segment)
    assert len(lines) == 3
    assert lines[2].startswith("baseOffset: 0 ")


def test_skip_record_metadata_prints_key_and_payload_only(segment, capfdbinary):
    flags = ("--print-data-log", "--skip-record-metadata")
    _, lines, _ = dumped(capfdbinary, *flags, "--files", segment)
    assert lines[3] == "| key: k payload: one"


def test_mismatches_of_an_index_with_its_log_are_printed(segment, capfdbinary):
    size = len(batch(0, b"one", b"two"))
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 2, size, 3, 0))
    _, lines, errors = dumped(capfdbinary, "--files", index)
    assert lines == [f"Dumping {index}", f"offset: 2 position: {size}", "offset: 3 position: 0"]
    assert errors == [f"Mismatches in :{index}", "  Index offset: 3, log offset: 1"]
    _, lines, errors = dumped(capfdbinary, "--verify-index-only", "--files", index)
    assert lines == [f"Dumping {index}"]
    assert len(errors) == 2


def test_mismatches_of_a_time_index_with_its_log_are_printed(segment, capfdbinary):
    index = segment.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qiqiqi", 1001, 1, 1000, 2, 1001, 3))
    _, lines, errors = dumped(capfdbinary, "--files", index)
    assert lines[1:] == [
        "timestamp: 1001 offset: 1",
        "timestamp: 1000 offset: 2",
        "timestamp: 1001 offset: 3",
    ]
    assert errors == [
        f"Found out of order timestamp in :{index}",
        "  Index timestamp: 1000, Previously indexed timestamp: 1001",
        f"The following indexed offsets are not found in :{index}",
        "Indexed offset: 3, found log offset: 4",
    ]


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_index_sanity_check_passes_good_indexes_and_fails_bad_ones(segment, kind, capfdbinary):
    index = segment.with_suffix(kind)
    good = struct.pack(">ii", 2, 0) if kind == ".index" else struct.pack(">qi", 5, 2)
    index.write_bytes(good)
    _, lines, _ = dumped(capfdbinary, "--index-sanity-check", "--files", index)
    assert lines == [f"Dumping {index}", f"{index} passed sanity check."]
    bad = struct.pack(">ii", -2, 0) if kind == ".index" else struct.pack(">qiqi", 5, 2, 4, 3)
    for data in (good + b"x", bad):
        index.write_bytes(data)
        status, _, errors = dumped(capfdbinary, "--index-sanity-check", "--files", index)
        assert status == 1
        assert "orrupt" in errors[0]


def test_a_damaged_snapshot_is_reported(tmp_path, capfdbinary):
    path = tmp_path / "00000000000000000003.snapshot"
    body = struct.pack(">iqhiqiqiq", 1, 9, 0, 1, 2, 3, 4, 5, -1)
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    assert dumped(capfdbinary, "--files", path)[1][1] == (
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: "
        "OptionalLong.empty lastTimestamp: 4 firstSequence: 2147483646 lastSequence: 1 "
        "lastOffset: 2 offsetDelta: 3 timestamp: 4"
    )
    write_damaged(path, path.read_bytes()[:-1] + b"x")
    assert "checksum" in dumped(capfdbinary, "--files", path)[2][0]


@pytest.mark.parametrize("size", range(10))
def test_side_files_of_any_length_are_typed_errors(size):
    with pytest.raises(ValueError):
        snapshot.parse(b"\0\1" + bytes(size))
    with pytest.raises(ValueError):
        transaction_index.parse(b"\1" + bytes(33 + size))


def test_a_transaction_index_is_dumped_up_to_its_hole(tmp_path, capfdbinary):
    path = tmp_path / "00000000000000000003.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 9, 3, 5, 6) + bytes(34 * 5))
    _, lines, errors = dumped(capfdbinary, "--files", path)
    assert lines == [
        f"Dumping {path}",
        "version: 0 producerId: 9 firstOffset: 3 lastOffset: 5 lastStableOffset: 6",
    ]
    assert "out of order" in errors[0]
    assert "position 34" in errors[0]


def test_unknown_files_are_ignored_by_name(tmp_path, capfdbinary):
    path = tmp_path / "something.else"
    path.touch()
    status, _, errors = dumped(capfdbinary, "--files", path)
    assert (status, errors) == (1, [f"Ignoring unknown file {path}"])
    _, _, (complaint,) = dumped(capfdbinary, "--files", tmp_path)
    assert complaint.endswith("; it is a directory: name the files in it")


def test_records_that_do_not_decode_say_so(segment, capfdbinary):
    for flag in ("--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder"):
        status, lines, _ = dumped(capfdbinary, flag, "--files", segment)
        assert status == 0
        assert sum("skipping" in line for line in lines) == 5


@pytest.mark.parametrize("cut", range(11))
def test_a_cut_message_is_a_typed_error(cut):
    complete = b"\0\2g1\0\1t\0\0\0\0"
    assert decode("OffsetCommitKey", 0, complete) == {"group": "g1", "topic": "t", "partition": 0}
    with pytest.raises(CorruptRecordError):
        decode("OffsetCommitKey", 0, complete[:cut])


@pytest.mark.parametrize(("kind", "entry"), [("index", ">ii"), ("timeindex", ">qi")])
def test_the_hole_behind_an_indexs_entries_is_not_read(segment, capfdbinary, kind, entry):
    path = segment.with_suffix(f".{kind}")
    path.write_bytes(struct.pack(entry, 2, 102))
    os.truncate(path, 120 << 20)
    tracemalloc.start()
    dumped(capfdbinary, "--files", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
