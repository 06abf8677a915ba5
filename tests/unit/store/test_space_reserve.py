"""The reserved space on each disk is allocated, released in parts, and removed."""

import errno
from pathlib import Path

import kstore
from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.store.space_reserve import CHUNKS, MOST_BYTES, SpaceReserve
from support.stores import QUIET

GIB = 1 << 30


class Disk(Files):
    """A disk of a given size, which may have no room."""

    native = False

    def __init__(self, size: int) -> None:
        self.size_of_disk = size
        self.has_room = True

    def disk_space(self, path: object) -> tuple[int, int]:
        return self.size_of_disk, 0

    def allocate(self, fd: int, size: int) -> None:
        if not self.has_room:
            super().allocate(fd, size // 2)
            raise StorageError("planted", errno=errno.ENOSPC)
        super().allocate(fd, size)


def test_space_is_allocated_and_released_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "kstore.reserve"
    with kstore.Store(tmp_path, config=QUIET, files=Disk(100 * GIB)) as store:
        reserve = SpaceReserve(store._manager._dirs)
        assert reserve.fill()
        assert path.stat().st_size == MOST_BYTES
        assert path.stat().st_blocks * 512 >= MOST_BYTES
        for left in range(CHUNKS - 1, -1, -1):
            assert reserve.release()
            assert path.stat().st_size == left * MOST_BYTES // CHUNKS
        assert not reserve.release()
        assert reserve.fill()
        assert path.stat().st_size == MOST_BYTES
        reserve.remove()
        reserve.remove()
        assert not path.exists()
        assert not reserve.release()


def test_a_small_disk_keeps_little(tmp_path: Path) -> None:
    with kstore.Store(tmp_path, config=QUIET, files=Disk(64_000_000)) as store:
        assert SpaceReserve(store._manager._dirs).fill()
        assert (tmp_path / "kstore.reserve").stat().st_size == 1_000_000


def test_a_reserve_that_does_not_fit_is_released_and_can_be_filled_later(tmp_path: Path) -> None:
    files = Disk(100 * GIB)
    path = tmp_path / "kstore.reserve"
    with kstore.Store(tmp_path, config=QUIET, files=files) as store:
        reserve = SpaceReserve(store._manager._dirs)
        files.has_room = False
        assert not reserve.fill()
        assert path.stat().st_size == 0
        files.has_room = True
        assert reserve.fill()
        assert path.stat().st_size == MOST_BYTES


def test_a_failed_directory_is_left_alone(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.Store(paths, config=QUIET, files=Disk(100 * GIB)) as store:
        store._manager._dirs[0].fail(StorageError("planted", errno=errno.EIO))
        assert SpaceReserve(store._manager._dirs).fill()
        assert not (paths[0] / "kstore.reserve").exists()
        assert (paths[1] / "kstore.reserve").exists()
