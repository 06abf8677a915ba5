"""The helpers that damage files refuse damage that changes nothing."""

from pathlib import Path
from random import Random

import pytest

from support.damage import cut, flip, overwrite, write_damaged
from torture.damaged_directories import mutilate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"ab\0")
    return path


def test_damage_changes_the_file(path: Path) -> None:
    flip(path, -1, 4)
    assert path.read_bytes() == b"ab\4"
    overwrite(path, 1, b"\0")
    assert path.read_bytes() == b"a\0\4"
    cut(path, -1)
    cut(path, 1)
    assert path.read_bytes() == b"a"
    write_damaged(path, b"")
    assert path.read_bytes() == b""


def test_damage_that_changes_nothing_fails_the_test(path: Path) -> None:
    for harmless in (
        lambda: write_damaged(path, b"ab\0"),
        lambda: overwrite(path, 2, b"\0"),
        lambda: overwrite(path, 3, b""),
        lambda: overwrite(path, 2, b"\1\1"),
        lambda: flip(path, 0, 0),
        lambda: cut(path, 3),
        lambda: cut(path, 4),
        lambda: cut(path, -4),
    ):
        with pytest.raises(AssertionError):
            harmless()
    assert path.read_bytes() == b"ab\0"


def test_a_mutilated_tree_is_another_one() -> None:
    """Of files in which most damage changes nothing."""
    tree = {"t-0/0.log": b"", "t-0/0.index": bytes(8), "t-0": None, "kstore.topics": b""}
    for seed in range(500):
        found, done = mutilate(tree, Random(seed))
        assert found != tree, done
