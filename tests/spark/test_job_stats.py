"""``kstore spark stats``: one machine's figures, from tasks; resumed, damaged, and as a page."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.log.statistics import Stats
from kstore.partition_files import count_of
from kstore.spark.jobs import partition_job, task_runner
from kstore.spark.jobs import stats as job
from kstore.spark.jobs.stats_page import html
from kstore.spark.jobs.stats_report import PartitionStats, as_tree, report_lines, when
from support.damage import write_damaged
from support.figures import survey_log
from support.jobs import folder_goes_once_planned, make_store, overwrite, read_resume_file
from support.stores import QUIET, snapshot

NO_SPARK: Any = None  # tasks run in this process


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of about two segments, so that parts of a partition come from several."""
    monkeypatch.setattr(task_runner, "LEAST_TASK", 9000)
    monkeypatch.setattr(task_runner, "MOST_TASK", 9000)


def single(path: Path) -> list[Stats]:
    with kstore.open(path, "r") as store:
        return [survey_log(log) for name in sorted(store) for log in store[name]]


def damage(path: Path) -> tuple[Path, int]:
    """Flip a bit of a record in the middle; its file and the batch's offset."""
    chosen = sorted((path / "orders-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[70] ^= 1
    write_damaged(chosen, data)
    return chosen, int(chosen.stem)


def test_the_same_as_on_one_machine(spark: Any, log_dir: Path) -> None:
    before = snapshot(log_dir)
    seen: list[tuple[int, int]] = []
    reports = job.stats(
        spark, log_dir, progress=lambda done, total, name: seen.append((done, total))
    )
    assert [each.stats for each in reports] == single(log_dir)
    assert [(each.topic, each.partition) for each in reports] == [
        ("clicks", 0), ("clicks", 1), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert all(each.ok and each.stats.segments > 3 for each in reports)
    assert seen[-1] == (sum(each.stats.bytes for each in reports),) * 2
    assert snapshot(log_dir) == before


def test_damage_is_named_and_the_job_continues(spark: Any, log_dir: Path, capsys: Any) -> None:
    chosen, offset = damage(log_dir)
    assert main(["spark", "stats", "--log-dir", str(log_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(f"damaged: {chosen} position 0 offset {offset}: " in line for line in lines)
    assert lines[-1].startswith("4 partitions: 1 not ok")
    assert [each.stats for each in job.stats(spark, log_dir)] == single(log_dir)


def test_json_and_page(spark: Any, log_dir: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    words = ["spark", "stats", "--json", "--html", str(page), "--log-dir", str(log_dir)]
    assert main(words) == 0
    tree = json.loads(capsys.readouterr().out)
    clicks, orders = tree["topics"]
    assert tree["ok"]
    assert clicks["records"] == 300 == sum(each["records"] for each in clicks["partitions"])
    keys = clicks["distinct_keys"]
    assert keys["estimate"] == 40
    assert keys["standard_error"] == pytest.approx(0.0081, abs=1e-4)
    assert keys["method"].startswith("HyperLogLog")
    assert clicks["codecs"]["none"]["compression_ratio"] == 1
    assert orders["commit_markers"] > 0 < orders["abort_markers"]
    sizes = clicks["record_sizes"]
    assert sizes["min"] <= sizes["p50_at_most"] <= sizes["p99_at_most"] <= sizes["max"]
    assert sum(each["count"] for each in sizes["buckets"]) == 300
    days = clicks["rates"]["days"]
    assert sum(each["records"] for each in days) == 300
    assert tree["total"]["bytes"] == clicks["bytes"] + orders["bytes"]
    text = page.read_text()
    assert text.count("<svg") == 8
    assert not re.search(r"(src|href)\s*=\s*['\"]http", text)
    assert "about 40 distinct" in text


def test_resume_does_not_walk_again(
    spark: Any, log_dir: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAST_TASK", "MOST_TASK"):  # one task: its partitions come in order
        monkeypatch.setattr(task_runner, name, 1 << 20)
    damage(log_dir)
    complete = job.stats(spark, log_dir)
    state = tmp_path / "state.json"

    def stop(done: int, total: int, name: str) -> None:
        if name == "orders-0":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.stats(spark, log_dir, resume=str(state), progress=stop)
    left = [each for each in complete if each.path not in read_resume_file(state)]
    assert [(each.topic, each.partition) for each in left] == [("orders", 1)]
    words = ["spark", "stats", "--resume", str(state), "--log-dir", str(log_dir)]
    assert main([*words, "--dry-run"]) == 0
    stats = left[0].stats
    printed = capsys.readouterr().out
    segments = count_of(stats.segments, "segment")
    assert printed == f"1 task would scan {segments}, {stats.bytes:,} bytes\n"
    seen: set[str] = set()
    again = job.stats(
        spark, log_dir, resume=str(state), progress=lambda done, total, name: seen.add(name)
    )
    assert again == complete
    assert seen == {"orders-1"}
    assert not state.exists()
    state.write_text('{"job": {"name": "verify"}, "done": {}}')
    assert main(words) == 1
    assert "belongs to another job" in capsys.readouterr().err


def test_a_partition_removed_during_the_scan_is_reported(
    spark: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_goes_once_planned(monkeypatch, job, log_dir / "clicks-1")
    reports = job.stats(spark, log_dir)
    assert [each.stats.segments > 0 for each in reports] == [True, False, True, True]
    assert reports[1].stats.segments_gone > 3


def fail_on_orders(task: Any) -> Any:
    survey = job.survey_segments

    def failing(files: Any, path: str, segments: Any) -> Any:
        if path.endswith("orders-0"):
            raise kstore.errors.StorageError("cannot read", path=path)
        return survey(files, path, segments)

    job.survey_segments = failing
    try:
        return job._scan_task(task)
    finally:
        job.survey_segments = survey


def test_a_partition_whose_disk_fails(
    spark: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = partition_job.run_tasks
    monkeypatch.setattr(
        partition_job, "run_tasks",
        lambda spark, tasks, work, text: original(spark, tasks, fail_on_orders, text),
    )  # fmt: skip
    state = tmp_path / "state.json"
    reports = job.stats(spark, log_dir, resume=str(state))
    assert [each.ok for each in reports] == [True, True, False, True]
    assert "cannot read" in str(reports[2].error)
    assert sorted(Path(path).name for path in read_resume_file(state)) == [
        "clicks-0",
        "clicks-1",
        "orders-1",
    ]
    monkeypatch.undo()
    assert [each.stats for each in job.stats(spark, log_dir, resume=str(state))] == single(log_dir)


def test_names_are_text_in_the_page_and_times_may_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = PartitionStats("<b>", 0, "/x", 0, Stats(), "<script>no</script>")
    text = html(as_tree([bad]))
    assert "<script>" not in text
    assert "<b>" not in text.replace("<b></b>", "")
    assert when(2**63 - 1) == f"{2**63 - 1} ms"
    assert when(0) == "1970-01-01T00:00:00.000Z"
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "matplotlib is not installed" in html(as_tree([bad]))


def test_invalid_options_of_stats_are_errors(log_dir: Path, capsys: Any) -> None:
    assert main(["spark", "stats", "--dry-run", "--topic", "x", "--log-dir", str(log_dir)]) == 1
    assert "topics: clicks, orders" in capsys.readouterr().err
    assert main(["spark", "stats", "--help"]) == 0
    assert "HyperLogLog" in capsys.readouterr().out


# --- a store that changes meanwhile ---------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One partition of some segments; the job takes one a task, and needs no Spark."""
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("a", config=kstore.LogConfig(segment_bytes=2000))[0]
        for n in range(300):
            log.append(b"value %d" % n * 3, key=b"%d" % n)
    monkeypatch.setattr(task_runner, "LEAST_TASK", 1)
    monkeypatch.setattr(task_runner, "MOST_TASK", 1)
    monkeypatch.setattr(partition_job, "check_executors", lambda *_: None)
    monkeypatch.setattr(partition_job, "cores", lambda spark: 2)
    return tmp_path / "data"


def logs(log_dir: Path) -> list[Path]:
    return sorted((log_dir / "a-0").glob("*.log"))


def merge(log_dir: Path, number: int = 0) -> None:
    """As compaction does: one file holds what two of them held."""
    first, second = logs(log_dir)[number : number + 2]
    both = first.with_suffix(".swap")
    both.write_bytes(first.read_bytes() + second.read_bytes())
    both.rename(first)
    second.unlink()


def in_order(
    monkeypatch: pytest.MonkeyPatch,
    order: Callable[[int], Sequence[int]],
    between: Callable[[], None],
) -> None:
    """Tasks are done here in an order of numbers; something happens where there is a -1."""

    def run_tasks(spark: Any, tasks: Sequence[Any], work: Any, text: str) -> Iterator[Any]:
        if "again" in text:
            yield from enumerate(map(work, tasks))
            return
        for number in order(len(tasks)):
            if number < 0:
                between()
            else:
                yield number, work(tasks[number])

    for module in (job, partition_job):
        monkeypatch.setattr(module, "run_tasks", run_tasks)


@pytest.mark.parametrize(
    "order",
    [
        lambda many: [*range(1, many), -1, 0],  # the second is walked twice
        lambda many: [0, -1, *range(1, many)],  # ... or not at all
        lambda many: [*range(many // 2, many), -1, *range(many // 2)],
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_compaction_meanwhile(
    alone: Path, monkeypatch: pytest.MonkeyPatch, order: Any, number: int
) -> None:
    in_order(monkeypatch, order, lambda: merge(alone, number))
    before = single(alone)[0]
    (report,) = job.stats(NO_SPARK, alone)
    assert report.ok
    assert report.stats in (before, single(alone)[0])  # of one moment
    assert report.stats.records == 300


def test_retention_meanwhile_is_reported_and_nothing_is_walked_again(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retain() -> None:
        for path in logs(alone)[:2]:
            path.unlink()

    in_order(monkeypatch, lambda many: [0, -1, *range(1, many)], retain)
    (report,) = job.stats(NO_SPARK, alone)
    assert report.stats.segments_gone == 1
    assert report.stats.records == 300 - report.stats.missing_offsets
    assert report.ok


def test_a_partition_that_always_changes_is_not_ok(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order(monkeypatch, lambda many: [*range(1, many), -1, 0], lambda: merge(alone))
    survey, walks = job.survey_segments, []

    def changing(files: Any, path: str, segments: Sequence[Any]) -> Stats:
        found = survey(files, path, segments)
        if len(segments) > 1:
            walks.append(len(segments))
            merge(alone)
        return found

    monkeypatch.setattr(job, "survey_segments", changing)
    state = tmp_path / "state.json"
    (report,) = job.stats(NO_SPARK, alone, resume=str(state))
    assert not report.ok
    assert "changed" in str(report.error)
    assert len(walks) == job.TRIES
    assert not state.exists() or not read_resume_file(state)


def test_a_partition_without_a_segment(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order(monkeypatch, range, lambda: None)
    for path in (alone / "a-0").iterdir():
        if path.suffix in (".log", ".index", ".timeindex"):
            path.unlink()
    (report,) = job.stats(NO_SPARK, alone, resume=str(tmp_path / "state"))
    assert (report.stats.segments, report.stats.segments_gone) == (0, 0)
    assert report.ok


# --- the file to resume from ----------------------------------------------------------------------


def interrupted(log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The report of the first run, which the file still holds."""
    monkeypatch.setattr(partition_job.ResumeFile, "end", lambda self: None)
    in_order(monkeypatch, range, lambda: None)
    (report,) = job.stats(NO_SPARK, log_dir, resume=str(state))
    assert list(read_resume_file(state)) == [report.path]
    assert report.from_file is None
    return report


def test_an_unchanged_partition_comes_from_the_resume_file(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interrupted(alone, tmp_path / "state", monkeypatch)
    (report,) = job.stats(NO_SPARK, alone, resume=str(tmp_path / "state"))
    assert report == before
    assert re.match(r"\d{4}-\d\d-\d\dT", report.from_file)
    tree = as_tree([report])
    assert tree["from_file"] == 1
    assert any("1 of them" in line and report.from_file in line for line in report_lines(tree))


def grown(log_dir: Path) -> None:
    with kstore.open(log_dir, config=QUIET) as store:
        store["a"][0].append(b"more")


def made_anew(log_dir: Path) -> None:
    """As a copy is made: the same bytes in other files, of another topic."""
    path = log_dir / "a-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAZQ")
    for each in logs(log_dir)[:1]:
        data = bytearray(each.read_bytes())
        data[-1:] = data[-1:]
        each.write_bytes(data)


def same_size(log_dir: Path) -> None:
    """Another file of the same size under the name of the first."""
    first = logs(log_dir)[0]
    other = first.with_suffix(".swap")
    data = bytearray(first.read_bytes())
    other.write_bytes(data)
    data[70] ^= 1
    write_damaged(other, data)
    other.rename(first)


def same_file(log_dir: Path) -> None:
    """Other bytes in the same file."""
    overwrite(log_dir / "a-0")


@pytest.mark.parametrize("change", [grown, merge, made_anew, same_size, same_file])
def test_a_changed_partition_is_walked_again(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    state = tmp_path / "state"
    interrupted(alone, state, monkeypatch)
    change(alone)
    (report,) = job.stats(NO_SPARK, alone, resume=str(state))
    assert report.from_file is None
    assert report.stats == single(alone)[0]


def changed_report(state: Path, change: Callable[[dict[str, Any]], None]) -> None:
    head, line = state.read_text().splitlines()
    entry = json.loads(line)
    (report,) = entry["done"].values()
    change(report["stats"])
    state.write_text(f"{head}\n{json.dumps(entry)}\n")


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda of: of.update(key_registers="!"),
        lambda of: of.update(key_registers=base64.b64encode(b"no zlib").decode()),
        lambda of: of.update(key_registers=packed(bytes(100))),
        lambda of: of.update(key_registers=packed(bytes(1 << 20))),
        lambda of: of["rates"].update(width=7),
        lambda of: of["rates"].update(windows=[[1]]),
        lambda of: of.pop("records"),
        lambda of: of.update(records="many"),
        lambda of: of.update(codecs=[]),
    ],
)
def test_a_broken_file_to_resume_from(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, change: Any
) -> None:
    state = tmp_path / "state"
    interrupted(alone, state, monkeypatch)
    changed_report(state, change)
    words = ["spark", "stats", "--dry-run", "--resume", str(state), "--log-dir", str(alone)]
    assert main(words) == 1
    printed = capsys.readouterr().err
    assert f"{state} is not a resume file" in printed
    assert "remove it" in printed


def test_a_last_line_that_was_not_written_completely(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    before = interrupted(alone, state, monkeypatch)
    write_damaged(state, state.read_bytes()[:-20])
    for _ in range(2):
        (report,) = job.stats(NO_SPARK, alone, resume=str(state))
        assert report == before
    assert report.from_file is not None
    assert list(read_resume_file(state)) == [report.path]
