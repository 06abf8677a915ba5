"""What a log knows of producers and their transactions when it is opened again."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from kstore.errors import StorageError
from kstore.files.files import DISK, Files
from kstore.log.log import Log
from kstore.producer_state import replay as producer_replay
from support.damage import overwrite, write_damaged
from support.logs import open_log
from support.producers import NOW, sent


def opened(
    directory: Path, *, clean: bool = True, start: int = 0, point: int = 0, files: Files = DISK
) -> Log:
    return open_log(
        directory,
        files=files,
        clean=clean,
        log_start_offset=start,
        recovery_point=point,
        clock=lambda: NOW,
        producer_id_expiration_ms=2**62,
    )


def test_recovery_uses_the_snapshots_below_the_segments_it_reads(tmp_path: Path) -> None:
    """Those above are forgotten, and with them who wrote only what is gone: what tests/interop's
    test_log_loader lets Kafka's own loader say."""
    log = opened(tmp_path / "made-0")
    for number in range(3):
        log.append_as_leader(sent(10 + number, 0, 0, 3))
        log.append_as_leader(sent(20 + number, 0, 0, 3))
        log.roll()
    log.append_as_leader(sent(7, 0, 0, 3))
    log.close()

    def known(start: int, point: int, gone: int = 0) -> list[int]:
        copy = tmp_path / f"{start}-{point}-{gone}" / "t-0"
        shutil.copytree(tmp_path / "made-0", copy)
        for base in range(0, gone, 6):
            for path in copy.glob(f"{base:020}.*"):
                path.unlink()
        again = opened(copy, clean=False, start=start, point=point)
        found = sorted(entry.producer_id for entry in again.producers())
        again.close()
        closed = opened(copy, start=max(start, gone))
        assert sorted(entry.producer_id for entry in closed.producers()) == found
        closed.close()
        return found

    everybody = [7, 10, 11, 12, 20, 21, 22]
    assert known(0, 0) == everybody
    assert known(0, 14) == everybody
    assert known(7, 14) == everybody  # the snapshot at 12 is between the two
    assert known(10, 14) == everybody
    assert known(10, 9) == [7, 11, 12, 21, 22]  # all of the segment of 10 is read, none before
    assert known(10, 0) == [7, 11, 12, 21, 22]
    assert known(14, 14) == [7, 12, 22]
    assert known(0, 0, gone=12) == everybody  # an old checkpoint: the snapshot at 12 counts
    assert known(12, 0, gone=12) == [7, 12, 22]
    assert known(21, 18) == []  # nothing is left of the log


def test_recovery_expires_idle_producers_as_a_clean_start_does(tmp_path: Path) -> None:
    """Also those that it met in what it read: Kafka ends its recovery with a snapshot, and loads
    it. Who has a transaction open is remembered."""
    log = opened(tmp_path / "t-0")
    log.append_as_leader(sent(1, 0, 0))
    log.append_as_leader(sent(2, 0, 0, transactional=True))
    log.append_as_leader(sent(3, 0, 0, timestamp=NOW + 1000))
    log.close()
    settings = {"clock": lambda: NOW + 1500, "producer_id_expiration_ms": 1000}
    again = open_log(tmp_path / "t-0", clean=False, **settings)
    assert [entry.producer_id for entry in again.producers()] == [2, 3]
    assert again.last_stable_offset == 1
    again.close()


def aborted_here_and_there(directory: Path) -> Log:
    """Five rolled segments: aborted; committed; plain; begun; aborted, though begun before."""
    log = opened(directory)
    for number, commit in enumerate((False, True)):
        log.append_as_leader(sent(5, 0, number, transactional=True))
        log.append_end_marker(5, 0, commit=commit)
        log.roll()
    log.append_as_leader(sent(6, 0, 0))
    log.roll()
    log.append_as_leader(sent(5, 0, 2, transactional=True))
    log.roll()
    log.append_end_marker(5, 0, commit=False)
    log.append_as_leader(sent(6, 0, 1))
    log.roll()
    log.append(b"last")
    return log


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshots", ["all", "newest", "none", "corrupt"])
def test_lost_transaction_indexes_are_rebuilt_by_opening(
    tmp_path: Path, clean: bool, snapshots: str
) -> None:
    """A broker that opens the directory next believes them, and looks for no other sign."""
    log = aborted_here_and_there(tmp_path / "t-0")
    log.close()
    folder = tmp_path / "t-0"
    kept = {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}
    assert sorted(map(len, kept.values())) == [34, 34]
    for name in kept:
        (folder / name).unlink()
    for path in sorted(folder.glob("*.snapshot"))[: -1 if snapshots == "newest" else None]:
        if snapshots == "corrupt":
            write_damaged(path, path.read_bytes()[:-1])
        elif snapshots != "all":
            path.unlink()

    again = opened(folder, clean=clean, point=log.end_offset)
    now = {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}
    assert {name: data for name, data in now.items() if data} == kept
    assert any(set(kept) <= set(step.replace(",", " ").split()) for step in again.recovery.steps)
    again.close()


def test_a_segment_without_aborted_transactions_is_walked_at_most_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty index says that the log was searched; without an ended transaction it is not."""
    log = aborted_here_and_there(tmp_path / "t-0")
    log.close()
    bases = [int(path.stem) for path in sorted((tmp_path / "t-0").glob("*.log"))]
    walked: list[int] = []
    replay = producer_replay.replay_segment

    def counted(files, table, view, start, *, mapped):
        walked.append(view.base_offset)
        return replay(files, table, view, start, mapped=mapped)

    monkeypatch.setattr(producer_replay, "replay_segment", counted)
    opened(tmp_path / "t-0").close()
    rolled = [base for base in walked if base != bases[-1]]
    assert rolled == [bases[1], bases[3]]  # one with a marker that commits, one that may have some
    for base in rolled:
        assert (tmp_path / "t-0" / f"{base:020}.txnindex").read_bytes() == b""
    walked.clear()
    again = opened(tmp_path / "t-0")
    assert set(walked) <= {bases[-1]}
    assert not again.recovery.steps
    again.close()


def test_a_damaged_segment_gets_no_empty_index(tmp_path: Path) -> None:
    """An abort may hide behind the damage."""
    log = aborted_here_and_there(tmp_path / "t-0")
    log.close()
    path = sorted((tmp_path / "t-0").glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[16] = 9  # an unknown magic
    path.write_bytes(data)
    opened(tmp_path / "t-0").close()
    assert not path.with_suffix(".txnindex").exists()


def test_no_index_of_what_precedes_the_damage_is_left_behind(tmp_path: Path) -> None:
    """It would be trusted once the segment is complete again; readers search each time instead."""
    log = opened(tmp_path / "t-0")
    size = 0
    for number in range(2):
        log.append_as_leader(sent(5, 0, number, transactional=True))
        log.append_end_marker(5, 0, commit=False)
        size = size or log.size
    log.roll()
    log.append(b"last")
    log.close()
    path = min((tmp_path / "t-0").glob("*.log"))
    index, intact = path.with_suffix(".txnindex"), path.read_bytes()
    kept = index.read_bytes()
    for before in (None, b"\xff" + kept[1:]):  # lost; not to be parsed
        if before is None:
            index.unlink()
        else:
            index.write_bytes(before)
        overwrite(path, size + 16, b"\x09")
        again = opened(tmp_path / "t-0")
        assert len(again.aborted_transactions(0, 2)) == 1
        again.close()
        assert (index.read_bytes() if index.exists() else None) == before
        path.write_bytes(intact)
        again = opened(tmp_path / "t-0")
        assert len(again.aborted_transactions(0, 4)) == 2
        again.close()
        assert index.read_bytes() == kept


class FullForIndexes(Files):
    """No new transaction index is taken."""

    native = False

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        if flags & os.O_CREAT and ".txnindex" in os.fspath(path):
            raise StorageError("the disk is full", errno=errno.ENOSPC, path=path)
        return super().open(path, flags)


def test_a_full_disk_does_not_prevent_opening_a_log_that_lost_an_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "t-0"
    log = aborted_here_and_there(folder)
    expected = log.aborted_transactions(0, log.end_offset)
    log.close()
    kept = {path: path.read_bytes() for path in folder.glob("*.txnindex")}
    for path in kept:
        path.unlink()
    again = opened(folder, files=FullForIndexes())
    assert "a lost transaction index cannot be rebuilt" in caplog.text
    assert again.aborted_transactions(0, again.end_offset) == expected
    again.append(b"more")
    again.close()
    assert not list(folder.glob("*.txnindex*"))
    opened(folder).close()
    assert {path: path.read_bytes() for path in kept} == kept


def test_an_empty_transaction_index_is_written_without_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t-0"
    aborted_here_and_there(folder).close()
    names: list[str] = []
    replaced = Files.write_all_atomically

    def noted(self, contents):
        names.extend(os.path.basename(path) for path, _ in contents)
        return replaced(self, contents)

    monkeypatch.setattr(Files, "write_all_atomically", noted)
    opened(folder).close()
    assert sum(path.stat().st_size == 0 for path in folder.glob("*.txnindex")) == 2
    assert not [name for name in names if name.endswith(".txnindex")]
