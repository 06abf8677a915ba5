"""All files beside a log are rebuilt as recovery rebuilds them in a directory that lost them."""

import inspect
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.config import LogConfig
from kstore.files.filenames import REWRITE_PREFIX
from kstore.files.files import DISK, Files
from kstore.files.staging_area import StagingArea, remove_staged, staged_path
from kstore.maintenance.reindex import index_segment, publish_staged_files
from support.damage import write_damaged
from support.jobs import (
    logs,
    lose_side_files,
    make_store,
    rebuilt_by_recovery,
    reindex_partition,
    side_files,
)
from support.stores import QUIET

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=300)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


def reindex(log_dir: Path) -> None:
    for folder in sorted(each for each in log_dir.iterdir() if each.is_dir()):
        report = reindex_partition(DISK, str(folder), CONFIG)
        assert report.damages == ()


@pytest.mark.parametrize("lost", [True, False])
def test_reindex_writes_what_recovery_writes(log_dir: Path, tmp_path: Path, lost: bool) -> None:
    expected = rebuilt_by_recovery(log_dir, tmp_path / "copy")
    assert any(name.endswith(".txnindex") for name in expected)
    before = logs(log_dir)
    if lost:
        lose_side_files(log_dir)
    else:
        for each in [*log_dir.rglob("*.index"), *log_dir.rglob("*.timeindex")]:
            write_damaged(each, each.read_bytes()[:-5] + b"\x00" * 29)
        for each in log_dir.rglob("*.snapshot"):
            each.write_bytes(b"?")
    reindex(log_dir)
    assert side_files(log_dir) == expected
    assert logs(log_dir) == before
    assert not list(log_dir.rglob(REWRITE_PREFIX + "*"))
    with kstore.open(log_dir, config=QUIET) as store:
        assert all(log.verify().ok for name in store for log in store[name])


def test_a_second_time_there_is_nothing_to_write(log_dir: Path) -> None:
    reindex(log_dir)
    for folder in (log_dir / "orders-0", log_dir / "clicks-1"):
        report = reindex_partition(DISK, str(folder), CONFIG)
        assert (report.written, report.removed) == ((), ())


def test_files_without_a_segment_are_removed(log_dir: Path) -> None:
    reindex(log_dir)
    expected = side_files(log_dir)
    (log_dir / "orders-0" / f"{77:020d}.index").write_bytes(b"")
    (log_dir / "orders-0" / f"{3:020d}.snapshot").write_bytes(b"")
    (log_dir / "clicks-0" / f"{0:020d}.txnindex").write_bytes(b"")
    reindex(log_dir)
    assert side_files(log_dir) == expected


def test_a_damaged_segment_keeps_its_files(log_dir: Path) -> None:
    folder = log_dir / "orders-1"
    chosen = sorted(folder.glob("*.log"))[2]
    data = bytearray(chosen.read_bytes())
    data[100] ^= 4
    write_damaged(chosen, data)
    kept = {each.name: each.read_bytes() for each in folder.glob("*.snapshot")}
    index = chosen.with_suffix(".index")
    index.write_bytes(b"12345678")
    other = sorted(folder.glob("*.index"))[0]
    right = other.read_bytes()
    other.unlink()
    report = reindex_partition(DISK, str(folder), CONFIG)
    assert [(each.path, each.position) for each in report.damages] == [(str(chosen), 0)]
    assert index.read_bytes() == b"12345678"
    assert other.read_bytes() == right
    assert {each.name: each.read_bytes() for each in folder.glob("*.snapshot")} == kept


def test_header_checksums_that_contradict_the_segment_are_kept_and_reported(log_dir: Path) -> None:
    """A leader epoch lies outside the checksum: only the seal, its stamp forged, can show it."""
    folder = log_dir / "clicks-0"
    chosen = sorted(folder.glob("*.log"))[0]
    seal = folder / f"kstore.seal.{chosen.stem}"
    with kstore.open(log_dir, config=QUIET) as store:
        store["clicks"][0].seal()
    old = seal.read_bytes()
    data = bytearray(chosen.read_bytes())
    data[15] ^= 1
    write_damaged(chosen, data)
    from kstore._native.format.crc import crc32c

    new = index_segment(DISK, str(folder), int(chosen.stem), CONFIG, last=False)
    name = staged_path(folder, new.staging.token, seal.name)
    about = Path(name).read_bytes().split(b"\n", 1)[0]
    forged = about + old[old.index(b"\n") : -4]
    seal.write_bytes(forged + crc32c(forged).to_bytes(4, "big"))
    remove_staged(DISK, folder)
    report = reindex_partition(DISK, str(folder), CONFIG)
    assert [each.position for each in report.damages] == [0]
    assert "header checksums of the segment do not match" in report.damages[0].reason
    assert seal.read_bytes().startswith(forged)


def test_segments_that_overlap_are_named(log_dir: Path) -> None:
    folder = log_dir / "clicks-0"
    first, second = sorted(folder.glob("*.log"))[:2]
    shutil.copy(first, folder / f"{int(second.stem) - 1:020d}.log")
    report = reindex_partition(DISK, str(folder), CONFIG)
    assert report.damages


def test_a_reindex_interrupted_between_two_files_is_completed_by_the_next(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some files are new and some are old; the log is as it was, and the next run completes it."""
    folder = log_dir / "orders-0"
    reindex(log_dir)
    expected = side_files(log_dir)
    for each in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        each.unlink()
    original, count = DISK.rename, 0

    def rename(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        original(source, target)

    monkeypatch.setattr(DISK, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        reindex_partition(DISK, str(folder), CONFIG)
    monkeypatch.undo()
    assert list(folder.glob(REWRITE_PREFIX + "*"))
    with kstore.open(log_dir, config=QUIET) as store:
        assert store["orders"][0].verify().ok
    assert remove_staged(DISK, folder)
    reindex(log_dir)
    assert side_files(log_dir) == expected


def test_staged_files_have_the_names_of_a_virtual_directory(tmp_path: Path) -> None:
    staged = StagingArea(DISK, tmp_path)
    (tmp_path / "other").write_bytes(b"1")
    path = staged.directory + "/00.index"
    staged.write_atomically(path, b"abc")
    assert staged.listdir(staged.directory) == ["00.index"]
    assert staged.listdir(tmp_path) == sorted(
        ["other", f"{REWRITE_PREFIX}{staged.token}.00.index.staged"]
    )
    assert staged.read(path) == b"abc"
    assert not (tmp_path / (REWRITE_PREFIX + staged.token)).exists()
    publish_staged_files(DISK, str(tmp_path), [])
    staged.rename(path, path + "2")
    assert staged.exists(path + "2")
    staged.discard()
    assert remove_staged(DISK, tmp_path) == []
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_every_call_with_a_path_uses_the_plain_file(tmp_path: Path) -> None:
    """Each method of Files: no path in the staged directory, which does not exist, reaches it."""
    seen: list[tuple[object, ...]] = []

    class Inner(Files):
        def __getattribute__(self, name: str) -> object:
            return lambda *given, **named: seen.append((*given, *named.values()))

    staged = StagingArea(DISK, tmp_path)
    staged.inner = Inner()
    inside = staged.directory + "/00.index"
    values = {"path": inside, "source": inside, "target": inside, "directories": [inside]}
    values["contents"] = [(inside, b"")]
    public = {name for name, value in vars(Files).items() if callable(value) and name[0] != "_"}
    assert public <= set(vars(StagingArea))
    for name in sorted(public - {"listdir"}):
        parameters = list(inspect.signature(getattr(Files, name)).parameters.values())[1:]
        given = [values.get(each.name, 0) for each in parameters if each.kind != each.KEYWORD_ONLY]
        getattr(staged, name)(*given)
        plain = staged.directory + ".00.index.staged"
        assert inside not in str(seen[-1]), name
        assert (plain in str(seen[-1])) == (inside in str(given)), name


def test_staged_files_are_listed_and_read_by_their_names(tmp_path: Path) -> None:
    staged = StagingArea(DISK, tmp_path)
    names = ["00.index", "00.timeindex"]
    paths = [os.path.join(staged.directory, name) for name in names]
    staged.write_all_atomically([(path, path.encode()) for path in paths])
    staged.write_all_atomically(contents=tuple((path, path.encode()) for path in paths))
    assert sorted(staged.listdir(staged.directory)) == names
    assert [staged.read(path) for path in paths] == [path.encode() for path in paths]
    staged.sync_all([], [staged.directory])
    staged.sync_all([], directories=(staged.directory,))
    staged.sync_all([], {staged.directory})
    assert sorted(os.listdir(tmp_path)) == [
        f"{REWRITE_PREFIX}{staged.token}.{name}.staged" for name in names
    ]
