"""Jobs continue from the resume files of an older kstore; tasks run here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.spark.jobs import (
    compact,
    convert,
    partition_job,
    recompress,
    reindex,
    restore,
    restore_driver,
    restore_plan,
    stats,
    verify,
)
from kstore.spark.jobs.resume_file import ResumeFile
from support.spark_state import unpack_spark_state
from support.stores import QUIET
from support.tasks_here import NO_SPARK, use_tasks_here

JOBS: dict[str, Callable[..., Any]] = {
    "verify": verify.verify,
    "stats": stats.stats,
    "compact": compact.compact,
    "reindex": reindex.reindex,
    "recompress": lambda *given, **more: recompress.recompress(
        *given, "zstd", topic="accounts", **more
    ),
    "convert": lambda *given, **more: convert.convert(*given, topic="accounts", **more),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    modules = (
        partition_job,
        compact,
        reindex,
        restore,
        restore_driver,
        restore_plan,
        stats,
        verify,
    )
    use_tasks_here(monkeypatch, *modules)
    return unpack_spark_state(tmp_path)


def records(folder: Path) -> list[int]:
    with kstore.open(folder, "r") as store:
        return [sum(1 for _ in log) for log in store["events"]]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_continues_from_an_older_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Reports in it load; partitions are done again, for it has not the times of their files."""
    monkeypatch.setattr(ResumeFile, "end", ResumeFile.close)
    state = str(folder / f"{name}.json")
    before = Path(state).read_text()
    first = JOBS[name](NO_SPARK, folder / "store", resume=state)
    assert first
    assert [each.from_file for each in first] == [None] * len(first)
    assert Path(state).read_text().startswith(before)  # it was read, and grows
    again = JOBS[name](NO_SPARK, folder / "store", resume=state)
    assert all(each.from_file is not None for each in again)
    assert again == first


@pytest.mark.parametrize("name", ["exact", "anew"])
def test_a_restore_continues_from_an_older_file(folder: Path, name: str) -> None:
    def run() -> Any:
        return restore.restore(
            NO_SPARK,
            folder / name,
            log_dirs=folder / "store",
            topic="events",
            keep_offsets=name == "exact",
            resume=str(folder / f"restore-{name}.json"),
        )

    before = run()
    assert [each.records for each in before] == [25, 25]
    assert records(folder / name) == [25, 25]
    with kstore.open(folder / "store", config=QUIET) as store:
        store["events"][0].append(b"more")
    assert [each.records for each in run()] == [26, 25]
    assert records(folder / name) == [26, 25]
