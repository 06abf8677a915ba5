"""Verify beside a live writer, and after a kill: nothing healthy is called damaged."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main, verify
from kstore.errors import StorageError
from kstore.files.files import DISK, Files
from kstore.spark.jobs import verify as job
from kstore.spark.jobs.reports import show
from kstore.store import verify_topics
from kstore.verify.distributed import SegmentRange, merge_reports, verify_range
from kstore.verify.partition import LOOKS, VerifyReport, verify_partition
from support.damage import write_damaged
from support.logs import open_log
from support.producers import sent
from support.stores import MARKER, QUIET

NAME = "orders-0"
SMALL = LogConfig(segment_bytes=2000, segment_index_bytes=1200, index_interval_bytes=100)


def abort(log: kstore.Log, number: int) -> None:
    log.append_as_leader(sent(5, 0, number, transactional=True))
    log.append_end_marker(5, 0, commit=False)


def seen(report: VerifyReport) -> list[str]:
    found = (*report.findings, *report.warnings, *report.in_flight, *report.recovery_due)
    return [f"{each.kind}: {each.sentence}" for each in found]


class Meanwhile(Files):
    """Lets a writer continue whenever a file with some ending is about to be read."""

    def __init__(self, ending: str, act: Callable[[], None]) -> None:
        self.ending, self.act, self.count = ending, act, 0

    def _reading(self, path: Any) -> None:
        if str(path).endswith(self.ending) and self.count < 3:
            self.count += 1
            self.act()

    def open(self, path: Any, flags: int = os.O_RDONLY, *rest: Any) -> int:
        if flags == os.O_RDONLY:
            self._reading(path)
        return super().open(path, flags, *rest)


@pytest.mark.parametrize("ending", ["txnindex", "timeindex", "index", "log"])
@pytest.mark.parametrize("step", ["abort", "roll", "compact", "retention"])
def test_no_false_alarm_whatever_the_writer_does_meanwhile(
    tmp_path: Path, ending: str, step: str
) -> None:
    """Between the reads of any two files of the audit."""
    config = LogConfig(
        segment_bytes=900, index_interval_bytes=100, cleanup_policy="compact,delete",
        min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0,
    )  # fmt: skip
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("orders", config=config)[0]
        numbers = iter(range(1000))

        def act() -> None:
            if step == "roll":
                log.roll()
            elif step == "compact":
                log.compact()
            elif step == "retention":
                log.delete_records(log.segments.views[1].base_offset)
            abort(log, next(numbers))

        for _ in range(12):
            abort(log, next(numbers))
        files = Meanwhile(ending, act)
        report = verify_partition(files, tmp_path / NAME, pause=lambda look: None)
        assert files.count > 1
        assert seen(report) == []


def test_an_abort_between_the_log_and_its_transaction_index_is_no_damage(tmp_path: Path) -> None:
    """Also where no lock says that there is a writer: the log has grown since it was read."""
    log = open_log(tmp_path)
    numbers = iter(range(100))
    abort(log, next(numbers))
    files = Meanwhile("txnindex", lambda: abort(log, next(numbers)))
    assert seen(verify_partition(files, tmp_path)) == []
    assert files.count > 0
    log.close()


class Held(Files):
    """A writer's disk on which a chosen call waits until it is released."""

    def __init__(self, name: str, ending: str) -> None:
        self.name, self.ending = name, ending
        self.reached, self.go_on, self.armed = threading.Event(), threading.Event(), False

    def truncate(self, fd: int, size: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if self.armed and self.name == "truncate" and path.endswith(self.ending):
            self.armed = False
            self.reached.set()
            assert self.go_on.wait(60)
        super().truncate(fd, size)


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_time_index_at_its_preallocated_size_while_it_rolls(
    tmp_path: Path, comes_back: bool
) -> None:
    """Its size is no multiple of an entry, and a later segment exists already."""
    files = Held("truncate", ".timeindex")
    with kstore.Store(tmp_path, "a", config=QUIET, files=files) as store:
        log = store.create_topic("orders", config=SMALL)[0]
        log.append(b"value", timestamp=1_700_000_000_000)
        path = next((tmp_path / NAME).glob("*.timeindex"))
        os.truncate(path, 1201)
        files.armed = True
        roller = threading.Thread(target=log.roll)
        roller.start()
        try:
            assert files.reached.wait(60)
            looks: list[int] = []

            def pause(look: int) -> None:
                looks.append(look)
                if comes_back and look == 2:
                    files.go_on.set()
                    roller.join(60)

            report = verify_partition(DISK, tmp_path / NAME, pause=pause)
            assert report.findings == []
            assert [each.kind for each in report.in_flight] == (
                [] if comes_back else ["time index"]
            )
            assert looks == list(range(3 if comes_back else LOOKS))
            if not comes_back:
                assert main(["verify", "--log-dir", str(tmp_path)]) == 0
        finally:
            files.go_on.set()
            roller.join(60)


def test_damage_in_an_old_segment_is_damage_beside_a_writer_too(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("orders", config=SMALL)[0]
        for number in range(4):
            abort(log, number)
            log.append(b"value" * 30)
            log.roll()
        log.append(b"more")
        path = min((tmp_path / NAME).glob("*.txnindex"))
        assert path.stat().st_size == 34
        path.write_bytes(b"")
        looks: list[int] = []
        report = verify_partition(DISK, tmp_path / NAME, pause=looks.append)
        assert [each.kind for each in report.findings] == ["transaction index"]
        assert report.in_flight == []
        assert looks == [0]
        data = bytearray((log_path := min((tmp_path / NAME).glob("*.log"))).read_bytes())
        data[70] ^= 1
        write_damaged(log_path, data)
        report = verify_partition(DISK, tmp_path / NAME, pause=looks.append)
        assert "batch" in {each.kind for each in report.findings}


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """As a kill leaves it between an abort and the entry of it: of the last segment only."""
    root, copy = tmp_path / "data", tmp_path / "killed"
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("orders", config=SMALL)[0]
        for number in range(3):
            abort(log, number)
            log.roll()
        log.flush()
        abort(log, 3)
        shutil.copytree(root, copy)
    path = max((copy / NAME).glob("*.txnindex"))
    assert path.stat().st_size == 34
    path.write_bytes(b"")
    (copy / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    assert not (copy / MARKER).exists()
    return copy


def verified(root: Path) -> VerifyReport:
    report = verify_partition(DISK, root / NAME)
    assert merge_reports([verify_range(DISK, root / NAME, SegmentRange())]) == report
    return report


def test_after_a_kill_files_that_recovery_rebuilds_are_due(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = verified(killed)
    assert report.ok
    assert [each.kind for each in report.recovery_due] == ["transaction index"]
    assert "has no entry" in report.recovery_due[0].sentence
    assert main(["verify", "--log-dir", str(killed)]) == 0
    out = capsys.readouterr().out
    assert "orders-0: ok, recovery is due" in out
    assert "  recovery is due: transaction index: " in out
    with kstore.open(killed, config=QUIET) as store:
        assert store["orders"][0].end_offset == 8
    assert seen(verified(killed)) == []


def test_below_the_recovery_point_a_lost_index_is_damage_after_a_kill_too(killed: Path) -> None:
    min((killed / NAME).glob("*.txnindex")).write_bytes(b"")
    with pytest.raises(kstore.KStoreError):
        verified(killed).raise_if_corrupt()


def test_after_a_clean_stop_a_lost_entry_is_damage(killed: Path) -> None:
    (killed / MARKER).write_bytes(b"")
    assert [each.kind for each in verified(killed).findings] == ["transaction index"]


def test_damaged_records_are_never_only_due(killed: Path) -> None:
    path = max((killed / NAME).glob("*.log"))
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    write_damaged(path, data)
    assert [each.kind for each in verified(killed).findings] == ["batch"]


def test_one_descriptor_at_a_time_is_enough_for_any_number_of_segments(tmp_path: Path) -> None:
    class Few(Files):
        opened = most = 0

        def open(self, *arguments: Any) -> int:
            fd = super().open(*arguments)
            self.opened += 1
            self.most = max(self.most, self.opened)
            return fd

        def close(self, fd: int) -> None:
            self.opened -= 1
            super().close(fd)

    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("orders")[0]
        for _ in range(40):
            log.append(b"x")
            log.roll()
    files = Few()
    assert verify_partition(files, tmp_path / NAME).segments == 41
    assert files.most <= 3


@pytest.mark.parametrize("segments", [10, 40])
def test_one_wait_is_for_all_segments_that_leave_the_log_meanwhile(
    tmp_path: Path, segments: int
) -> None:
    class Counting(Files):
        listings = 0

        def listdir(self, path: Any) -> list[str]:
            self.listings += 1
            return super().listdir(path)

    with kstore.open(tmp_path, config=QUIET) as store:
        config = LogConfig(file_delete_delay_ms=0)
        log = store.create_topic("orders", config=config)[0]
        for _ in range(segments):
            log.append(b"x")
            log.roll()
        log.append(b"last")
        pauses: list[int] = []
        acts, files = [lambda: log.delete_records(segments)], Counting()

        def remove(done: int, total: int) -> None:
            while acts:
                acts.pop()()

        report = verify_partition(files, tmp_path / NAME, progress=remove, pause=pauses.append)
    assert (report.ok, report.segments) == (True, 2)
    assert pauses[:LOOKS] == list(range(LOOKS))
    assert len(pauses) <= LOOKS + 1  # and one for the gap that they leave
    assert files.listings <= LOOKS + 4


def test_a_segment_that_is_replaced_while_it_is_opened_is_read(tmp_path: Path) -> None:
    """It is absent when it is opened, and present in the listing after that."""
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("orders")[0].append(b"x")
    path = next((tmp_path / NAME).glob("*.log"))
    aside = path.with_suffix(".aside")

    class Replaced(Files):
        is_absent = True

        def open(self, opened: Any, flags: int = os.O_RDONLY) -> int:
            if self.is_absent and str(opened) == str(path):
                path.rename(aside)
            return super().open(opened, flags)

        def listdir(self, listed: Any) -> list[str]:
            if aside.exists():
                aside.rename(path)
                self.is_absent = False
            return super().listdir(listed)

    report = verify_partition(Replaced(), tmp_path / NAME)
    assert (report.ok, report.batches) == (True, 1)


def test_a_link_that_leads_nowhere_is_an_error_still(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("orders")[0].append(b"x")
    path = next((tmp_path / NAME).glob("*.log"))
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(StorageError):
        verify_partition(DISK, tmp_path / NAME)


# --- topics that are deleted meanwhile ------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[kstore.Store]:
    """The writer of a store with the topics a, b and z."""
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        for name in "abz":
            store.create_topic(name, 2)[0].append(b"1")
        yield store


def verify_while(
    act: Callable[[], Any], store: kstore.Store, monkeypatch: pytest.MonkeyPatch, *options: str
) -> int:
    """The exit status of the tool; the writer acts when the audit of a-0 is over."""
    finish, acts = verify_topics.warn_of_undecodable_keys, [act]

    def audited(report: VerifyReport, log: Any) -> None:
        finish(report, log)
        while acts:
            acts.pop()()

    monkeypatch.setattr(verify_topics, "warn_of_undecodable_keys", audited)
    return main(["verify", "--log-dir", store.paths[0], *options])


def test_a_topic_that_is_deleted_while_others_are_verified_is_skipped_with_a_line(
    three: kstore.Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_while(lambda: three.delete_topic("z"), three, monkeypatch) == 0
    out = capsys.readouterr().out
    assert "a-0: ok" in out
    assert "b-1: ok" in out
    assert "z-0: skipped, it was deleted meanwhile" in out
    assert "4 partitions: all ok" in out


def test_json_names_the_partitions_that_were_deleted_meanwhile(
    three: kstore.Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify_while(lambda: three.delete_topic("z"), three, monkeypatch, "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert [(each["topic"], each["partition"]) for each in tree["partitions"]] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert [line.partition(":")[0] for line in tree["left_out"]] == ["z-0", "z-1"]


def test_a_topic_recreated_meanwhile_is_another_topic_and_skipped(
    three: kstore.Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make_again() -> None:
        three.delete_topic("z")
        three.create_topic("z", 2)

    assert verify_while(make_again, three, monkeypatch) == 0
    assert "z-0: skipped, it was deleted meanwhile" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a", "b", "z"])
def test_a_topic_that_is_deleted_between_its_listing_and_its_opening_is_skipped(
    three: kstore.Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    listed = verify.matching_topics

    def list_and_delete(*given: Any) -> list[str]:
        names = listed(*given)
        three.delete_topic(name)
        return names

    monkeypatch.setattr(verify, "matching_topics", list_and_delete)
    assert main(["verify", "--log-dir", three.paths[0]]) == 0
    out = capsys.readouterr().out
    assert f"{name}: skipped, the topic was deleted meanwhile" in out
    assert "4 partitions: all ok" in out


def test_damage_beside_a_deleted_topic_is_damage_still(
    three: kstore.Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path(three["b"][0].path) / "00000000000000000000.log"
    write_damaged(log, bytes([log.read_bytes()[0] ^ 1]) + log.read_bytes()[1:])
    assert verify_while(lambda: three.delete_topic("z"), three, monkeypatch) == 1
    assert "1 damaged" in capsys.readouterr().out


def test_a_spark_job_skips_a_partition_that_is_deleted_meanwhile(
    three: kstore.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = job._partitions(DISK, three.paths, None)
    assert [task.topic for task in tasks] == ["a", "a", "b", "b", "z", "z"]
    three.delete_topic("z")
    reports = [
        job._check_deleted(
            DISK, task, job.PartitionReport(task.topic, task.partition, task.path, found)
        )
        for task in tasks
        for found in (VerifyReport(),)
    ]
    assert [each.is_deleted for each in reports] == [False] * 4 + [True] * 2
    lines = job.report_lines(reports)
    assert "z-0: skipped, deleted while the job ran" in lines
    assert show(False, reports, lines) == 0
