"""Spark's verify job reports keys of ``__consumer_offsets`` that do not decode, as the tool does.

Tasks run in this process, one after the other.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.spark.jobs import partition_job, task_runner
from kstore.spark.jobs import verify as job
from kstore.verify.partition import MAX_FINDINGS
from support.damage import write_damaged
from support.stores import QUIET

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")
NO_SPARK: Any = None
OFFSETS = "__consumer_offsets"
CUT_KEY = b"\x00\x01\x00\x09grou"  # of an offset commit, cut in the group's name
SEGMENTS = 4
audited: list[int] = []  # segments of each range that a task audits


def run_here(spark: Any, tasks: Any, work: Any, description: str) -> Iterator[Any]:
    for number, task in enumerate(tasks):
        found = work(task)
        audited.extend(each.segments.report.segments for each in found)
        yield number, found


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    audited.clear()
    monkeypatch.setattr(task_runner, "LEAST_TASK", 1)
    monkeypatch.setattr(task_runner, "MOST_TASK", 1)
    for module in (partition_job, job):
        monkeypatch.setattr(module, "run_tasks", run_here)
        monkeypatch.setattr(module, "cores", lambda spark: 2)
    monkeypatch.setattr(partition_job, "check_executors", lambda *_: None)


def fill(path: Path, undecodable: int = 1) -> Path:
    """Commits in several segments, each with so many records whose key does not decode."""
    with kstore.open(path, config=QUIET) as store:
        store.create_topic("t").append(b"1")
        with store.consumer("t", group="g") as consumer:
            consumer.poll()
            consumer.commit()
            log = next(log for log in store[OFFSETS] if log.end_offset)
            for _ in range(SEGMENTS):
                log.extend([kstore.Record(0, 1, CUT_KEY, b"x")] * undecodable)
                consumer.commit({("t", 0): 1})
                log.roll()
        return Path(log.path)


def of_tool(path: Path, capsys: Any) -> tuple[int, dict[str, Any]]:
    status = main(["verify", "--json", "--log-dir", str(path)])
    return status, json.loads(capsys.readouterr().out)


def of_job(path: Path) -> dict[str, Any]:
    reports = job.verify(NO_SPARK, path)
    return json.loads(json.dumps(job.as_tree(reports)))


def warnings_in(tree: dict[str, Any]) -> list[int]:
    return [each["offset"] for found in tree["partitions"] for each in found["warnings"]]


def test_the_job_reports_each_key_that_does_not_decode_once_as_the_tool_does(
    tmp_path: Path, capsys: Any
) -> None:
    fill(tmp_path)
    status, wanted = of_tool(tmp_path, capsys)
    assert (status, warnings_in(wanted)) == (3, [1, 3, 5, 7])
    assert of_job(tmp_path) == wanted
    assert audited.count(1) > SEGMENTS  # ranges of one segment each


def test_keys_below_the_log_start_are_not_reported(tmp_path: Path, capsys: Any) -> None:
    folder = fill(tmp_path)
    number = folder.name.rpartition("-")[2]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{OFFSETS} {number} 2\n")
    _, wanted = of_tool(tmp_path, capsys)
    assert warnings_in(wanted) == [3, 5, 7]
    assert of_job(tmp_path) == wanted


def test_more_keys_than_a_report_lists_are_counted(tmp_path: Path, capsys: Any) -> None:
    fill(tmp_path, MAX_FINDINGS)
    _, wanted = of_tool(tmp_path, capsys)
    (counted,) = (each for each in wanted["partitions"] if each["warning_count"])
    assert counted["warning_count"] == SEGMENTS * MAX_FINDINGS
    assert of_job(tmp_path) == wanted


def test_of_a_partition_with_findings_no_key_is_reported(tmp_path: Path, capsys: Any) -> None:
    """Its records may not be readable; also where only one of its ranges is damaged."""
    log = sorted(fill(tmp_path).glob("*.log"))[2]
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    write_damaged(log, data)
    status, wanted = of_tool(tmp_path, capsys)
    assert (status, warnings_in(wanted)) == (1, [])
    assert of_job(tmp_path) == wanted


def test_keys_are_reported_where_a_partition_is_audited_again_as_a_unit(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    _, wanted = of_tool(tmp_path, capsys)
    monkeypatch.setattr(job, "merge_reports", lambda parts: None)
    assert of_job(tmp_path) == wanted
