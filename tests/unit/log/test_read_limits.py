"""``Log.read`` shows no batch at or beyond ``up_to``, and as many bytes as were asked for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kstore._native.read.segment_view import Slice
from kstore.errors import OffsetOutOfRangeError
from kstore.log.log import Log
from oracle.plain import PlainRecord
from oracle.reader import read_log as parse
from oracle.writer import batch, message
from support.logs import log_bytes, open_log, read_log

NOW = 1_700_000_000_000
Opened = Callable[..., tuple[Log, Log]]


@pytest.fixture(params=["writer", "own reader", "foreign reader"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Gives a log to write, and the log to read: the same one, or a reader's."""

    def make(**settings: int) -> tuple[Log, Log]:
        writer = open_log(tmp_path / "t-0", index_interval_bytes=200, **settings)
        if request.param == "writer":
            return writer, writer
        return writer, read_log(tmp_path / "t-0", own=request.param == "own reader")

    return make


def fill(log: Log, batches: int, records: int = 3) -> None:
    for first in range(0, batches * records, records):
        rows = [
            PlainRecord(first + n, NOW + first + n, b"k", b"v" * 20, ()) for n in range(records)
        ]
        log.append_as_follower(batch(rows))


def last_offsets(data: Slice | None) -> list[int]:
    return [] if data is None else [each.last_offset for each in parse(bytes(data)).batches]


@pytest.mark.parametrize("start", [0, 1, 30, 31, 50])
def test_every_batch_ends_below_up_to(opened: Opened, start: int) -> None:
    writer, log = opened()
    fill(writer, 20)
    size = len(log_bytes(Path(writer.path))) // 20
    for up_to in range(62):
        expected = [n for n in range(2, 60, 3) if start <= n < up_to]
        found = log.read(start, 1 << 20, up_to=up_to)
        assert last_offsets(found) == expected, up_to
        assert (found is None) == (expected == [])
        assert found is None or found.next_offset == min(up_to, 60)
        assert found is None or found.size == len(expected) * size


def test_up_to_ends_reading_within_a_rolled_segment(opened: Opened) -> None:
    writer, log = opened(segment_bytes=1000)
    fill(writer, 40)
    assert len(writer.segments) > 3
    for up_to in range(0, 122, 7):
        shown, offset = [], 0
        while (data := log.read(offset, 300, up_to=up_to)) is not None:
            complete = last_offsets(data)
            shown += complete
            offset = complete[-1] + 1
        assert shown == [n for n in range(2, 120, 3) if n < up_to]


@pytest.mark.parametrize("wrong", [(10, 0), (5, 43), (20, 0), (0, 4)])
def test_up_to_is_kept_where_the_index_is_wrong(opened: Opened, wrong: tuple[int, int]) -> None:
    writer, log = opened()
    fill(writer, 20)
    size = len(log_bytes(Path(writer.path))) // 20
    position = wrong[0] * size + wrong[1]
    log.segments[0].load_entries((5).to_bytes(4, "big") + position.to_bytes(4, "big"), b"")
    assert last_offsets(log.read(0, up_to=10)) == [2, 5, 8]
    assert log.segments[0].index_count == 1


def test_a_log_with_gaps_ends_below_up_to(opened: Opened) -> None:
    writer, log = opened()
    for first in (0, 100, 200):
        writer.append_as_follower(batch([PlainRecord(first, NOW, b"k", b"v", ())]))
    assert last_offsets(log.read(1, up_to=100)) == []
    assert last_offsets(log.read(1, up_to=101)) == [100]
    assert last_offsets(log.read(0, up_to=200)) == [0, 100]


def test_messages_end_below_up_to(opened: Opened) -> None:
    writer, log = opened()
    for offset in range(10):
        writer.append_as_follower(message(offset, b"k", b"v", magic=1))
    assert last_offsets(log.read(2, up_to=5)) == [2, 3, 4]


def test_the_range_is_checked_first(opened: Opened) -> None:
    writer, log = opened()
    fill(writer, 2)
    assert log.read(3, up_to=3) is None
    assert log.read(3, up_to=-1) is None
    assert log.read(6, up_to=99) is None
    with pytest.raises(OffsetOutOfRangeError):
        log.read(7, up_to=3)
    with pytest.raises(TypeError, match="up_to"):
        log.read(0, up_to="3")


def test_without_min_one_batch_the_cut_is_hard(opened: Opened) -> None:
    writer, log = opened()
    fill(writer, 5)
    stored = log_bytes(Path(writer.path))
    size = len(stored) // 5
    for wanted in (0, 1, 11, 12, 40, size - 1, size, size + 1, 10 * size, -1):
        found = log.read(4, wanted, min_one_batch=False)
        assert found is not None
        assert bytes(found) == stored[size:][: max(wanted, 0)]
        assert found.first_batch_size == size
    found = log.read(0, 5 * size, up_to=7, min_one_batch=False)
    assert found is not None
    assert bytes(found) == stored[: 2 * size]
    assert log.read(0, 1, up_to=2, min_one_batch=False) is None


def test_a_slice_knows_the_size_of_its_first_batch(opened: Opened) -> None:
    writer, log = opened()
    fill(writer, 2)
    found = log.read(0, 1)
    assert found is not None
    assert found.first_batch_size == found.size == len(log_bytes(Path(writer.path))) // 2
