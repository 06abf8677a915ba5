"""The table of batches and the walk over frames, against the oracle and against themselves."""

import hashlib
import mmap
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore._native.format import batch_scan, status
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.writer import batch, marker, message, wrapper

NOW = 1_700_000_000_000
COLUMNS = {
    "base_offset": np.int64,
    "last_offset": np.int64,
    "position": np.int64,
    "base_timestamp": np.int64,
    "max_timestamp": np.int64,
    "producer_id": np.int64,
    "size": np.int32,
    "count": np.int32,
    "leader_epoch": np.int32,
    "base_sequence": np.int32,
    "crc": np.uint32,
    "producer_epoch": np.int16,
    "attributes": np.int16,
    "magic": np.int8,
    "crc_state": np.int8,
}


def rows(count, first=0, size=9):
    return [PlainRecord(first + n, NOW + n, b"k", b"v" * size) for n in range(count)]


def frames():
    """Frames of all kinds: magic 0, 1 and 2, wrappers, a marker, an empty batch."""
    return [
        message(0, b"k", b"v", magic=0),
        message(1, None, None, magic=0),
        message(2, b"k", b"v", magic=1, timestamp=NOW),
        wrapper(rows(3, 3), magic=1, codec=1),
        wrapper(rows(3, 6), magic=0, codec=2),
        batch(rows(4, 9), leader_epoch=3, producer_id=77, producer_epoch=2, base_sequence=5),
        batch(rows(3, 13), codec=1, timestamp_type=LOG_APPEND_TIME, max_timestamp=NOW + 9),
        batch([], base_offset=16, last_offset=18, base_timestamp=NOW, max_timestamp=NOW),
        marker(19, 1, timestamp=NOW, producer_id=77, producer_epoch=2),
        batch(rows(1, 20)),
    ]


SEGMENT = b"".join(frames())
STARTS = [0]
for _frame in frames():
    STARTS.append(STARTS[-1] + len(_frame))


def as_rows(table):
    return [getattr(table, name).tolist() for name in COLUMNS]


def test_a_scan_reads_every_field_of_every_magic():
    table = batch_scan.scan(SEGMENT)
    assert (len(table), status.name(table.status), table.stop) == (10, "OK", len(SEGMENT))
    assert table.bad_crc_count == 0
    assert table.position.tolist() == STARTS[:-1]
    assert table.size.tolist() == [len(each_frame) for each_frame in frames()]
    assert table.magic.tolist() == [0, 0, 1, 1, 0, 2, 2, 2, 2, 2]
    assert table.crc_state.tolist() == [1] * 10
    assert table.base_offset.tolist() == [0, 1, 2, 5, 8, 9, 13, 16, 19, 20]
    assert table.last_offset.tolist() == [0, 1, 2, 5, 8, 12, 15, 18, 19, 20]
    assert table.count.tolist() == [1, 1, 1, -1, -1, 4, 3, 0, 1, 1]
    assert table.attributes.tolist() == [0, 0, 0, 1, 2, 0, 9, 0, 0x30, 0]
    assert table.leader_epoch.tolist()[5:7] == [3, 0]
    assert table.producer_id.tolist()[4:7] == [-1, 77, -1]
    assert table.producer_epoch.tolist()[4:7] == [-1, 2, -1]
    assert table.base_sequence.tolist()[4:7] == [-1, 5, -1]
    assert table.base_timestamp.tolist()[:3] == [-1, -1, NOW]
    assert table.max_timestamp.tolist()[2:4] == [NOW, NOW + 2]
    assert table.max_timestamp.tolist()[5:7] == [NOW + 3, NOW + 9]
    assert table.crc[0] == struct.unpack_from(">I", SEGMENT, 12)[0]
    assert table.crc[5] == struct.unpack_from(">I", SEGMENT, STARTS[5] + 17)[0]


def test_columns_are_views_that_outlive_the_table():
    table = batch_scan.scan(SEGMENT)
    columns = {name: np.asarray(getattr(table, name)) for name in COLUMNS}
    expected = as_rows(table)
    del table
    for (name, column), values in zip(columns.items(), expected, strict=True):
        assert column.dtype == COLUMNS[name]
        assert column.strides == (80,)
        assert not column.flags.writeable
        assert column.flags.aligned
        assert column.tolist() == values


def test_a_column_is_refused_where_it_cannot_be_shown():
    column = batch_scan.scan(SEGMENT).size
    with pytest.raises(TypeError):
        column[0] = 1
    with pytest.raises(BufferError):
        hashlib.sha256(column)  # wants one contiguous buffer


def test_a_scan_of_less_than_a_batch_is_empty():
    for data in (b"", b"\0" * 16, SEGMENT[:17]):
        table = batch_scan.scan(data)
        assert (len(table), table.stop) == (0, 0)
        assert status.name(table.status) == ("TRUNCATED" if data else "OK")
        assert np.asarray(table.base_offset).shape == (0,)
        walked = batch_scan.walk_frames(data)
        assert (len(walked), walked.stop, walked.status) == (0, 0, table.status)
        assert np.asarray(walked).tolist() == []


def test_every_cut_is_a_tail():
    for end in range(len(SEGMENT) + 1):
        table = batch_scan.scan(SEGMENT[:end])
        complete = max(n for n, start in enumerate(STARTS) if start <= end)
        assert (len(table), table.stop) == (complete, STARTS[complete])
        assert status.name(table.status) == ("OK" if end == STARTS[complete] else "TRUNCATED")
        assert table.bad_crc_count == 0
        again = batch_scan.scan(SEGMENT, end=end)
        assert as_rows(again) == as_rows(table)
        walked = batch_scan.walk_frames(SEGMENT, end=end)
        assert np.asarray(walked).tolist() == STARTS[:complete]
        assert (walked.stop, walked.status) == (table.stop, table.status)


def test_every_flipped_bit_is_seen_or_outside_the_crc():
    clean = batch_scan.scan(SEGMENT)
    for bit in range(8 * len(SEGMENT)):
        flipped = bytearray(SEGMENT)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        table = batch_scan.scan(flipped)
        index = max(n for n, start in enumerate(STARTS[:-1]) if start <= bit >> 3)
        inside = (bit >> 3) - STARTS[index]
        version = clean.magic[index]
        if inside < 8 or (version == 2 and 12 <= inside < 16):  # offset, leader epoch
            assert table.bad_crc_count == 0
            assert (len(table), table.stop) == (len(clean), clean.stop)
        else:
            seen = table.bad_crc_count > 0 or table.stop < len(SEGMENT)
            assert seen, (index, inside)
        assert batch_scan.walk_frames(flipped).stop == table.stop


def test_a_wrong_checksum_does_not_stop_the_scan():
    data = bytearray(SEGMENT)
    for index in (2, 6):
        data[STARTS[index + 1] - 1] ^= 1
    table = batch_scan.scan(data)
    assert table.crc_state.tolist() == [1, 1, -1, 1, 1, 1, -1, 1, 1, 1]
    assert (table.bad_crc_count, table.stop) == (2, len(data))
    unchecked = batch_scan.scan(data, check_crc=False)
    assert unchecked.crc_state.tolist() == [0] * 10
    assert unchecked.bad_crc_count == 0


@pytest.mark.parametrize(
    ("position", "form", "value", "expected"),
    [
        (8, ">i", 13, "BAD_SIZE"),
        (8, ">i", 0, "BAD_SIZE"),
        (8, ">i", -1, "BAD_SIZE"),
        (8, ">i", -(2**31), "BAD_SIZE"),
        (8, ">i", 2**31 - 1, "BAD_SIZE"),
        (8, ">i", 48, "BAD_SIZE"),
        (8, ">i", 2**31 - 13, "TRUNCATED"),
        (8, ">i", 100_000, "TRUNCATED"),
        (16, "b", 3, "BAD_MAGIC"),
        (16, "b", -1, "BAD_MAGIC"),
    ],
)
def test_an_invalid_batch_header_stops_the_scan(position, form, value, expected):
    data = bytearray(SEGMENT)
    struct.pack_into(form, data, STARTS[5] + position, value)
    for table in (
        batch_scan.scan(data),
        batch_scan.scan(data, threads=2),
        batch_scan.walk_frames(data),
    ):
        assert (len(table), table.stop, status.name(table.status)) == (5, STARTS[5], expected)


def test_a_size_below_the_smallest_of_its_magic_is_bad():
    small_v1 = bytearray(message(0, None, None, magic=1))
    struct.pack_into(">i", small_v1, 8, 21)
    assert status.name(batch_scan.scan(small_v1).status) == "BAD_SIZE"
    assert len(batch_scan.scan(message(0, None, None, magic=0))) == 1


def test_a_scan_ends_at_the_zeroes_behind_the_last_batch():
    """A preallocated tail is no batch; where it starts is where the log ends."""
    table = batch_scan.scan(SEGMENT + bytes(4096))
    assert (len(table), table.stop, status.name(table.status)) == (10, len(SEGMENT), "BAD_SIZE")


def test_ranges_outside_the_buffer_are_refused():
    table = batch_scan.scan(SEGMENT, STARTS[3], STARTS[7])
    assert table.position.tolist() == STARTS[3:7]
    assert (table.start, table.stop) == (STARTS[3], STARTS[7])
    for start, end in ((-1, 5), (6, 5), (0, len(SEGMENT) + 1), (len(SEGMENT) + 1, -1), (0, -2)):
        with pytest.raises(ValueError, match="is not inside the buffer"):
            batch_scan.scan(SEGMENT, start, end)
        with pytest.raises(ValueError, match="is not inside the buffer"):
            batch_scan.walk_frames(SEGMENT, start=start, end=end)
    for threads in (0, -1, 65):
        with pytest.raises(ValueError, match="threads must be"):
            batch_scan.scan(SEGMENT, threads=threads)
    with pytest.raises(TypeError):
        batch_scan.scan("text")


def long_segment(seed, count=3000):
    rng = random.Random(seed)
    made = frames()
    data = [rng.choice(made) for _ in range(count)]
    starts = [0]
    for each_frame in data:
        starts.append(starts[-1] + len(each_frame))
    return b"".join(data), starts


LONG, LONG_STARTS = long_segment(1)


def test_threads_and_chains_change_nothing():
    expected = as_rows(batch_scan.scan(LONG))
    assert expected[2] == LONG_STARTS[:-1]
    for seeds in (None, LONG_STARTS[1:-1:40], np.array(LONG_STARTS), range(0), LONG_STARTS):
        for threads in (1, 2, 3, 64):
            table = batch_scan.scan(LONG, threads=threads, seeds=seeds)
            assert as_rows(table) == expected
            assert (table.stop, status.name(table.status)) == (len(LONG), "OK")
        walked = batch_scan.walk_frames(LONG, seeds)
        assert np.asarray(walked).tolist() == LONG_STARTS[:-1]
        assert (walked.stop, status.name(walked.status)) == (len(LONG), "OK")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_wrong_seeds_never_change_the_result(data):
    seeds = sorted(
        data.draw(
            st.lists(st.integers(-5, len(LONG) + 5) | st.sampled_from(LONG_STARTS), max_size=40)
        )
    )
    end = data.draw(st.integers(0, len(LONG)))
    plain = batch_scan.scan(LONG, end=end)
    table = batch_scan.scan(LONG, end=end, threads=3, seeds=seeds)
    assert as_rows(table) == as_rows(plain)
    assert (table.stop, table.status) == (plain.stop, plain.status)
    walked = batch_scan.walk_frames(LONG, seeds, end=end)
    assert np.asarray(walked).tolist() == plain.position.tolist()
    assert (walked.stop, walked.status) == (plain.stop, plain.status)


def test_unsorted_seeds_and_seeds_of_another_kind():
    assert len(batch_scan.walk_frames(LONG, [500, 100, 900, -1, 3])) == len(LONG_STARTS) - 1
    for seeds in ([None], ["7"], 5, [1.5]):
        with pytest.raises(TypeError):
            batch_scan.walk_frames(LONG, seeds)
    with pytest.raises(OverflowError):
        batch_scan.walk_frames(LONG, [2**70])


@settings(max_examples=40, deadline=None)
@given(
    damage=st.lists(
        st.tuples(st.integers(0, len(LONG) - 1), st.integers(0, 255)), min_size=1, max_size=5
    )
)
def test_all_scans_stop_at_the_same_damage(damage):
    data = bytearray(LONG)
    for position, value in damage:
        data[position] = value
    plain = batch_scan.scan(data)
    seeds = LONG_STARTS[1:-1:25]
    table = batch_scan.scan(data, threads=2, seeds=seeds)
    assert as_rows(table) == as_rows(plain)
    assert (table.stop, table.status) == (plain.stop, plain.status)
    walked = batch_scan.walk_frames(data, seeds)
    assert np.asarray(walked).tolist() == plain.position.tolist()
    assert (walked.stop, walked.status) == (plain.stop, plain.status)


@given(data=st.binary(max_size=400))
def test_a_scan_of_any_bytes_stops_within_them(data):
    table = batch_scan.scan(data)
    assert 0 <= table.stop <= len(data)
    assert (
        np.asarray(batch_scan.walk_frames(data, [30, 60, 90])).tolist() == table.position.tolist()
    )


def test_chains_over_many_groups_find_every_frame():
    """More seeds than chains that run together, several groups, long and short gaps."""
    frame = message(0, b"k" * 10, b"v" * 60, magic=1)
    count = 200_000
    data = frame * count
    walked = np.asarray(batch_scan.walk_frames(data, range(len(frame), len(data), 41 * len(frame))))
    assert walked.dtype == np.int32
    assert np.array_equal(walked, np.arange(count) * len(frame))
    few = batch_scan.walk_frames(data, [len(frame) * 5, len(frame) * 100_000])
    assert np.array_equal(np.asarray(few), walked)


def test_memory_of_a_large_walk_is_used_again_only_once_it_is_free():
    frame = message(0, None, b"", magic=0)
    data = frame * 1_100_000  # more than 4 MiB of positions
    expected = np.arange(0, len(data), len(frame))
    seeds = range(len(frame) * 1000, len(data), len(frame) * 1000)

    def walk(start):
        found = np.asarray(batch_scan.walk_frames(data, seeds, start=start))
        assert np.array_equal(found, expected[start // len(frame) :])
        return found

    first = walk(0)
    address = first.__array_interface__["data"][0]
    second = walk(len(frame))
    assert second.__array_interface__["data"][0] != address
    assert np.array_equal(first, expected)
    del first
    third = walk(len(frame) * 2)
    assert third.__array_interface__["data"][0] == address
    fourth = walk(len(frame) * 3)
    assert np.array_equal(third, expected[2:])
    assert np.array_equal(second, expected[1:])
    assert len({view.__array_interface__["data"][0] for view in (second, third, fourth)}) == 3


def test_a_mapping_is_read_in_place(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(LONG)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        assert as_rows(batch_scan.scan(mapping, threads=2)) == as_rows(batch_scan.scan(LONG))
        assert np.asarray(batch_scan.walk_frames(mapping)).tolist() == LONG_STARTS[:-1]
