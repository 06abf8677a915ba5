"""The native table of groups: against a dictionary of Python's, and what it refuses."""

import gc
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore._native.spark.tally import Tally

KEY = b"0123456789abcdef"
keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=15, max_size=40))
rows = st.lists(
    st.tuples(keys, st.one_of(st.just(-1), st.integers(0, 100)), st.integers(-50, 50)), max_size=200
)


def columns(found: list[tuple[bytes | None, int, int]], first: int = 0) -> tuple[Any, ...]:
    data = b"".join(key or b"" for key, _, _ in found)
    lengths = np.array([-1 if key is None else len(key) for key, _, _ in found], np.int32)
    starts = np.zeros(len(found), np.int64)
    np.cumsum(np.maximum(lengths, 0)[:-1], out=starts[1:])
    return (
        data,
        np.arange(first, first + len(found)),
        np.array([when for _, _, when in found], np.int64),
        starts,
        lengths,
        np.array([size for _, size, _ in found], np.int32),
    )


def slowly(found: list[tuple[bytes | None, int, int]], width: int, by_key: bool) -> dict[Any, Any]:
    groups = defaultdict(list)
    for offset, (key, size, when) in enumerate(found):
        groups[(when // width if width else 0, key if by_key else None)].append(
            (offset, key, size, when)
        )
    return {
        label: {
            "count": len(members),
            "value_bytes": sum(max(size, 0) for _, _, size, _ in members),
            "null_values": sum(size < 0 for _, _, size, _ in members),
            "min_value_size": min((s for _, _, s, _ in members if s >= 0), default=2**31 - 1),
            "max_value_size": max(size for _, _, size, _ in members),
            "min_timestamp": min(when for *_, when in members),
            "max_timestamp": max(when for *_, when in members),
            "min_offset": members[0][0],
            "max_offset": members[-1][0],
            **({} if by_key else sizes_of_keys([key for _, key, _, _ in members])),
        }
        for label, members in groups.items()
    }


def sizes_of_keys(found: list[bytes | None]) -> dict[str, int]:
    sizes = [len(key) for key in found if key is not None]
    return {
        "key_bytes": sum(sizes),
        "null_keys": found.count(None),
        "min_key_size": min(sizes, default=2**31 - 1),
        "max_key_size": max(sizes, default=-1),
    }


def groups_of(tally: Tally, names: Any) -> dict[Any, Any]:
    kinds = {
        "names": list(tally.layout),
        "formats": [kind for kind, _ in tally.layout.values()],
        "offsets": [start for _, start in tally.layout.values()],
        "itemsize": tally.stride,
    }
    array = np.frombuffer(tally, np.dtype(kinds))
    data = bytes(memoryview(tally.key_data))
    found = {}
    for row in array:
        at, size = int(row["key_positions"]), int(row["key_lengths"])
        key = None if size < 0 else data[at : at + size]
        found[int(row["window"]), key] = {name: int(row[name]) for name in names}
    assert len(found) == len(tally) == len(array)
    return found


@settings(max_examples=200, deadline=None)
@given(rows, st.sampled_from([0, 1, 7, 1000]), st.booleans(), st.integers(1, 200))
def test_as_a_dictionary_has_it(found: Any, width: int, by_key: bool, chunk: int) -> None:
    tally = Tally(KEY, width, by_key=by_key)
    for first in range(0, len(found), chunk):
        tally.add(*columns(found[first : first + chunk], first))
    wanted = slowly(found, width, by_key)
    names = next(iter(wanted.values())) if wanted else ()
    assert groups_of(tally, names) == wanted


def test_a_tally_grows() -> None:
    found = [(b"%d" % (n % 50_000) * (n % 3 + 1), n % 100, n) for n in range(150_000)]
    tally = Tally(KEY, by_key=True)
    small = tally.memory
    for first in range(0, len(found), 16_384):
        tally.add(*columns(found[first : first + 16_384], first))
    assert groups_of(tally, ["count", "min_offset"]) == {
        label: {"count": group["count"], "min_offset": group["min_offset"]}
        for label, group in slowly(found, 0, True).items()
    }
    assert 50_000 * 128 < tally.memory < 50_000 * 3 * 350
    assert tally.memory > small
    gc.collect()
    tally.clear()
    assert len(tally) == 0
    tally.add(*columns(found[:10]))
    assert len(tally) == 10


def test_a_tally_counts_windows_at_the_ends_of_time() -> None:
    tally = Tally(KEY, 1000)
    most = 2**63 - 1
    found = [(None, 1, when) for when in (most, most - 1, -most - 1, -1, 0, 999, 1000)]
    tally.add(*columns(found))
    assert {label[0]: got["count"] for label, got in groups_of(tally, ["count"]).items()} == {
        most // 1000: 2, (-most - 1) // 1000: 1, -1: 1, 0: 2, 1: 1,
    }  # fmt: skip


def test_a_tally_without_extents_has_counts_and_sums() -> None:
    tally = Tally(KEY, by_key=True, extents=False)
    tally.add(*columns([(b"a", 3, 5), (b"a", 4, 6)]))
    assert groups_of(tally, ["count", "value_bytes"]) == {(0, b"a"): {"count": 2, "value_bytes": 7}}


@settings(max_examples=200, deadline=None)
@given(rows, st.sampled_from([0, 1, 7, 1000]), st.integers(1, 200))
def test_a_tally_that_only_counts_agrees_with_a_loop(found: Any, width: int, chunk: int) -> None:
    tally = Tally(KEY, width, by_key=True, extents=False, sizes=False)
    for first in range(0, len(found), chunk):
        tally.add(*columns(found[first : first + chunk], first))
    wanted = slowly(found, width, by_key=True)
    assert groups_of(tally, ["count"]) == {
        label: {"count": group["count"]} for label, group in wanted.items()
    }


def test_only_counted_it_grows() -> None:
    # Keys that end with the data, that share their first 16 bytes, and that end with zeros.
    long = [b"the same sixteen" * 2 + b"%d" % (n % 3000) for n in range(9000)]
    short = [b"%d" % (n % 40_000) + bytes(n % 3) for n in range(120_000)]
    found = [(key, 1, n) for n, key in enumerate(long + short)]
    tally = Tally(KEY, 50_000, by_key=True, extents=False, sizes=False)
    for first in range(0, len(found), 16_384):
        tally.add(*columns(found[first : first + 16_384], first))
    counts: dict[Any, int] = defaultdict(int)
    for key, _, when in found:
        counts[when // 50_000, key] += 1
    assert {label: got["count"] for label, got in groups_of(tally, ["count"]).items()} == counts
    assert tally.stride == 48
    tally.clear()
    tally.add(*columns(found[:10], 0))
    assert len(tally) == 10
    data, offsets, times, starts, lengths, sizes = columns([(b"abc", 1, 1), (b"de", 1, 1)])
    with pytest.raises(ValueError, match="the key of row 1 is outside"):
        tally.add(data, offsets, times, starts * 2, lengths, sizes)
    for bad in (-1, 2**62):
        with pytest.raises(ValueError, match="the key of row 0 is outside"):
            tally.add(data, offsets, times, starts + bad, lengths, sizes)


def test_invalid_arguments_of_a_tally_are_errors() -> None:
    with pytest.raises(ValueError, match="width"):
        Tally(KEY, -1)
    with pytest.raises(ValueError, match="16 bytes"):
        Tally(KEY[1:])
    tally = Tally(KEY, by_key=True)
    data, offsets, times, starts, lengths, sizes = columns([(b"abc", 1, 1), (b"de", 1, 1)])
    with pytest.raises(ValueError, match="the key of row 1 is outside"):
        tally.add(data, offsets, times, starts * 2, lengths, sizes)
    for bad in (-1, 2**62):
        with pytest.raises(ValueError, match="the key of row 0 is outside"):
            tally.add(data, offsets, times, starts + bad, lengths, sizes)
    with pytest.raises(ValueError, match="differ in length"):
        tally.add(data, offsets, times[:1], starts, lengths, sizes)
    view = memoryview(tally)
    with pytest.raises(BufferError):
        tally.clear()
    with pytest.raises(BufferError):
        tally.add(data, offsets, times, starts, lengths, sizes)
    view.release()
    tally.clear()
