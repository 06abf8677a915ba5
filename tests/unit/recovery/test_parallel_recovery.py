"""A store that was not closed cleanly: its partitions side by side, and what is said of them."""

import logging
import shutil
import threading
from pathlib import Path

import pytest

import kstore
from kstore.config import StoreConfig
from kstore.errors import RecoveryNeededError
from kstore.files.files import Files
from support.damage import write_damaged

MARKER = ".kafka_cleanshutdown"
LOG = f"{0:020}.log"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Two directories with three partitions each that were not closed; nothing was flushed."""
    paths = [tmp_path / "one", tmp_path / "two"]
    with kstore.open(paths) as store:
        topic = store.create_topic("t", 6)
        for log in topic:
            log.extend([b"%d" % n for n in range(100)], timestamp=1_000)
    for path in paths:
        (path / MARKER).unlink()
        (path / "recovery-point-offset-checkpoint").unlink()
    return tmp_path


def paths_of(root: Path) -> list[Path]:
    return [root / "one", root / "two"]


def folder_of(root: Path, partition: int) -> Path:
    (found,) = root.glob(f"*/t-{partition}")
    return found


def test_all_partitions_are_recovered_with_the_store(killed: Path) -> None:
    with kstore.open(paths_of(killed)) as store:
        summary = store.recovery
        assert summary.unclean
        assert sorted(summary.reports) == [("t", n) for n in range(6)]
        size = sum(path.stat().st_size for path in killed.glob("*/t-*/*.log"))
        assert summary.bytes_scanned == size > 0
        assert (summary.cut_size, summary.failed) == (0, {})
        assert "t-5: scanned 1 segment," in str(summary)
        assert [log.end_offset for log in store["t"]] == [100] * 6
    with kstore.open(paths_of(killed)) as store:
        assert not store.recovery.reports  # opened when they are used
        assert str(store.recovery) == "nothing to recover"
        assert store["t"][0].end_offset == 100
        assert list(store.recovery.reports) == [("t", 0)]
        assert not store.recovery.unclean


def test_progress_counts_every_byte_that_is_scanned(killed: Path) -> None:
    reported: list[tuple[int, int]] = []
    with kstore.open(paths_of(killed), progress=lambda done, total: reported.append((done, total))):
        pass
    size = sum(path.stat().st_size for path in killed.glob("*/t-*/*.log"))
    assert reported[-1] == (size, size)
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)


def test_an_error_of_the_caller_s_own_progress_is_raised(killed: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kstore.open(paths_of(killed), progress=stop)
    assert not any((path / MARKER).exists() for path in paths_of(killed))
    with kstore.open(paths_of(killed)) as store:  # the locks are free again
        assert store.recovery.unclean
        assert [log.end_offset for log in store["t"]] == [100] * 6


@pytest.mark.parametrize("threads", [1, 2])
def test_each_directory_has_its_threads(killed: Path, threads: int) -> None:
    """So many at once, and no more: each waits until the others of its round have begun."""
    seen: dict[str, set[int]] = {"one": set(), "two": set()}
    together = threading.Barrier(2 * threads, timeout=20)
    waits = [0]

    class Watching(Files):
        def open(self, path, flags=0):
            path = Path(path)
            if path.name == LOG and threading.current_thread() is not threading.main_thread():
                mine = seen[path.parent.parent.name]
                first = threading.get_ident() not in mine
                mine.add(threading.get_ident())
                if first:
                    waits[0] += 1
                    together.wait()
            return super().open(path, flags)

    config = StoreConfig(num_recovery_threads_per_data_dir=threads, background=False)
    with kstore.Store(paths_of(killed), config=config, files=Watching()) as store:
        assert len(store.recovery.reports) == 6
    assert [len(each) for each in seen.values()] == [threads, threads]
    assert waits == [2 * threads]


def test_a_partition_that_cannot_be_recovered_does_not_stop_the_others(
    killed: Path, caplog
) -> None:
    segment = folder_of(killed, 3) / LOG
    data = segment.read_bytes()
    segment.write_bytes(data[:-1])
    checkpoint = segment.parent.parent / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 3 100\n")
    with caplog.at_level(logging.WARNING, "kstore"), kstore.open(paths_of(killed)) as store:
        (key,) = store.recovery.failed
        assert key == ("t", 3)
        assert "t-3: not recovered" in str(store.recovery)
        assert "t-3 could not be recovered" in caplog.text
        assert len(store.recovery.reports) == 5
        with pytest.raises(RecoveryNeededError) as caught:
            _ = store["t"][3]
        assert caught.value.path == str(segment)
    assert segment.read_bytes() == data[:-1]
    marked = [(path / MARKER).exists() for path in paths_of(killed)]
    assert marked.count(False) == 1
    segment.write_bytes(data)
    with kstore.open(paths_of(killed)) as store:
        assert store["t"][3].end_offset == 100
        assert store.recovery.failed == {}


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ],
)
def test_an_unreadable_checkpoint_is_named_and_kept(killed: Path, name: str, caplog) -> None:
    """Kafka does not start on a recovery point checkpoint that does not parse."""
    bad = killed / "one" / name
    bad.write_bytes(b"0\n7\nt 0 5\n")
    with caplog.at_level(logging.WARNING, "kstore"), kstore.open(paths_of(killed)) as store:
        assert [log.end_offset for log in store["t"]] == [100] * 6
        store.checkpoint()
        store.delete_topic("t")
    kept = killed / "one" / f"kstore.unreadable.{name}.0"
    assert kept.read_bytes() == b"0\n7\nt 0 5\n"
    assert str(bad) in caplog.text
    assert kept.name in caplog.text
    assert not bad.exists() or bad.read_bytes() != kept.read_bytes()


def test_problems_of_a_log_directory_are_in_the_summary(killed: Path) -> None:
    (killed / "one" / "lost+found").mkdir()
    (killed / "two" / "recovery-point-offset-checkpoint").write_bytes(b"nonsense")
    with kstore.open(paths_of(killed)) as store:
        reported = str(store.recovery)
        assert f"{killed / 'one' / 'lost+found'}: not a partition directory; ignored" in reported
        assert "recovery-point-offset-checkpoint" in reported
        assert "kstore.unreadable.recovery-point-offset-checkpoint.0" in reported
        assert len(store.recovery.notes) == 2


def test_a_reader_leaves_an_unreadable_checkpoint_where_it_is(killed: Path) -> None:
    bad = killed / "one" / "log-start-offset-checkpoint"
    bad.write_bytes(b"nonsense")
    before = sorted(path.name for path in (killed / "one").iterdir())
    with kstore.open(paths_of(killed), mode="r") as store:
        assert [log.start_offset for log in store["t"]] == [0] * 6
    assert sorted(path.name for path in (killed / "one").iterdir()) == before


def test_unreadable_epochs_do_not_stop_a_log(killed: Path) -> None:
    folder = folder_of(killed, 0)
    (folder / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n")
    with kstore.open(paths_of(killed)) as store:
        report = store.recovery.reports["t", 0]
        assert report.kept == ("kstore.unreadable.leader-epoch-checkpoint.0",)
        assert "leader-epoch-checkpoint does not parse" in str(report)
        assert store["t"][0].append(b"more") == 100
    assert (folder / report.kept[0]).read_bytes() == b"0\n2\n0 0\n"
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_recovering_twice_gives_the_same(killed: Path, tmp_path: Path) -> None:
    copies = []
    for name in ("first", "second"):
        copy = tmp_path / name
        shutil.copytree(killed / "one", copy)
        copies.append(copy)
    with kstore.open(copies[1]):
        pass
    (copies[1] / MARKER).unlink()
    found = []
    for copy in copies:
        with kstore.open(copy):
            pass
        found.append({p.name: p.read_bytes() for p in copy.rglob("0*") if p.is_file()})
    assert found[0] == found[1]


def test_the_command_line_reports_what_was_recovered(killed: Path, capsys) -> None:
    from kstore.cli import main

    segment = folder_of(killed, 2) / LOG
    write_damaged(segment, segment.read_bytes() + b"torn")
    words = ["topics", "--list", "--log-dir", ",".join(map(str, paths_of(killed)))]
    assert main(words) == 0
    assert "recovered" not in capsys.readouterr().err
    words = ["topics", "--create", "--topic", "more", *words[2:]]
    assert main(words) == 0
    reported = capsys.readouterr().err
    assert "t-2: scanned 1 segment," in reported
    assert "cut 4 bytes" in reported
    assert main([*words[:3], "again", *words[4:]]) == 0
    assert capsys.readouterr().err == ""


def skip_and_kill(path: Path) -> Path:
    """Segments 0 and 10, as a follower leaves them whose leader had nothing between."""
    with kstore.open(path) as store:
        log = store.create_topic("t")[0]
        log.append(b"0")
        log._require_writer().truncator.skip_to(10)
        log.append(b"10")
    (path / MARKER).unlink()
    (path / "recovery-point-offset-checkpoint").unlink()
    (path / "t-0" / f"kstore.seal.{0:020}").unlink()  # which names the next segment, too
    return path / "t-0" / "kstore.gaps"


def test_a_gap_that_a_follower_noted_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skip_and_kill(tmp_path)
    with kstore.open(tmp_path) as store:
        assert [record.offset for record in store["t"][0]] == [0, 10]
        assert "begins at 10" not in str(store.recovery)
        assert not store.recovery.reports["t", 0].alarming
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (None, None),
        ('{"format": 1, "gaps": [[1, 9]]}', None),
        ("{", "kstore.gaps does not parse"),
        ('{"format": 99}', "kstore.gaps has format 99"),
    ],
)
def test_a_gap_that_is_not_noted_in_full_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None, warning: str | None
) -> None:
    """A file that cannot be read is named, and keeps no log from being opened."""
    noted = skip_and_kill(tmp_path)
    if content is None:
        noted.unlink()
    else:
        noted.write_text(content)
    with kstore.open(tmp_path) as store:
        assert store.recovery.reports["t", 0].alarming
        assert "ends before offset 1 and the next segment begins at 10" in str(store.recovery)
        assert [record.offset for record in store["t"][0]] == [0, 10]
    assert warning is None or warning in caplog.text
