"""Tests damage files through ``support.damage``, which asserts that something changed."""

import re
from pathlib import Path

import pytest

from tidy.sources import ROOT

_OWN_BYTES = re.compile(r"(\w+)\.write_bytes\(\1\.read_bytes\(\)")
_FLIP = re.compile(r"\s*(\w+)\[[^=]*\] ?\^= ")
_NEAR = 4  # lines between a flipped bit and the file that gets it


def damage_by_hand(text: str) -> list[int]:
    """The lines in which a file gets its own bytes back, cut or with bits flipped."""
    found = []
    flipped: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if flip := _FLIP.match(line):
            flipped[flip[1]] = number
        written = re.search(r"\.write_bytes\((\w+)\)", line)
        is_flipped = written is not None and number - flipped.get(written[1], -_NEAR) <= _NEAR
        if is_flipped or _OWN_BYTES.search(line):
            found.append(number)
    return found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.name
)
def test_damage_is_asserted_to_change_the_file(path: Path) -> None:
    assert damage_by_hand(path.read_text()) == []


def test_damage_by_hand_is_seen() -> None:
    assert damage_by_hand("data[-1] ^= 1\npath.write_bytes(data)\n") == [2]
    own = "path.write_bytes(path." + "read_bytes()[:-1])\n"
    assert damage_by_hand(own) == [1]
    assert damage_by_hand("data[-1] ^= 1\nwrite_damaged(path, data)\n") == []
