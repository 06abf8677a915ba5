"""``kstore spark compact``: byte for byte what one machine's compaction makes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.files.filenames import REWRITE_PREFIX
from kstore.log.writer_state import WriterState
from kstore.spark.jobs import compact as job
from support.damage import write_damaged
from support.jobs import driver_dies_in_swap, fill, logs, side_files
from support.stores import QUIET
from support.transactions import WHEN

NOW = WHEN + 86_400_000


@pytest.fixture(autouse=True)
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Horizons of deletion are written into batches: both sides have to see the same time."""
    monkeypatch.setattr(WriterState, "now_ms", lambda self: NOW)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    config = kstore.LogConfig(
        segment_bytes=4000, index_interval_bytes=300, file_delete_delay_ms=0,
        cleanup_policy="compact",
    )  # fmt: skip
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        accounts = store.create_topic("accounts", 3, config=config)
        for number, log in enumerate(accounts):
            for n in range(200):
                value = None if n % 9 == 4 else b"balance %d" % n * 3
                log.append(value, key=b"%d" % (n * 7 % (20 + number)), timestamp=WHEN + n)
            if number == 2:
                fill(log, 30)
            log.flush()
        store.create_topic("others").append(b"stays")
    return tmp_path / "data"


def on_one_machine(log_dir: Path, copy: Path, **options: Any) -> list[Any]:
    shutil.copytree(log_dir, copy)
    reports = []
    with kstore.open(copy, config=QUIET) as store:
        for log in store["accounts"]:
            report = log.compact(**options)
            reports.append(
                (report.records_read, report.records_kept, report.end_offset, report.passes)
            )
    return reports


def have_same_files(log_dir: Path, other: Path) -> bool:
    name = "cleaner-offset-checkpoint"
    return (
        logs(log_dir) == logs(other)
        and side_files(log_dir) == side_files(other)
        and (log_dir / name).read_bytes() == (other / name).read_bytes()
    )


def leftover_files(log_dir: Path) -> list[Path]:
    return [
        *log_dir.rglob(REWRITE_PREFIX + "*"),
        *log_dir.rglob("*.cleaned"),
        *log_dir.rglob("*.swap"),
    ]


@pytest.mark.parametrize("buffer", [134_217_728, 400])  # one round, and several
def test_compact_writes_the_same_files_as_on_one_machine(
    spark: Any, log_dir: Path, tmp_path: Path, capsys: Any, buffer: int
) -> None:
    expected = on_one_machine(log_dir, tmp_path / "alone", dedupe_buffer_size=buffer)
    words = ["--json", "--dedupe-buffer-size", str(buffer), "--log-dir", str(log_dir)]
    assert main(["spark", "compact", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    names = ("records_read", "records_kept", "end_offset", "passes")
    found = [tuple(each[name] for name in names) for each in tree["partitions"]]
    assert found == expected
    assert all(read > kept for read, kept, *_ in found)
    assert any(each["passes"] > 1 for each in tree["partitions"]) == (buffer == 400)
    assert have_same_files(log_dir, tmp_path / "alone")
    assert not leftover_files(log_dir)
    with kstore.open(log_dir, "r") as store:
        assert all(log.verify().ok for log in store["accounts"])


def fail_once(task: Any) -> Any:
    """The first attempt of each task dies when all of its work is staged."""
    mark = Path(task.paths[0]).parent / f"failed-{Path(task.plan.path).name}"
    if not mark.exists():
        mark.touch()
        job._run_round(task)
        raise RuntimeError("this attempt dies")
    return job._run_round(task)


def test_a_retried_task_leaves_the_same_files(
    spark: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_one_machine(log_dir, tmp_path / "alone")
    original = job.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(spark, tasks, fail_once if given is job._run_round else given, description)

    monkeypatch.setattr(job, "run_tasks", run)
    assert all(each.ok for each in job.compact(spark, log_dir))
    assert len(list(tmp_path.glob("failed-*"))) == 3
    assert have_same_files(log_dir, tmp_path / "alone")
    assert not leftover_files(log_dir)


def test_a_driver_killed_between_two_swaps(
    spark: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = latest_of(log_dir)
    crash = tmp_path / "crash"
    with driver_dies_in_swap(monkeypatch, 4, log_dir, crash):
        job.compact(spark, log_dir)
    assert latest_of(crash) == latest
    assert all(each.ok for each in job.compact(spark, crash))
    assert latest_of(crash) == latest
    assert not leftover_files(crash)


def latest_of(log_dir: Path) -> dict[tuple[int, bytes], bytes | None]:
    with kstore.open(log_dir, "r") as store:
        found = {
            (log.partition, record.key): record.value
            for log in store["accounts"]
            for record in log.view(isolation="read_committed")
        }
    return {key: value for key, value in found.items() if value is not None}


def test_damage_and_nothing_to_do(spark: Any, log_dir: Path, capsys: Any) -> None:
    chosen = sorted((log_dir / "accounts-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[80] ^= 1
    write_damaged(chosen, data)
    before = {name: data for name, data in logs(log_dir).items() if "accounts-1" in name}
    assert main(["spark", "compact", "--log-dir", str(log_dir)]) == 1
    said = capsys.readouterr().out
    assert f"file {chosen}, position 0" in said
    assert said.splitlines()[-1] == "3 partitions: 1 not ok"
    after = logs(log_dir)
    assert {name: after[name] for name in before} == before
    assert (
        main(["spark", "compact", "--dry-run", "--topic", "others", "--log-dir", str(log_dir)]) == 1
    )
    assert "cleanup.policy" in capsys.readouterr().err
    assert main(["spark", "compact", "--dry-run", "--log-dir", str(log_dir)]) == 0
    assert "3 tasks" in capsys.readouterr().out
