"""sort_commits: which keys it takes as they are, and which it leaves to the decoder."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kstore._native.format.committed_offsets import sort_commits
from kstore.coordinator.group.offset_records import OffsetKey, encode_offset_key

Groups = dict[str, dict[bytes, bytes | None]]
Row = tuple[bytes | None, bytes | None]


def columns(rows: Sequence[Row]) -> list[Any]:
    """Data, positions and lengths of keys and of values; one byte lies before each."""
    data, found = b"", []
    for side in (0, 1):
        positions, lengths = [], []
        for row in rows:
            each = row[side]
            data += b"-"
            positions.append(len(data))
            lengths.append(-1 if each is None else len(each))
            data += each or b""
        found += [np.array(positions, np.int64), np.array(lengths, np.int32)]
    return [data, *found]


def key(group: str, topic: str = "t", partition: int = 0) -> bytes:
    return encode_offset_key(OffsetKey(group, topic, partition))


def test_commits_are_sorted_by_group_and_the_last_value_stays() -> None:
    rows: list[Row] = [
        (key("g"), b"1"),
        (key("g", "t", 1), b"2"),
        (None, b"no key"),
        (key("h"), b""),
        (key("g"), b"3"),
        (key("gg"), b"4"),
        (key("g", "t", 1), None),
        (key(""), b"5"),
    ]
    groups: Groups = {"h": {key("h", "u"): b"0"}}
    assert sort_commits(*columns(rows), groups) == []
    assert groups == {
        "g": {key("g"): b"3", key("g", "t", 1): None},
        "h": {key("h", "u"): b"0", key("h"): b""},
        "gg": {key("gg"): b"4"},
        "": {key(""): b"5"},
    }
    assert list(groups["g"]) == [key("g"), key("g", "t", 1)]


LONG = 32768  # does not fit an int16
OTHERS = [
    b"",
    b"\0",
    b"\0\1",
    key("é"),
    key("g", "é"),
    key("g") + b"\0",
    key("g")[:-1],
    b"\0\2" + key("g")[2:],
    b"\0\3" + key("g")[2:],
    b"\1\1" + key("g")[2:],
    b"\0\1\xff\xff\0\1t\0\0\0\0",
    b"\0\1\0\1g\xff\xff\0\0\0\0",
    b"\0\1\0\x50" + key("g")[4:],
    struct.pack(">hH", 1, LONG) + b"g" * LONG + b"\0\1t\0\0\0\0",
    struct.pack(">hHcH", 1, 1, b"g", LONG) + b"t" * LONG + b"\0\0\0\0",
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other[:12].hex() or "empty")
def test_other_keys_are_left_to_the_decoder(other: bytes) -> None:
    rows = [(key("g"), b"1"), (other, b"2"), (key("g"), b"3"), (other, None)]
    groups: Groups = {}
    assert sort_commits(*columns(rows), groups) == [1, 3]
    assert groups == {"g": {key("g"): b"3"}}


@pytest.mark.parametrize("old", [b"\0\0", b"\0\0" + key("g")[2:]])
def test_a_key_of_version_0_needs_the_records_one_by_one(old: bytes) -> None:
    assert sort_commits(*columns([(key("g"), b"1"), (old, b"2")]), {}) is None


def test_longest_names_and_partitions_are_taken() -> None:
    rows = [(key("g" * (LONG - 1), "t" * (LONG - 1), -1), b"1"), (key("g", "t", 2**31 - 1), b"2")]
    groups: Groups = {}
    assert sort_commits(*columns(rows), groups) == []
    assert [list(commits) for commits in groups.values()] == [[row[0]] for row in rows]


@pytest.mark.parametrize("column", [1, 3])
@pytest.mark.parametrize("position", [-1, 1000, 2**62])
def test_rows_outside_the_data_are_refused(column: int, position: int) -> None:
    arguments = columns([(key("g"), b"1")])
    arguments[column][0] = position
    with pytest.raises(ValueError, match="row 0 is outside the data"):
        sort_commits(*arguments, {})


def test_columns_of_different_lengths_are_refused() -> None:
    arguments = columns([(key("g"), b"1"), (key("h"), b"2")])
    for column in range(1, 5):
        shorter = [each[:1] if n == column else each for n, each in enumerate(arguments)]
        with pytest.raises(ValueError, match="differ in length"):
            sort_commits(*shorter, {})
