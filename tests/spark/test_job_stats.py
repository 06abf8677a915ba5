"""``kstore spark stats``: one machine's figures, from tasks; resumed, damaged, and as a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.log.files import DISK
from kstore.log.stats import Stats, survey_log
from kstore.spark.jobs import running
from kstore.spark.jobs import stats as job
from kstore.spark.jobs.stats_page import html
from kstore.spark.jobs.stats_report import PartitionStats, as_tree, when
from support.jobs import make_store
from support.stores import snapshot


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of about two segments, so that parts of a partition come from several."""
    monkeypatch.setattr(running, "LEAST_TASK", 9000)
    monkeypatch.setattr(running, "MOST_TASK", 9000)


def single(path: Path) -> list[Stats]:
    with kstore.open(path, "r") as store:
        return [survey_log(DISK, log) for name in sorted(store) for log in store[name]]


def damage(path: Path) -> tuple[Path, int]:
    """Flip a bit of a record in the middle; its file and the batch's offset."""
    chosen = sorted((path / "orders-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[70] ^= 1
    chosen.write_bytes(data)
    return chosen, int(chosen.stem)


def test_the_same_as_on_one_machine(spark: Any, place: Path) -> None:
    before = snapshot(place)
    seen: list[tuple[int, int]] = []
    reports = job.stats(spark, place, progress=lambda done, total, name: seen.append((done, total)))
    assert [each.stats for each in reports] == single(place)
    assert [(each.topic, each.partition) for each in reports] == [
        ("clicks", 0), ("clicks", 1), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert all(each.ok and each.stats.segments > 3 for each in reports)
    assert seen[-1] == (sum(each.stats.bytes for each in reports),) * 2
    assert snapshot(place) == before


def test_damage_is_named_and_the_job_goes_on(spark: Any, place: Path, capsys: Any) -> None:
    chosen, offset = damage(place)
    assert main(["spark", "stats", "--log-dir", str(place)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(f"damaged: {chosen} position 0 offset {offset}: " in line for line in lines)
    assert lines[-1].startswith("4 partitions: 1 not ok")
    assert [each.stats for each in job.stats(spark, place)] == single(place)


def test_json_and_page(spark: Any, place: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    words = ["spark", "stats", "--json", "--html", str(page), "--log-dir", str(place)]
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
    spark: Any, place: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAST_TASK", "MOST_TASK"):  # one task: its partitions come in order
        monkeypatch.setattr(running, name, 1 << 20)
    damage(place)
    whole = job.stats(spark, place)
    state = tmp_path / "state.json"

    def stop(done: int, total: int, name: str) -> None:
        if name == "orders-0":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.stats(spark, place, resume=str(state), progress=stop)
    left = [each for each in whole if each.path not in json.loads(state.read_bytes())["done"]]
    assert [(each.topic, each.partition) for each in left] == [("orders", 1)]
    for each in whole[:3]:
        for path in Path(each.path).glob("*.log"):
            path.write_bytes(b"?" * 100)  # would be found if it were walked
    words = ["spark", "stats", "--resume", str(state), "--log-dir", str(place)]
    assert main([*words, "--dry-run"]) == 0
    stats = left[0].stats
    told = capsys.readouterr().out
    assert told == f"1 tasks would walk {stats.segments} segments, {stats.bytes:,} bytes\n"
    seen: set[str] = set()
    again = job.stats(
        spark, place, resume=str(state), progress=lambda done, total, name: seen.add(name)
    )
    assert again == whole
    assert seen == {"orders-1"}
    assert not state.exists()
    state.write_text('{"job": {"name": "verify"}, "done": {}}')
    assert main(words) == 1
    assert "of another job" in capsys.readouterr().err


def test_a_partition_that_goes_while_it_is_walked(
    spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = job._partitions

    def with_one_that_goes(paths: tuple[str, ...], topic: str | None) -> Any:
        places = found(paths, topic)
        (place / "clicks-1").rename(place / "clicks-9")
        return places

    monkeypatch.setattr(job, "_partitions", with_one_that_goes)
    reports = job.stats(spark, place)
    assert [each.stats.segments > 0 for each in reports] == [True, False, True, True]
    assert reports[1].stats.segments_gone > 3


def fail_on_orders(task: Any) -> Any:
    survey = job.survey_part

    def failing(files: Any, path: str, segments: Any) -> Any:
        if path.endswith("orders-0"):
            raise kstore.errors.StorageError("cannot read", path=path)
        return survey(files, path, segments)

    job.survey_part = failing
    try:
        return job._work(task)
    finally:
        job.survey_part = survey


def test_a_partition_whose_disk_fails(
    spark: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = job.run_tasks
    monkeypatch.setattr(
        job, "run_tasks",
        lambda spark, tasks, work, text: original(spark, tasks, fail_on_orders, text),
    )  # fmt: skip
    state = tmp_path / "state.json"
    reports = job.stats(spark, place, resume=str(state))
    assert [each.ok for each in reports] == [True, True, False, True]
    assert "cannot read" in str(reports[2].error)
    kept = json.loads(state.read_bytes())["done"]
    assert sorted(Path(path).name for path in kept) == ["clicks-0", "clicks-1", "orders-1"]
    monkeypatch.undo()
    assert [each.stats for each in job.stats(spark, place, resume=str(state))] == single(place)


def test_names_are_text_in_the_page_and_times_may_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = PartitionStats("<b>", 0, "/x", 0, Stats(), "<script>no</script>")
    text = html(as_tree([bad]))
    assert "<script>" not in text
    assert "<b>" not in text.replace("<b></b>", "")
    assert when(2**63 - 1) == f"{2**63 - 1} ms"
    assert when(0) == "1970-01-01T00:00:00.000Z"
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "matplotlib is not installed" in html(as_tree([bad]))


def test_mistakes(place: Path, capsys: Any) -> None:
    assert main(["spark", "stats", "--dry-run", "--topic", "x", "--log-dir", str(place)]) == 1
    assert "here are: clicks, orders" in capsys.readouterr().err
    assert main(["spark", "stats", "--help"]) == 0
    assert "HyperLogLog" in capsys.readouterr().out
