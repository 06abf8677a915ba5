"""Each bit of each batch's header flipped, then a read from each offset: right, or an error."""

import os
import struct

import pytest

import kstore
from kstore import LogConfig
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import CorruptRecordError, KStoreError
from kstore.files import filenames
from kstore.files.files import DISK
from oracle import writer
from oracle.plain import PlainRecord
from oracle.reader import read_log
from oracle.recovery import recover

HEADER = 61


def record(offset):
    return PlainRecord(offset, 1_000_000 + offset, b"k", b"v%d" % offset)


def solid():
    return [writer.batch([record(4 * n + m) for m in range(4)], leader_epoch=0) for n in range(4)]


def gappy():
    """As compaction leaves them: offsets missing within batches and between them."""
    kept = ((0, 2, 3), (10, 11), (14, 15), (30,))
    return [writer.batch([record(o) for o in each], leader_epoch=0) for each in kept]


def packed():
    return [
        writer.batch([record(4 * n + m) for m in range(4)], leader_epoch=0, codec=1)
        for n in range(3)
    ]


SHAPES = {"solid": solid, "gappy": gappy, "packed": packed}
AFTER = {"solid": 16, "gappy": 40, "packed": 12}  # where the next segment begins


def partition(tmp_path, parts, interval, after):
    directory = tmp_path / "data" / "orders-0"
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders", config=LogConfig(index_interval_bytes=interval))
    data = b"".join(parts)
    found = recover(data, 0, interval)
    (directory / filenames.log_name(0)).write_bytes(data)
    (directory / filenames.index_name(0)).write_bytes(writer.offset_index(found.index, 0))
    times = writer.time_index(found.time_index, 0)
    (directory / filenames.time_index_name(0)).write_bytes(times)
    rest = writer.batch([record(after), record(after + 1)], leader_epoch=0)
    (directory / filenames.log_name(after)).write_bytes(rest)
    for kind in (filenames.INDEX, filenames.TIME_INDEX):
        (directory / filenames.file_name(after, kind)).write_bytes(b"")
    LeaderEpochs([(0, 0)]).save(DISK, directory / "leader-epoch-checkpoint")
    return directory / filenames.log_name(0), data


def seen_from(log, offset):
    """(offset, key, value) read from an offset on, and whether it ended in an error."""
    found = []
    try:
        for each in log.view(offset):
            found.append((each.offset, each.key, each.value))
    except CorruptRecordError:
        return found, True
    return found, False


@pytest.mark.parametrize(
    ("shape", "interval", "mode"),
    [
        ("solid", 0, "a"),
        ("solid", 1 << 20, "a"),
        ("solid", 0, "r"),
        ("gappy", 0, "a"),
        ("gappy", 1 << 20, "a"),
        ("packed", 0, "a"),
    ],
)
def test_a_flipped_bit_of_a_header_hides_no_record_silently(shape, interval, mode, tmp_path):
    parts = SHAPES[shape]()
    path, data = partition(tmp_path, parts, interval, after := AFTER[shape])
    truth = [(r.offset, r.key, r.value) for r in read_log(data).records]
    truth += [(r.offset, r.key, r.value) for r in (record(after), record(after + 1))]
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + len(part))
    wrong, silent = [], []
    with kstore.open(tmp_path / "data", mode=mode) as store:
        log = store["orders"][0]
        with path.open("r+b", buffering=0) as file:
            for number, start in enumerate(starts):
                for bit in range(8 * HEADER):
                    at = start + bit // 8
                    os.pwrite(file.fileno(), bytes([data[at] ^ 1 << bit % 8]), at)
                    for offset in range(after + 2):
                        found, failed = seen_from(log, offset)
                        expected = [each for each in truth if each[0] >= offset]
                        if found != expected[: len(found)]:
                            wrong.append((number, bit, offset, found[:1]))
                        elif len(found) < len(expected) and not failed:
                            silent.append((number, bit, offset))
                    os.pwrite(file.fileno(), data[at : at + 1], at)
    offsets_only = {(number, bit) for number, bit, *_ in (*wrong, *silent) if bit < 64}
    assert {(number, bit) for number, bit, *_ in (*wrong, *silent)} == offsets_only
    if shape != "gappy":
        assert not silent
        assert not wrong
    # In gaps a moved offset contradicts nothing: the seal alone sees it.
    assert [key for key in sorted(offsets_only) if not any(gap(parts, *key))] == []


def gap(parts, number, bit):
    """Whether a batch with that bit of its base offset flipped lies in the gap around it."""
    base, delta = struct.unpack_from(">q", parts[number])[0], 0
    delta = struct.unpack_from(">i", parts[number], 23)[0]
    moved = base ^ 1 << (7 - bit // 8) * 8 + bit % 8
    before = -1
    if number:
        before = struct.unpack_from(">q", parts[number - 1])[0]
        before += struct.unpack_from(">i", parts[number - 1], 23)[0]
    after = struct.unpack_from(">q", parts[number + 1])[0] if number + 1 < len(parts) else 1 << 62
    yield before < moved and moved + delta < after


def test_log_s_own_answer_for_one_offset(tmp_path):
    """A lowered lastOffsetDelta: log[offset] says damage, not that the record was compacted."""
    parts = solid()
    path, data = partition(tmp_path, parts, 1 << 20, 16)
    wrong = bytearray(data)
    start = len(parts[0])
    struct.pack_into(">i", wrong, start + 23, 1)
    path.write_bytes(wrong)
    with kstore.open(tmp_path / "data", mode="r") as store:
        log = store["orders"][0]
        assert log[8].value == b"v8"
        assert log[3].value == b"v3"
        for offset in (4, 5, 6, 7):
            with pytest.raises(KStoreError) as caught:
                log[offset]
            assert isinstance(caught.value, CorruptRecordError)
            assert caught.value.position == start
