"""The scan of a segment against the oracle: every cut, every flipped bit, chunks of any size."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore._native.recovery.segment_scan import SegmentScan
from oracle import writer
from oracle.crc import crc32c
from oracle.files import read_offset_index, read_time_index
from oracle.plain import PlainRecord
from oracle.recovery import Recovered, recover

BASE = 1000


def scan(data, base_offset=BASE, *, chunk=1 << 20, interval=4096, **options):
    found = SegmentScan(base_offset, len(data), index_interval_bytes=interval, **options)
    while found.wants_more:
        found.feed(data[found.position : found.position + chunk])
    found.finish()
    return found


def summary(found):
    return Recovered(
        found.valid_size,
        found.next_offset,
        found.batches,
        found.max_timestamp,
        found.max_timestamp_offset,
        entries(found.index, ">ii", found.base_offset),
        entries(found.time_index, ">qi", found.base_offset, flip=True),
        found.epochs,
    )


def entries(data, layout, base_offset, *, flip=False):
    """All entries of an index, also those with relative offset 0 behind the first."""
    rows = struct.iter_unpack(layout, data)
    return [(a, b + base_offset) if flip else (a + base_offset, b) for a, b in rows]


def records(offset, count, size=20, timestamp=1_700_000_000_000):
    return [
        PlainRecord(offset + n, timestamp + n, b"key", bytes([n % 256]) * size)
        for n in range(count)
    ]


def mixed_segment():
    """All formats in one segment, timestamps that go up and down, leader epochs, gaps."""
    parts = [
        writer.message(BASE, b"k", b"v0", magic=0),
        writer.wrapper(records(BASE + 1, 3), magic=0, codec=1),
        writer.message(BASE + 4, None, b"v1", magic=1, timestamp=1_600_000_000_000),
        writer.wrapper(records(BASE + 5, 3, timestamp=1_600_000_000_500), magic=1, codec=1),
        writer.batch(records(BASE + 10, 2), leader_epoch=0),
        writer.batch(records(BASE + 12, 1, timestamp=5), leader_epoch=0),
        writer.batch([], base_offset=BASE + 13, last_offset=BASE + 20, leader_epoch=3),
        writer.batch(records(BASE + 21, 3, timestamp=1_800_000_000_000), codec=1, leader_epoch=7),
        writer.batch(records(BASE + 24, 1, size=400), leader_epoch=-1),
        writer.batch(records(BASE + 30, 2), leader_epoch=7),
    ]
    return b"".join(parts)


def test_a_scan_finds_every_batch_epoch_and_index_entry():
    data = mixed_segment()
    found = scan(data, interval=100)
    assert found.status == 0
    assert found.valid_size == found.position == len(data)
    assert found.batches == 10
    assert found.next_offset == BASE + 32
    assert found.epochs == [(0, BASE + 10), (3, BASE + 13), (7, BASE + 21)]
    assert found.max_timestamp == 1_800_000_000_002
    assert found.max_timestamp_offset == BASE + 23
    assert found.first_timestamp == -1
    assert summary(found) == recover(data, BASE, 100)
    assert read_offset_index(found.index, BASE) == recover(data, BASE, 100).index
    assert read_time_index(found.time_index, BASE)[-1][0] == found.max_timestamp


def test_a_scan_of_an_empty_segment_finds_nothing():
    found = scan(b"")
    assert (found.status, found.valid_size, found.next_offset, found.batches) == (0, 0, BASE, 0)
    assert (found.index, found.time_index, found.epochs) == (b"", b"", [])
    assert (found.max_timestamp, found.first_timestamp) == (-1, -1)


@pytest.mark.parametrize("interval", [0, 60, 4096])
@pytest.mark.parametrize("chunk", [61, 100, 1 << 20])
def test_a_scan_of_every_cut_finds_what_the_oracle_recovers(interval, chunk):
    data = mixed_segment()
    for size in range(len(data)):
        cut = data[:size]
        expected = recover(cut, BASE, interval)
        found = scan(cut, chunk=chunk, interval=interval)
        assert summary(found) == expected, size
        assert (found.status == 0) == (expected.valid_size == size)


def test_every_flipped_bit():
    """The valid part ends where the flip is, unless the flip is in bytes without a checksum."""
    data = mixed_segment()
    for position in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[position] ^= 1 << bit
            expected = recover(bytes(bad), BASE, 60)
            assert summary(scan(bad, interval=60)) == expected, (position, bit)
    assert expected.batches == 9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 300), st.integers(-1, 50), st.integers(-1, 4)),
        max_size=12,
    ),
    st.integers(61, 2000),
    st.integers(0, 500),
    st.binary(max_size=80),
)
def test_a_scan_in_chunks_agrees_with_the_oracle(batches, chunk, interval, tail):
    offset, data = BASE, b""
    for count, size, timestamp, epoch in batches:
        data += writer.batch(records(offset, count, size, timestamp), leader_epoch=epoch)
        offset += count
    data += tail
    assert summary(scan(data, chunk=chunk, interval=interval)) == recover(data, BASE, interval)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_far_longer_than_a_chunk(magic):
    value = bytes(range(256)) * 40
    if magic == 2:
        long = writer.batch([PlainRecord(BASE, 7, None, value)])
    else:
        long = writer.message(BASE, None, value, magic=magic, timestamp=7)
    data = long + writer.message(BASE + 1, None, b"x", magic=1, timestamp=9)
    assert summary(scan(data, chunk=64)) == recover(data, BASE)
    assert scan(data, chunk=64).batches == 2
    bad = bytearray(data)
    bad[len(long) - 1] ^= 1
    found = scan(bad, chunk=64)
    assert (found.valid_size, found.batches, found.status) == (0, 0, scan(bad).status)
    assert found.status != 0


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (BASE - 1, BASE),  # begins below the segment
        (BASE + 1, BASE),  # ends before it begins
        (BASE, BASE + 2**31),  # does not fit the index's 32 bits
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (2**63 - 1, 2**63 + 5),
    ],
)
def test_offsets_that_do_not_fit_the_segment(first, last):
    good = writer.batch(records(BASE, 1))
    bad = bytearray(writer.batch(records(0, 1), base_offset=0, last_offset=0))
    delta = min(max(last - first, -(2**31)), 2**31 - 1)
    body = bytes(bad[21:23]) + struct.pack(">i", delta) + bytes(bad[27:])
    bad = struct.pack(">q", first) + bytes(bad[8:17]) + struct.pack(">I", crc32c(body)) + body
    if last - first > 2**31 - 1:  # then the first must be the one that is too far away
        bad = struct.pack(">q", BASE + 2**31) + bad[8:]
    assert scan(bad).valid_size == 0
    assert scan(bad).status != 0
    if first == BASE - 1:
        assert scan(good + good).valid_size == len(good)  # a stale batch with a right checksum


def test_the_farthest_offset_that_fits():
    data = writer.batch(records(BASE + 2**31 - 1, 1))
    assert scan(data).next_offset == BASE + 2**31


def test_indexes_stop_at_their_limit():
    data = b"".join(writer.batch(records(BASE + n, 1, timestamp=n)) for n in range(20))
    full = scan(data, interval=0)
    small = scan(data, interval=0, index_bytes=60)
    assert len(full.index) == 19 * 8
    assert len(full.time_index) == 19 * 12
    # Five entries of the time index fit, one of them the closing one.
    assert small.time_index == full.time_index[:48] + full.time_index[-12:]
    assert small.index == full.index[:32]
    assert scan(data, interval=0, index_bytes=8).index == b""


def test_known_epochs_are_not_reported():
    data = mixed_segment()
    assert scan(data, latest_epoch=3).epochs == [(7, BASE + 21)]


def test_a_file_that_shrinks_while_it_is_read():
    data = mixed_segment()
    found = SegmentScan(BASE, len(data) + 5000)
    while found.wants_more:
        found.feed(data[found.position :])
    found.finish()
    assert found.valid_size == len(data)
    assert found.status != 0


def test_a_range_longer_than_the_file_is_not_read_beyond_it():
    data = mixed_segment()
    found = SegmentScan(BASE, 100)
    assert not found.feed(data)
    found.finish()
    assert summary(found) == recover(data[:100], BASE)


def test_invalid_arguments_of_a_scan_are_errors():
    for options in ({"base_offset": -1}, {"file_size": -1}, {"index_interval_bytes": -1}):
        with pytest.raises(ValueError):
            SegmentScan(**{"base_offset": 0, "file_size": 0, **options})
    found = SegmentScan(0, 100)
    with pytest.raises(TypeError):
        found.feed("text")
    found.finish()
    with pytest.raises(ValueError):
        found.feed(b"")
