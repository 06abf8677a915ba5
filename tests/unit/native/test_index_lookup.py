"""The two sparse indexes against a plain bisect."""

import os
import struct
import subprocess
import sys
from array import array
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore._native.format.crc import supported_paths
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex

BASE = 5_000_000_000
MOST = 2**31 - 1


def offset_bytes(entries):
    return b"".join(struct.pack(">ii", relative, position) for relative, position in entries)


def time_bytes(entries):
    return b"".join(struct.pack(">qi", timestamp, relative) for timestamp, relative in entries)


def plain_position(entries, relative):
    slot = bisect_right([key for key, _ in entries], relative) - 1
    return entries[slot][1] if slot >= 0 else 0


def spread(shape, count):
    """Sorted distinct relative offsets of one shape."""
    if shape == "uniform":
        return [7 + 13 * n + n * n % 11 for n in range(count)]
    if shape == "bursty":
        return [1 + n + (n // 100) * 90_000 for n in range(count)]
    ratio = (MOST / (count + 2)) ** (1 / count)
    keys, last = [], 0
    for n in range(count):
        last = max(last + 1, int(ratio**n))
        keys.append(min(last, MOST - count + n))
    return keys


@pytest.mark.parametrize("shape", ["uniform", "bursty", "exponential"])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1024, 1025, 1026, 5000, 20_011])
def test_every_entry_and_its_neighbours_are_found(shape, count):
    keys = spread(shape, count)
    assert keys == sorted(set(keys))
    entries = [(key, 1 + slot) for slot, key in enumerate(keys)]
    index = OffsetIndex(offset_bytes(entries), BASE)
    assert len(index) == count
    for slot in range(0, count, 1 if count < 2000 else 7):
        key = keys[slot]
        assert index.lookup(BASE + key) == slot + 1
        assert index.lookup(BASE + key - 1) == slot
    assert index.lookup(BASE - 1) == 0
    assert index.lookup(BASE + keys[-1] + 10**12) == count
    asked = array("q", [BASE + key + delta for key in keys for delta in (-1, 0, 1)])
    found = index.lookup_many(asked)
    assert found.tolist() == [index.lookup(offset) for offset in asked]


@pytest.mark.parametrize("path", supported_paths())
def test_many_lookups_agree_on_every_path(path):
    """The portable loop and, where the CPU has them, the gathering ones; 520 ask for a sample."""
    code = """
import random, struct
from array import array
from bisect import bisect_right
from kstore._native.index.index_lookup import OffsetIndex
random.seed(1)
for count in (1, 2, 31, 63, 64, 65, 129, 1000, 4097):
    keys = sorted(random.sample(range(1, 2**31), count))
    keys[0] *= count % 2
    keys += [2**31, 2**32 - 1] * (count % 3)  # no lookup may come so far
    entries = [(key, random.choice([n, n, -n])) for n, key in enumerate(keys, 5)]
    index = OffsetIndex(b"".join(struct.pack(">Ii", *entry) for entry in entries), -7)
    asked = [random.choice(keys[:count]) + random.randint(-1, 1) - 7 for _ in range(520)]
    asked += [-7] * 32 + [-(2**63), -8, -7, -6, 2**31 - 8, 2**31, 2**40, 2**63 - 1] * 5 + [0]
    slots = [bisect_right(keys, min(offset + 7, 2**31 - 1)) - 1 for offset in asked]
    expected = [max(0, entries[slot][1]) if slot >= 0 else 0 for slot in slots]
    assert index.lookup_many(array("q", asked)).tolist() == expected, count
    assert [index.lookup(offset) for offset in asked] == expected
"""
    environment = {**os.environ, "KSTORE_CPU": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@given(
    keys=st.sets(st.integers(1, MOST), max_size=300),
    targets=st.lists(st.integers(-5, MOST + 5), min_size=1, max_size=600),
)
@settings(max_examples=150, deadline=None)
def test_lookups_agree_with_bisect(keys, targets):
    entries = [(key, 100 + slot) for slot, key in enumerate(sorted(keys))]
    targets += [key + delta for key in list(keys)[:50] for delta in (-1, 0, 1)]
    expected = [plain_position(entries, target) for target in targets]
    index = OffsetIndex(offset_bytes(entries), BASE)
    assert [index.lookup(BASE + target) for target in targets] == expected
    asked = array("q", [BASE + target for target in targets])
    assert index.lookup_many(asked).tolist() == expected
    out = array("q", bytes(8 * len(asked)))
    assert index.lookup_many(asked, out) is out
    assert out.tolist() == expected
    assert index.lookup_many(asked, asked) is asked
    assert asked.tolist() == expected


@given(
    keys=st.sets(st.integers(1, 2**62), max_size=300),
    targets=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
)
@settings(max_examples=150, deadline=None)
def test_time_lookups_agree_with_bisect(keys, targets):
    ordered = sorted(keys)
    entries = [(key, slot) for slot, key in enumerate(ordered)]
    index = TimeIndex(time_bytes(entries), BASE)
    targets += [key + delta for key in ordered[:50] for delta in (-1, 0, 1)]
    for target in targets:
        slot = bisect_right(ordered, target) - 1
        assert index.lookup(target) == BASE + max(slot, 0)


def test_lookup_finds_every_entry_of_a_large_time_index():
    keys = [*spread("uniform", 30_000), 10**15]
    index = TimeIndex(time_bytes([(key, slot) for slot, key in enumerate(keys)]), 0)
    for slot, key in enumerate(keys):
        assert index.lookup(key) == slot
        assert index.lookup(key - 1) == max(slot - 1, 0)
    assert index.find_fault(len(keys)) is None


@given(st.binary(max_size=4096), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
@settings(max_examples=200, deadline=None)
def test_hostile_entries_end_in_some_position_of_the_index(content, targets):
    entries = [struct.unpack_from(">ii", content, at) for at in range(0, len(content) - 7, 8)]
    allowed = {0} | {position for _, position in entries if position > 0}
    times = {0} | {
        struct.unpack_from(">I", content, at + 8)[0] for at in range(0, len(content) - 11, 12)
    }
    index = OffsetIndex(content, 0)
    every = OffsetIndex(content, 0, len(entries))
    time_index = TimeIndex(content, 0)
    for target in [*targets, 0, 1, MOST, *(key for key, _ in entries[:20])]:
        assert index.lookup(target) in allowed
        assert every.lookup(target) in allowed
        assert time_index.lookup(target) in times
    many = array("q", targets * 60)
    assert set(every.lookup_many(many).tolist()) <= allowed


@pytest.mark.parametrize("used", [0, 1, 2, 63, 1000])
@pytest.mark.parametrize("tail", [0, 1, 5, 4096])
def test_a_preallocated_tail_is_not_entries(used, tail):
    entries = [(1 + 3 * n, 50 * n) for n in range(used)]
    index = OffsetIndex(offset_bytes(entries) + bytes(8 * tail), BASE)
    assert index.count == used
    assert index.lookup(BASE + MOST) == (entries[-1][1] if used else 0)
    times = [(10 * n, n) for n in range(used)]
    expected = used
    if used == 1:
        expected = 0  # one entry of zeros says what an empty index says
    assert TimeIndex(time_bytes(times) + bytes(12 * tail), BASE).count == expected


def test_relative_offset_zero_is_an_entry_in_the_first_slot_only():
    assert OffsetIndex(offset_bytes([(0, 700), (0, 0)]), BASE).count == 1
    assert OffsetIndex(offset_bytes([(0, 700)]), BASE).lookup(BASE) == 700


def test_an_index_is_a_sequence_of_entries():
    index = OffsetIndex(offset_bytes([(4, 40), (9, 90)]), BASE)
    assert list(index) == [(BASE + 4, 40), (BASE + 9, 90)]
    assert index[-1] == (BASE + 9, 90)
    with pytest.raises(IndexError):
        index[2]
    assert list(TimeIndex(time_bytes([(4, 1), (9, 2)]), BASE)) == [(4, BASE + 1), (9, BASE + 2)]


def test_count_is_within_the_buffer():
    content = offset_bytes([(4, 40), (9, 90)])
    assert OffsetIndex(content, BASE, 1).lookup(BASE + 100) == 40
    for count in (-1, 3):
        with pytest.raises(ValueError, match="within the 2 entries"):
            OffsetIndex(content, BASE, count)


@pytest.mark.parametrize(
    ("content", "size", "position"),
    [
        (offset_bytes([(4, 40)]) + b"x", None, 9),
        (offset_bytes([(4, 40), (4, 90)]), None, 8),
        (offset_bytes([(4, 40), (3, 90)]), None, 8),
        (offset_bytes([(-4, 40)]), None, 0),
        (offset_bytes([(4, 40), (5, 30)]), None, 8),
        (offset_bytes([(4, -40)]), None, 0),
        (offset_bytes([(4, 40), (5, 90)]), 90, 8),
    ],
)
def test_find_fault_finds_faults_in_an_offset_index(content, size, position):
    sentence, found, _ = OffsetIndex(content, BASE).find_fault(size)
    assert found == position
    assert "index" in sentence


@pytest.mark.parametrize(
    ("content", "end", "position"),
    [
        (time_bytes([(4, 40)]) + b"x", None, 13),
        (time_bytes([(4, 40), (4, 41)]), None, 12),
        (time_bytes([(-4, 40)]), None, 0),
        (time_bytes([(4, 40), (5, 30)]), None, 12),
        (time_bytes([(4, -40)]), None, 0),
        (time_bytes([(4, 40), (5, 90)]), BASE + 90, 12),
    ],
)
def test_find_fault_finds_faults_in_a_time_index(content, end, position):
    sentence, found, _ = TimeIndex(content, BASE).find_fault(end)
    assert found == position
    assert "index" in sentence


def test_find_fault_accepts_valid_indexes():
    assert OffsetIndex(offset_bytes([(4, 40), (5, 90)]) + bytes(80), BASE).find_fault(91) is None
    assert (
        TimeIndex(time_bytes([(4, 40), (5, 90)]) + bytes(120), BASE).find_fault(BASE + 91) is None
    )
    assert OffsetIndex(b"", BASE).find_fault(0) is None


@pytest.mark.parametrize(
    "wrong",
    [array("i", [1]), array("d", [1.0]), array("Q", [1]), memoryview(bytes(64))[::2], b"12"],
)
def test_lookup_many_takes_int64_only(wrong):
    index = OffsetIndex(offset_bytes([(4, 40)]), BASE)
    with pytest.raises((TypeError, BufferError)):
        index.lookup_many(wrong)


def test_lookup_many_needs_a_writable_out_of_the_same_length():
    index = OffsetIndex(offset_bytes([(4, 40)]), BASE)
    with pytest.raises(ValueError, match="2 are required"):
        index.lookup_many(array("q", [1, 2]), array("q", [1]))
    with pytest.raises(BufferError):
        index.lookup_many(array("q", [1]), memoryview(array("q", [1])).toreadonly())


def test_an_index_keeps_its_buffer_from_being_resized():
    content = bytearray(offset_bytes([(4, 40)]))
    index = OffsetIndex(content, BASE)
    with pytest.raises(BufferError):
        content.clear()
    assert index.lookup(BASE + 4) == 40
    del index
    content.clear()
