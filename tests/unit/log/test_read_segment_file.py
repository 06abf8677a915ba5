"""Reads from a segment's file without a map: from an index entry to the batch that is asked for."""

from pathlib import Path

import pytest

from kstore._native.read.segment_view import SegmentView, Slice
from kstore.errors import CorruptRecordError
from kstore.files.files import DISK
from kstore.log.read_segment_file import read_segment_file
from oracle.plain import PlainRecord
from oracle.reader import read_log as parse
from oracle.writer import batch
from support.logs import open_log, read_log

NOW = 1_700_000_000_000
BATCHES = 40


@pytest.fixture
def view(tmp_path: Path) -> SegmentView:
    """The only segment of another process's log: batches of 3 records, with index entries."""
    writer = open_log(tmp_path / "t-0", index_interval_bytes=500)
    for first in range(0, 3 * BATCHES, 3):
        rows = [PlainRecord(first + n, NOW, b"k", b"v" * 20, ()) for n in range(3)]
        writer.append_as_follower(batch(rows))
    writer.close()
    [found] = read_log(tmp_path / "t-0", own=False).segments
    assert found.index_count > 3
    return found


def offsets(data: Slice | None) -> list[int]:
    assert data is not None
    return [record.offset for record in parse(bytes(data)).records]


@pytest.mark.parametrize("max_bytes", [0, 1, 300, 1 << 20])
def test_a_slice_begins_with_the_batch_of_the_offset(view: SegmentView, max_bytes: int) -> None:
    for offset in range(3 * BATCHES):
        found = offsets(read_segment_file(DISK, view, offset, max_bytes))
        assert found[0] == offset - offset % 3
        assert found[-1] >= offset


def test_an_offset_beyond_the_segment_gives_none(view: SegmentView) -> None:
    assert read_segment_file(DISK, view, 3 * BATCHES, 100) is None


@pytest.mark.parametrize("wrong", [(10, 0), (5, 43), (BATCHES, 0), (0, 4)])
def test_a_wrong_index_entry_does_not_hide_a_batch(
    view: SegmentView, wrong: tuple[int, int]
) -> None:
    position = wrong[0] * view.size // BATCHES + wrong[1]
    view.load_entries((5).to_bytes(4, "big") + position.to_bytes(4, "big"), b"")
    for offset in (0, 4, 5, 6, 100):
        assert offset in offsets(read_segment_file(DISK, view, offset, 1))


def test_a_corrupt_header_on_the_way_is_an_error_with_its_position(view: SegmentView) -> None:
    size = view.size // BATCHES
    with Path(view.path).open("r+b") as file:
        file.seek(2 * size + 8)
        file.write(b"\xff" * 4)  # the batch's size
    view.load_entries(b"", b"")
    assert 5 in offsets(read_segment_file(DISK, view, 5, 1))
    with pytest.raises(CorruptRecordError) as caught:
        read_segment_file(DISK, view, 20, 1)
    assert (caught.value.path, caught.value.position) == (view.path, 2 * size)
