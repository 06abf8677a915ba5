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
def place(tmp_path: Path) -> Path:
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


def on_one_machine(place: Path, copy: Path, **options: Any) -> list[Any]:
    shutil.copytree(place, copy)
    reports = []
    with kstore.open(copy, config=QUIET) as store:
        for log in store["accounts"]:
            report = log.compact(**options)
            reports.append(
                (report.records_read, report.records_kept, report.end_offset, report.passes)
            )
    return reports


def same(place: Path, other: Path) -> bool:
    name = "cleaner-offset-checkpoint"
    return (
        logs(place) == logs(other)
        and side_files(place) == side_files(other)
        and (place / name).read_bytes() == (other / name).read_bytes()
    )


def left(place: Path) -> list[Path]:
    return [*place.rglob(REWRITE_PREFIX + "*"), *place.rglob("*.cleaned"), *place.rglob("*.swap")]


@pytest.mark.parametrize("buffer", [134_217_728, 400])  # one round, and several
def test_what_one_machine_makes(
    spark: Any, place: Path, tmp_path: Path, capsys: Any, buffer: int
) -> None:
    told = on_one_machine(place, tmp_path / "alone", dedupe_buffer_size=buffer)
    words = ["--json", "--dedupe-buffer-size", str(buffer), "--log-dir", str(place)]
    assert main(["spark", "compact", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    names = ("records_read", "records_kept", "end_offset", "passes")
    found = [tuple(each[name] for name in names) for each in tree["partitions"]]
    assert found == told
    assert all(read > kept for read, kept, *_ in found)
    assert any(each["passes"] > 1 for each in tree["partitions"]) == (buffer == 400)
    assert same(place, tmp_path / "alone")
    assert not left(place)
    with kstore.open(place, "r") as store:
        assert all(log.verify().ok for log in store["accounts"])


def fail_once(task: Any) -> Any:
    """The first attempt of each task dies when all of its work is staged."""
    mark = Path(task.paths[0]).parent / f"failed-{Path(task.plan.path).name}"
    if not mark.exists():
        mark.touch()
        job._work(task)
        raise RuntimeError("this attempt dies")
    return job._work(task)


def test_a_task_that_is_tried_again(
    spark: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_one_machine(place, tmp_path / "alone")
    original = job.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(spark, tasks, fail_once if given is job._work else given, description)

    monkeypatch.setattr(job, "run_tasks", run)
    assert all(each.ok for each in job.compact(spark, place))
    assert len(list(tmp_path.glob("failed-*"))) == 3
    assert same(place, tmp_path / "alone")
    assert not left(place)


def test_a_driver_killed_between_two_swaps(
    spark: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = latest_of(place)
    crash = tmp_path / "crash"
    with driver_dies_in_swap(monkeypatch, 4, place, crash):
        job.compact(spark, place)
    assert latest_of(crash) == latest
    assert all(each.ok for each in job.compact(spark, crash))
    assert latest_of(crash) == latest
    assert not left(crash)


def latest_of(place: Path) -> dict[tuple[int, bytes], bytes | None]:
    with kstore.open(place, "r") as store:
        found = {
            (log.partition, record.key): record.value
            for log in store["accounts"]
            for record in log.view(isolation="read_committed")
        }
    return {key: value for key, value in found.items() if value is not None}


def test_damage_and_nothing_to_do(spark: Any, place: Path, capsys: Any) -> None:
    chosen = sorted((place / "accounts-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[80] ^= 1
    write_damaged(chosen, data)
    before = {name: data for name, data in logs(place).items() if "accounts-1" in name}
    assert main(["spark", "compact", "--log-dir", str(place)]) == 1
    said = capsys.readouterr().out
    assert f"file {chosen}, position 0" in said
    assert said.splitlines()[-1] == "3 partitions: 1 not ok"
    after = logs(place)
    assert {name: after[name] for name in before} == before
    assert (
        main(["spark", "compact", "--dry-run", "--topic", "others", "--log-dir", str(place)]) == 1
    )
    assert "cleanup.policy" in capsys.readouterr().err
    assert main(["spark", "compact", "--dry-run", "--log-dir", str(place)]) == 0
    assert "3 tasks" in capsys.readouterr().out
