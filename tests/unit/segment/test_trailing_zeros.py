"""Zeros after the last batch of a rolled segment: no part of it, and no damage to a reader.

A broker that preallocates leaves them where it is killed during a roll. Every offset below the next
segment's base may be there all the same.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kstore.errors import CorruptRecordError
from kstore.log.log import Log
from oracle.reader import read_log as oracle_read
from support.damage import overwrite
from support.logs import open_log, read_log

OPENERS: dict[str, Callable[[Path], Log]] = {
    "writer": lambda path: open_log(path, recovery_point=1 << 40),
    "own": lambda path: read_log(path, own=True),
    "foreign": lambda path: read_log(path, own=False),
}
MANY_ZEROS = bytes(500)  # a value: with it a batch ends in zeros itself


def roll(directory: Path, values: list[bytes], indexed: bool) -> Path:
    """A log of two segments, the first with all values but the last; its path."""
    interval = 100 if indexed else 1 << 20
    with closing(open_log(directory, index_interval_bytes=interval)) as log:
        for value in values[:-1]:
            log.append(value)
        log.roll()
        log.append(values[-1])
    return directory / f"{0:020d}.log"


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("zeros", [61, 200, 3 << 20])
def test_zeros_behind_a_rolled_segment_are_skipped(
    tmp_path: Path, opener: str, zeros: int, indexed: bool
) -> None:
    values = [b"one" * 50, b"two" * 50, MANY_ZEROS, b"behind"]
    path = roll(tmp_path / "t-0", values, indexed)
    sound = path.stat().st_size
    os.truncate(path, sound + zeros)
    with closing(OPENERS[opener](tmp_path / "t-0")) as log:
        assert [record.value for record in log] == values
        assert log[2].value == MANY_ZEROS
        assert [record.value for record in log.view(2)] == values[2:]
    assert path.stat().st_size == sound + zeros  # it was not cut


@pytest.mark.parametrize("opener", OPENERS)
def test_a_batch_that_ends_in_zeros_is_complete(tmp_path: Path, opener: str) -> None:
    values = [b"one", MANY_ZEROS, b"behind"]
    roll(tmp_path / "t-0", values, True)
    with closing(OPENERS[opener](tmp_path / "t-0")) as log:
        assert [record.value for record in log] == values


@pytest.mark.parametrize("opener", OPENERS)
def test_bytes_other_than_zeros_at_the_end_are_damage(tmp_path: Path, opener: str) -> None:
    values = [b"one", b"two", b"behind"]
    path = roll(tmp_path / "t-0", values, True)
    sound = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(100) + b"x" + bytes(100))
    with (
        closing(OPENERS[opener](tmp_path / "t-0")) as log,
        pytest.raises(CorruptRecordError) as error,
    ):
        list(log)
    assert error.value.position == sound


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("lost", [1, 2])
def test_zeros_in_place_of_batches_are_corrupt(
    tmp_path: Path, opener: str, lost: int, indexed: bool
) -> None:
    values = [b"one" * 50, b"two" * 50, b"three" * 50, b"behind"]
    path = roll(tmp_path / "t-0", values, indexed)
    start = oracle_read(path.read_bytes()).batches[3 - lost].position
    overwrite(path, start, bytes(path.stat().st_size - start))
    with closing(OPENERS[opener](tmp_path / "t-0")) as log:
        with pytest.raises(CorruptRecordError) as error:
            list(log)
        assert error.value.position == start
        for offset in range(3 - lost, 3):
            with pytest.raises(CorruptRecordError):
                log[offset]
        assert log[3].value == b"behind"
