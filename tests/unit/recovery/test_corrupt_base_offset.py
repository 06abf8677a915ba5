"""A corrupt base offset, which no checksum covers, neither hides nor cuts the batches behind it."""

from contextlib import closing
from pathlib import Path

import pytest

from kstore.errors import CorruptRecordError, RecoveryNeededError
from oracle.reader import read_log as oracle_read
from support.damage import flip
from support.logs import open_log, read_log

COUNT, BROKEN = 100, 50
UNINDEXED = 90  # after the last index entry: a reader walks to the end from that
BITS = {"lower": (7, 16), "a little higher": (7, 4), "higher": (6, 1), "beyond int32": (1, 64)}


def write_log(directory: Path) -> Path:
    """An active segment of batches of one record, which a kill leaves; its path."""
    with closing(open_log(directory)) as log:
        for number in range(COUNT):
            log.append(b"value %d" % number)
    return directory / f"{0:020d}.log"


def flip_base_offset(path: Path, batch: int, bit: str) -> int:
    """Flip one bit of a batch's base offset; the position of the batch."""
    position = oracle_read(path.read_bytes()).batches[batch].position
    byte, mask = BITS[bit]
    flip(path, position + byte, mask)
    return position


@pytest.mark.parametrize("recovery_point", [BROKEN + 1, COUNT])
@pytest.mark.parametrize("bit", BITS)
def test_recovery_cuts_no_flushed_batch_behind_it(
    tmp_path: Path, bit: str, recovery_point: int
) -> None:
    path = write_log(tmp_path / "t-0")
    flip_base_offset(path, BROKEN, bit)
    before = path.read_bytes()
    with pytest.raises(RecoveryNeededError, match="below the recovery point"):
        open_log(tmp_path / "t-0", recovery_point=recovery_point, clean=False)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("kstore.cut.*"))


@pytest.mark.parametrize("bit", ["higher", "a little higher"])
def test_recovery_cuts_batches_above_the_recovery_point(tmp_path: Path, bit: str) -> None:
    path = write_log(tmp_path / "t-0")
    flip_base_offset(path, BROKEN, bit)
    with closing(open_log(tmp_path / "t-0", recovery_point=BROKEN - 1, clean=False)) as log:
        assert log.end_offset > BROKEN
    assert list(path.parent.glob("kstore.cut.*"))  # kept, and reported


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("batch", [BROKEN, UNINDEXED])
def test_a_reader_raises_there_and_finds_the_batches_behind_it(
    tmp_path: Path, batch: int, bit: str, own: bool
) -> None:
    path = write_log(tmp_path / "t-0")
    position = flip_base_offset(path, batch, bit)
    with closing(read_log(tmp_path / "t-0", own=own, recovery_point=COUNT)) as log:
        offsets: list[int] = []
        with pytest.raises(CorruptRecordError) as caught:
            offsets += [record.offset for record in log]
        assert offsets in ([], list(range(batch)))
        assert caught.value.position == position
        if batch == BROKEN:  # else no index entry leads past it: this raises, too
            assert log[COUNT - 1].value == b"value %d" % (COUNT - 1)
        assert log.end_offset == COUNT
