"""Records that are gone: certain damage, warnings, and the gaps that are no loss."""

import json
import shutil
from pathlib import Path

import pytest

import kstore
from kafka_files import data_sets
from kstore import LogConfig
from kstore.checkpoint.known_gaps import is_known, merge_ranges
from kstore.cli import main
from kstore.errors import CorruptRecordError
from kstore.files.files import DISK
from kstore.verify.distributed import merge_reports, plan_ranges, verify_range
from kstore.verify.partition import VerifyReport, verify_partition
from support.damage import write_damaged
from support.logs import fill_segments, open_log
from support.recording_disk import Recorder
from support.stores import MARKER, QUIET
from support.waiting import until

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
NAME = "orders-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Closed cleanly: three segments of ten records each."""
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        fill_segments(store.create_topic("orders")[0])
    assert verdict(path) == (0, [], [])
    return path


def logs(root: Path) -> list[Path]:
    return sorted((root / NAME).glob("*.log"))


def in_parts(path: Path) -> VerifyReport:
    """As a job audits it, a segment in each task; the partition at once where needed."""
    segments = [(int(each.stem), each.stat().st_size) for each in sorted(path.glob("*.log"))]
    parts = plan_ranges(segments, 1)
    report = merge_reports([verify_range(DISK, path, part) for part in parts])
    if report is None:
        report = merge_reports([verify_range(DISK, path, type(parts[0])())])
    assert report is not None
    return report


def verdict(root: Path) -> tuple[int, list[str], list[str]]:
    """Exit status, sentences of certain damage and of warnings; a job on Spark says the same."""
    report = verify_partition(DISK, root / NAME)
    assert in_parts(root / NAME) == report
    status = main(["verify", "--log-dir", str(root)])
    damage = [finding.sentence for finding in report.findings]
    return status, damage, [finding.sentence for finding in report.warnings]


def test_a_log_start_beyond_the_end_is_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    starts = root / "log-start-offset-checkpoint"
    starts.write_text("0\n1\norders 0 999\n")
    sentence = (
        "log-start-offset-checkpoint sets the log start to 999, but the log's records end at 30: "
        "those at offsets 0 to 29 are in its files and hidden, unless they were deleted; to read "
        "them, remove the entry from log-start-offset-checkpoint while no process has the "
        "directory open"
    )
    assert verdict(root) == (3, [], [sentence])
    caplog.clear()
    with kstore.open(root, mode="r") as store:
        log = store["orders"][0]
        assert (log.start_offset, log.end_offset, list(log)) == (999, 999, [])
    assert caplog.text.count(sentence) == 1
    with kstore.open(root, config=QUIET) as store, kstore.open(root, mode="r") as beside:
        log, elsewhere = store["orders"][0], beside["orders"][0]
        assert (log.start_offset, log.end_offset) == (999, 999)
        assert elsewhere.end_offset == 999
        assert log.recovery is not None
        assert log.recovery.alarming
        assert sentence in log.recovery.steps
        # The reader warns once the directory is as it was a moment ago.
        until(lambda: elsewhere.end_offset == 999 and caplog.text.count(sentence) == 3)
    assert verdict(root) == (3, [], [sentence])
    starts.write_text("0\n0\n")
    for mode in "r", "a":
        with kstore.open(root, mode=mode) as store:
            assert [record.offset for record in store["orders"][0]] == list(range(30))
    assert verdict(root) == (0, [], [])


def test_a_log_start_at_the_end_is_as_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with kstore.open(root, config=QUIET) as store:
        assert store["orders"][0].delete_records(-1) == 30
    assert verdict(root) == (0, [], [])
    for mode in "r", "a":
        with kstore.open(root, mode=mode) as store:
            assert store["orders"][0].start_offset == store["orders"][0].end_offset == 30
    assert caplog.text == ""


def test_a_reader_sees_what_is_appended_at_a_log_start_beyond_the_end(root: Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 999\n")
    with kstore.open(root, config=QUIET) as store, kstore.open(root, mode="r") as beside:
        elsewhere = beside["orders"][0]
        assert elsewhere.end_offset == 999
        assert store["orders"][0].append(b"next") == 999
        assert [record.value for record in elsewhere] == [b"next"]
    assert verdict(root)[0] == 0


def remove_segment(log: Path) -> None:
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()


def cut_last(root: Path) -> None:
    """In front of its last batch."""
    data = logs(root)[-1].read_bytes()
    assert len(data) % 10 == 0
    logs(root)[-1].write_bytes(data[: -len(data) // 10])


def empty_last(root: Path) -> None:
    assert logs(root)[-1].stat().st_size > 0
    logs(root)[-1].write_bytes(b"")


def remove_last(root: Path) -> None:
    remove_segment(logs(root)[-1])


def remove_last_log_only(root: Path) -> None:
    logs(root)[-1].unlink()


def remove_all(root: Path) -> None:
    for log in logs(root):
        remove_segment(log)


def remove_everything(root: Path) -> None:
    assert logs(root)
    for path in (root / NAME).iterdir():
        path.unlink()


def remove_middle(root: Path) -> None:
    remove_segment(logs(root)[1])


def remove_middle_log_only(root: Path) -> None:
    logs(root)[1].unlink()


def empty_middle(root: Path) -> None:
    logs(root)[1].write_bytes(b"")


def tear_last(root: Path) -> None:
    logs(root)[-1].write_bytes(logs(root)[-1].read_bytes()[:-1])


LOSSES = [
    cut_last, empty_last, remove_last, remove_last_log_only, remove_all, remove_everything,
    remove_middle, remove_middle_log_only, empty_middle, tear_last,
]  # fmt: skip


@pytest.mark.parametrize("lose", LOSSES)
def test_records_missing_after_a_clean_stop_are_certain_damage(
    root: Path, tmp_path: Path, lose: object, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(root)
    status, damage, _ = verdict(root)
    assert status == 1
    assert damage
    with pytest.raises(CorruptRecordError):
        verify_partition(DISK, root / NAME).raise_if_corrupt()
    assert "1 partition: 1 damaged" in capsys.readouterr().out
    assert main(["repair", "--path", str(root)]) == 2
    assert main(["repair", "--json", "--path", str(root / NAME)]) == 2


def test_the_finding_names_file_position_and_offset(root: Path) -> None:
    cut_last(root)
    (finding,) = verify_partition(DISK, root / NAME).findings
    assert (finding.kind, finding.path) == ("missing", str(logs(root)[-1]))
    assert (finding.position, finding.offset) == (logs(root)[-1].stat().st_size, 29)
    assert "the log ends at offset 29, below the recovery point 30" in finding.sentence


@pytest.mark.parametrize("lose", [cut_last, empty_last, remove_all])
def test_a_recovery_point_beyond_the_end_without_the_marker_is_a_warning(
    root: Path, lose: object
) -> None:
    for path in (root / NAME).glob("kstore.seal.*"):
        path.unlink()
    (root / MARKER).unlink()
    lose(root)
    if lose is empty_last:
        assert verify_partition(DISK, root / NAME).ok
    status, damage, warnings = verdict(root)
    assert (status, damage) == (3, [])
    assert "unless the writer was killed during a truncation" in warnings[0]
    assert main(["repair", "--path", str(root)]) == 3


def test_a_gap_that_nothing_explains_is_a_warning(root: Path) -> None:
    """As in the log of a broker, which keeps no seals."""
    for path in (root / NAME).glob("kstore.seal.*"):
        path.unlink()
    remove_middle(root)
    status, damage, warnings = verdict(root)
    assert (status, damage) == (3, [])
    assert "ends before offset 10 and the next one begins at 20" in warnings[0]
    report = verify_partition(DISK, root / NAME)
    report.raise_if_corrupt()
    assert report.ok
    assert report.warning_count == 1
    assert main(["repair", "--path", str(root)]) == 3
    tree = json.loads(json.dumps([w.sentence for w in report.warnings]))
    assert tree == warnings


def test_partitions_with_warnings_are_not_sealed(root: Path) -> None:
    for path in (root / NAME).glob("kstore.seal.*"):
        path.unlink()
    remove_middle(root)
    assert main(["verify", "--seal", "--log-dir", str(root)]) == 3
    assert not list((root / NAME).glob("kstore.seal.*"))


def test_a_checkpoint_that_does_not_parse_is_a_warning(root: Path) -> None:
    (root / RECOVERY_POINTS).write_text("nonsense")
    status, damage, warnings = verdict(root)
    assert (status, damage) == (3, [])
    assert "cannot be used" in warnings[0]


class Looking(type(DISK)):
    """Notes the order in which checkpoint and directory are read."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def read(self, path: object, limit: int = 1 << 28) -> bytes:
        self.seen.append(Path(str(path)).name)
        return super().read(path, limit)

    def listdir(self, path: object) -> list[str]:
        self.seen.append("listing")
        return super().listdir(path)


def test_the_checkpoint_is_read_before_the_files_are_listed(root: Path) -> None:
    files = Looking()
    assert verify_partition(files, root / NAME).ok
    assert files.seen.index(RECOVERY_POINTS) < files.seen.index("listing")


def test_the_files_of_a_directory_are_parsed_once_for_all_its_partitions(tmp_path: Path) -> None:
    from kstore.verify.log_dir_state import StateReader

    with kstore.open(tmp_path, config=QUIET) as store:
        for log in store.create_topic("orders", partitions=20):
            log.append(b"x")
    files = Looking()
    states = StateReader(files)
    for number in range(20):
        assert verify_partition(files, tmp_path / f"orders-{number}", states=states).ok
    assert files.seen.count(RECOVERY_POINTS) == 1


# --- what is no loss ---------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("changed_back", [True, False])
def test_compaction_leaves_no_loss(tmp_path: Path, changed_back: bool, checkpoint: bool) -> None:
    root = tmp_path / "data"
    config = LogConfig(cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.0)
    with kstore.open(root, config=QUIET) as store:
        topic = store.create_topic("orders", config=config)
        for number in range(200):
            topic[0].append(b"v", key=b"rare" if number % 7 == 0 else b"%d" % (number % 5))
        topic[0].compact()
        if changed_back:
            store.alter_topic("orders", config={"cleanup.policy": "delete"})
    if not checkpoint:
        (root / "cleaner-offset-checkpoint").unlink()
    assert verdict(root) == (0, [], [])


def test_deleted_records_and_retention_leave_no_loss(root: Path) -> None:
    with kstore.open(root, config=QUIET) as store:
        store["orders"][0].delete_records(15)
    assert verdict(root) == (0, [], [])
    with kstore.open(root, config=QUIET) as store:
        store["orders"][0].delete_records(30)
    assert verdict(root) == (0, [], [])
    with kstore.open(root, config=QUIET) as store:
        log = store["orders"][0]
        fill_segments(log, 3, 2)
        store.alter_topic("orders", config={"retention.bytes": "1"})
        log = store["orders"][0]
        assert log.apply_retention() > 0
    assert verdict(root) == (0, [], [])


@pytest.mark.parametrize("killed", [False, True])
def test_offsets_that_a_follower_skips_are_no_loss(
    root: Path, tmp_path: Path, killed: bool
) -> None:
    """Also in a copy, in which no seal fits its segment, and before anything was flushed."""
    with kstore.open(root, config=QUIET) as store:
        writer = store["orders"][0]._require_writer()
        writer.truncator.skip_to(50)
        store["orders"][0].append(b"more")
        if killed:
            shutil.copytree(root, tmp_path / "copy")
    if not killed:
        assert verdict(root) == (0, [], [])
        shutil.copytree(root, tmp_path / "copy")
    assert verdict(tmp_path / "copy") == (0, [], [])


def test_a_truncated_log_has_lost_nothing(root: Path) -> None:
    """At the end of a segment, within one, and everything."""
    for offset in (20, 13, 10, 0):
        with kstore.open(root, config=QUIET) as store:
            store["orders"][0].truncate_to(offset)
        assert verdict(root) == (0, [], []), offset


def test_an_interrupted_truncation_is_not_reported_as_a_loss(tmp_path: Path) -> None:
    """At every change of the disk: no seal names a segment that is gone already."""
    recorder = Recorder(tmp_path / NAME)
    log = open_log(tmp_path / NAME, files=recorder)
    fill_segments(log, 4, 2)
    log.flush()
    before = len(recorder.ops)
    assert len(list((tmp_path / NAME).glob("kstore.seal.*"))) == 3
    log.truncate_to(2)
    removed = [op.name for op in recorder.ops[before:] if op.kind == "remove"]
    first_log = next(n for n, name in enumerate(removed) if name.endswith(".log"))
    assert sum("kstore.seal." in name for name in removed[:first_log]) == 2
    assert not any("kstore.seal." in name for name in removed[first_log:])
    log.close()


def test_the_output_of_repair_has_no_loss(root: Path, tmp_path: Path) -> None:
    remove_middle(root)
    out = tmp_path / "out"
    assert main(["repair", "--path", str(root), "--execute", "--output", str(out)]) == 2
    assert verdict(out) == (0, [], [])
    shutil.copytree(out, tmp_path / "copy")
    assert verdict(tmp_path / "copy") == (0, [], [])


def test_batches_cut_by_kafkas_way_of_recovery_are_no_loss(root: Path) -> None:
    path = logs(root)[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 70] ^= 1
    write_damaged(path, data)
    path.with_suffix(".index").unlink()
    (root / MARKER).unlink()
    config = kstore.StoreConfig(background=False, recovery="kafka")
    with kstore.open(root, config=config) as store:
        assert len(list(store["orders"][0])) < 30
    assert verdict(root) == (0, [], [])


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_that_has_lost_its_log_is_certain_damage_after_a_clean_stop_only(
    root: Path, is_clean: bool
) -> None:
    """A broker deletes the log first; what is left when it is killed, it removes at its start."""
    logs(root)[0].unlink()
    sentence = "the segment's log file is missing, though "
    if is_clean:
        status, damage, warnings = verdict(root)
        assert (status, len(damage), warnings) == (1, 1, [])
        assert damage[0].startswith(sentence)
        return
    (root / MARKER).unlink()
    status, damage, warnings = verdict(root)
    assert (status, damage, len(warnings)) == (3, [], 1)
    assert warnings[0].startswith(sentence)
    assert "unless a broker was killed" in warnings[0]


@pytest.mark.parametrize("checkpoint_first", [True, False])
def test_a_copy_made_while_a_writer_runs_has_no_loss(
    tmp_path: Path, checkpoint_first: bool
) -> None:
    root, copy = tmp_path / "data", tmp_path / "copy"
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("orders")[0]
        fill_segments(log)
        log.flush()
        copy.mkdir()
        for _ in range(2):
            if checkpoint_first and (root / RECOVERY_POINTS).exists():
                shutil.copy(root / RECOVERY_POINTS, copy)
            shutil.copytree(root / NAME, copy / NAME, dirs_exist_ok=True)
            shutil.copy(root / "kstore.topics", copy)
            log.append(b"more")
            log.flush()
    assert verdict(copy) == (0, [], [])


@pytest.mark.parametrize("stale", [None, 0, 12])
def test_missing_and_stale_checkpoints_are_no_loss(root: Path, stale: int | None) -> None:
    for name in (RECOVERY_POINTS, "replication-offset-checkpoint"):
        (root / name).unlink()
    if stale is not None:
        (root / RECOVERY_POINTS).write_text(f"0\n1\norders 0 {stale}\n")
    assert verdict(root) == (0, [], [])
    (root / MARKER).unlink()
    assert verdict(root) == (0, [], [])


def test_a_torn_tail_is_not_read_while_another_process_has_the_directory_open(root: Path) -> None:
    (root / RECOVERY_POINTS).unlink()
    tear_last(root)
    with DISK.lock(root / ".lock"):
        report = verify_partition(DISK, root / NAME, pause=lambda look: None)
    assert report.ok
    assert report.not_yet_there > 0
    assert not verify_partition(DISK, root / NAME).ok


# --- what real brokers left --------------------------------------------------------------------

# Kafka's recovery leaves these wrong; what it does not read is not repaired either.
KNOWN = {"derived", "middle", "cut"}


def is_without_epochs(folder: Path) -> bool:
    """Whether the maker of the data sets took the file of the leader epochs away."""
    return folder.name == "epochs-0" and not (folder / "leader-epoch-checkpoint").exists()


def test_no_directory_of_a_real_broker_has_lost_records(tmp_path: Path) -> None:
    seen = 0
    for archive in sorted(data_sets.DATA.glob("*.tar.xz")):
        name = archive.name.removesuffix(".tar.xz")
        unpacked = data_sets.unpack(name, tmp_path / name)
        for folder in sorted({path.parent for path in unpacked.rglob("*.log")}):
            report = verify_partition(DISK, folder)
            warned = {each.kind for each in report.warnings}
            assert warned == ({"epochs"} if is_without_epochs(folder) else set()), folder
            assert not [each for each in report.findings if each.kind == "missing"], folder
            if not KNOWN & set(folder.parts):
                assert report.findings == [], folder
            seen += 1
    assert seen > 300


def test_known_gaps_that_overlap_or_touch_cover_what_they_cover_together() -> None:
    merged = merge_ranges([(0, 100), (5, 10), (100, 120), (130, 140)])
    assert merged == [(0, 120), (130, 140)]
    assert is_known(merged, 50, 120)
    assert is_known(merged, 130, 140)
    assert not is_known(merged, 50, 121)
    assert not is_known(merged, 120, 125)
    assert not is_known([], 0, 1)
