"""``kstore spark restore`` as a command and over Spark; its decisions are in tests/unit."""

import json
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.spark.jobs import export, restore_driver, restore_plan
from kstore.spark.jobs import restore as job
from support.jobs import make_store


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_plan, "_CHUNK", 9000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    make_store(tmp_path / "source", partitions=2)
    return tmp_path / "source"


def records_of(log_dir: Path) -> dict[str, list[tuple[Any, ...]]]:
    with kstore.open(log_dir, "r") as store:
        return {
            f"{name}-{log.partition}": [
                (r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                for r in log.view(isolation="read_committed")
            ]
            for name in store
            for log in store[name]
        }


def test_from_a_directory(source: Path, spark: Any, tmp_path: Path, capsys: Any) -> None:
    words = ["--from", str(source), "--log-dir", str(tmp_path / "to"), "--keep-offsets"]
    assert main(["spark", "restore", "--dry-run", *words]) == 0
    assert "4 partitions" in capsys.readouterr().out
    assert not (tmp_path / "to").exists()
    assert main(["spark", "restore", "--json", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    expected = records_of(source)
    assert records_of(tmp_path / "to") == expected
    assert sum(each["records"] for each in tree["partitions"]) == sum(map(len, expected.values()))
    assert main(["spark", "restore", *words]) == 1
    assert "must be empty" in capsys.readouterr().err


def fail_once(task: Any) -> Any:
    """The first attempt of each task dies when its work is staged."""
    chunk, encoding = task
    name = f"failed-{chunk.topic}-{chunk.partition}-{chunk.number}"
    mark = Path(encoding.log_dirs[0]).parent / name
    if not mark.exists():
        mark.touch()
        restore_driver.encode(task)
        raise RuntimeError("this attempt dies")
    return restore_driver.encode(task)


def test_parquet_that_spark_wrote_and_tasks_that_are_tried_again(
    source: Path, registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kstore.spark import read

    frame = read(registered, source, topics="clicks", headers=True)
    frame.repartition(3).write.partitionBy("topic").parquet(str(tmp_path / "export"))
    original = restore_driver.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(
            spark, tasks, fail_once if given is restore_driver.encode else given, description
        )

    monkeypatch.setattr(restore_driver, "run_tasks", run)
    job.restore(registered, tmp_path / "to", parquet=str(tmp_path / "export"))
    assert list(tmp_path.glob("failed-clicks-*"))
    expected = {
        name: rows for name, rows in records_of(source).items() if name.startswith("clicks")
    }
    assert records_of(tmp_path / "to") == expected


def test_a_restored_export_has_the_same_records(source: Path, spark: Any, tmp_path: Path) -> None:
    """Offsets, times, keys, values and headers, gaps of transactions and all."""
    lake = tmp_path / "lake"
    export.export(spark, source, lake, isolation="read_committed", file_size=5000)
    assert len(list(lake.glob("topic=*/date=*/*.parquet"))) > 8
    reports = job.restore(spark, tmp_path / "to", parquet=str(lake), keep_offsets=True)
    expected = records_of(source)
    assert records_of(tmp_path / "to") == expected
    assert sum(each.records for each in reports) == sum(map(len, expected.values())) > 0
    with kstore.open(tmp_path / "to", "r") as store:
        assert all(log.verify().ok for name in store for log in store[name])
