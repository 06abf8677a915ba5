"""``kstore spark export``: Spark reads back what the log has; a run continues where one stopped."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.errors import InvalidConfigError, StorageError
from kstore.spark import read
from kstore.spark.jobs import export as job
from kstore.spark.jobs.export_target import FOLDER
from support.stores import QUIET

DAY = 86_400_000
FIRST = 1_700_000_000_000 // DAY * DAY


def fill(store: Any, first: int, count: int) -> None:
    for log in store["orders"]:
        log.extend(
            [
                kstore.Record(
                    0,
                    FIRST + n * DAY // 400,
                    None if n % 5 == 0 else b"key %d" % (n % 50),
                    None if n % 7 == 0 else b"value %d" % n * 3,
                    tuple((f"h{k}", None if k else b"v") for k in range(n % 3)),
                )
                for n in range(first, first + count)
            ]
        )


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    settings = kstore.LogConfig(segment_bytes=8000, batch_compression="zstd")
    with kstore.open(path, config=QUIET) as store:
        store.create_topic("orders", 2, config=settings)
        store.create_topic("clicks", 1)[0].extend([b"click"] * 10)
        fill(store, 0, 1000)
    return path


def compared(spark: Any, log_dir: Path, target: Path, **options: Any) -> int:
    """How many rows there are, after Spark has seen the same ones in both."""
    columns = [
        "key",
        "value",
        "headers",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    ours = spark.read.parquet(str(target)).select(columns)
    theirs = read(spark, log_dir, headers=True, **options).select(columns)
    assert ours.schema == theirs.schema
    assert ours.exceptAll(theirs).count() == 0
    assert theirs.exceptAll(ours).count() == 0
    return int(ours.count())


def test_spark_reads_back_the_same(registered: Any, log_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    report = job.export(registered, log_dir, target, file_size=9000)
    assert compared(registered, log_dir, target, pattern=".*") == report.records == 2010
    assert report.files == len(list(target.glob("topic=*/date=*/*.parquet"))) > 6
    assert set(report.topics) == {"orders", "clicks"}
    dates = registered.read.parquet(str(target)).selectExpr("date = to_date(timestamp) same")
    assert [row["same"] for row in dates.distinct().collect()] == [True]
    assert list((target / FOLDER / "staged").iterdir()) == []


def test_the_next_run_exports_the_new_records(
    registered: Any, log_dir: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    first = job.export(registered, log_dir, target, topic="orders", until=FIRST + DAY)
    assert first.records == 800
    kept = {each: each.read_bytes() for each in target.rglob("*.parquet")}
    with kstore.open(log_dir, config=QUIET) as store:
        fill(store, 1000, 300)
    assert (
        job.export(registered, log_dir, target, topic="orders", since=FIRST + 2 * DAY).records
        == 1000
    )
    assert job.export(registered, log_dir, target, topic="orders").records == 800
    assert job.export(registered, log_dir, target, topic="orders").files == 0
    assert compared(registered, log_dir, target, topics="orders") == 2600
    assert {each: each.read_bytes() for each in kept} == kept


def test_a_run_that_was_killed_continues(
    registered: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"

    class KilledError(Exception):
        pass

    def kill(done: int, total: int, name: str) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        job.export(registered, log_dir, target, topic="orders", file_size=4000, progress=kill)
    some = compared_files(target)
    assert some
    report = job.export(registered, log_dir, target, topic="orders", file_size=4000)
    assert 0 < report.records < 2000
    assert compared(registered, log_dir, target, topics="orders") == 2000
    assert some < compared_files(target)


def compared_files(target: Path) -> set[str]:
    return {str(each) for each in target.glob("topic=*/date=*/*.parquet")}


@pytest.mark.slow
def test_an_export_continues_after_its_driver_died(
    registered: Any, log_dir: Path, tmp_path: Path
) -> None:
    """The process itself, JVM and workers included, in the middle of renaming."""
    target = tmp_path / "out"
    code = """
import os, sys
from kstore.files.files import Files
from kstore.spark.jobs import export as job
from kstore.spark.jobs.task_runner import open_session
rename, seen = Files.rename, []
def dying(self, source, target):
    rename(self, source, target)
    seen.append(target)
    if sum(each.endswith(".parquet") for each in seen) == 3:
        os.kill(os.getpid(), 9)
Files.rename = dying
with open_session("local[2]") as spark:
    job.export(spark, sys.argv[1], sys.argv[2], topic="orders", file_size=4000)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(log_dir), str(target)],
        capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr[-2000:]
    assert len(compared_files(target)) == 3
    job.export(registered, log_dir, target, topic="orders")
    assert compared(registered, log_dir, target, topics="orders") == 2000


def test_export_runs_as_a_command(
    registered: Any, log_dir: Path, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / "out"
    words = [
        "spark",
        "export",
        "--log-dir",
        str(log_dir),
        "--target",
        str(target),
        "--topic",
        "orders",
    ]
    assert main([*words, "--dry-run"]) == 0
    assert "2,000 offsets" in capsys.readouterr().out
    assert not target.exists()
    assert main([*words, "--json", "--compression", "zstd", "--since", str(FIRST + DAY)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["records"] == report["topics"]["orders"]["records"] == 1200
    assert main([*words, "--since", "2000-01-01T00:00Z"]) == 0
    assert "orders: 800 records in" in capsys.readouterr().out
    assert main([*words, "--dry-run"]) == 0
    assert "0 offsets" in capsys.readouterr().out
    for wrong, message in (
        (["--since", "yesterday"], "not 'yesterday'"),
        (["--since", "2024-13-01"], "not '2024-13-01'"),
        (["--topic", "x"], "no topic matches x"),
        (["--file-size", "0"], "a whole number from 1"),
    ):
        assert main([*words, *wrong]) == 1
        assert message in capsys.readouterr().err


def test_invalid_arguments_of_an_export_are_errors(
    registered: Any, log_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfigError, match="snappy"):
        job.export(registered, log_dir, tmp_path / "out", compression="brotli")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        job.export(registered, log_dir, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b""
