"""A crash during a move: the copy that is left must be complete before a clean stop counts."""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from support.damage import write_damaged
from support.stores import MARKER, QUIET

VALUES = [b"%03d" % n * 30 for n in range(60)]


class Halt(Exception):
    pass


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """A store with one partition in the first directory; the second has nothing but a torn copy."""
    dirs = tmp_path / "d1", tmp_path / "d2"

    def halt(done: int, _: int) -> None:
        if done >= 4000:
            raise Halt

    with kstore.open(dirs, config=QUIET) as store:
        config = LogConfig(segment_bytes=2000, index_interval_bytes=100)
        log = store.create_topic("t", config=config)[0]
        for value in VALUES:  # a batch each
            log.append(value)
        with pytest.raises(Halt):
            store.move("t", 0, dirs[1], progress=halt)
    last = max(copy_in(dirs[1]).glob("*.log"))
    write_damaged(last, last.read_bytes()[:-7])
    last.with_suffix(".timeindex").write_bytes(b"\0" * 5)
    for each in dirs:
        (each / MARKER).unlink()
    return dirs


def copy_in(path: Path) -> Path:
    (found,) = path.glob("t-0.*-future")
    return found


def values(path: Path | tuple[Path, Path]) -> list[bytes | None]:
    with kstore.open(path, config=QUIET) as store:
        return [record.value for record in store["t"][0]]


def test_a_torn_copy_is_completed(dirs: tuple[Path, Path]) -> None:
    """A broker trusts .kafka_cleanshutdown: it would append after the torn tail."""
    torn = sum(each.stat().st_size for each in copy_in(dirs[1]).glob("*.log"))
    assert values(dirs) == VALUES
    assert (dirs[1] / MARKER).exists()
    copy = copy_in(dirs[1]).rename(dirs[1] / "t-0")
    assert all(len(each.read_bytes()) % 12 == 0 for each in copy.glob("*.timeindex"))
    assert sum(each.stat().st_size for each in copy.glob("*.log")) < torn
    with kstore.open(dirs[1], config=QUIET) as store:
        log = store["t"][0]
        assert log.recovery is not None
        assert not log.recovery.cut_size
        found = [record.value for record in log]
        assert found == VALUES[: len(found)]
        assert len(found) > 20


def test_a_damaged_copy_is_deleted(dirs: tuple[Path, Path]) -> None:
    first = min(copy_in(dirs[1]).glob("*.log"))
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    write_damaged(first, data)
    assert values(dirs) == VALUES
    assert list(dirs[1].glob("t-0*")) == []


def test_the_only_copy_is_kept_even_if_corrupt(dirs: tuple[Path, Path]) -> None:
    first = min(copy_in(dirs[1]).glob("*.log"))
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    write_damaged(first, data)
    kstore.open(dirs[1], config=QUIET).close()
    assert first.read_bytes() == data
    assert not (dirs[1] / MARKER).exists()
