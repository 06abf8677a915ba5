"""Kafka's own log loader, in-process, over directories that kstore left and that it loads too.

What the loader says is heard: its words while it opens a log, and what it then knows.
"""

import itertools
import shutil
import time
from pathlib import Path

import kstore
from interop.kafka_jars import ask_segments
from interop.test_segments import kafkas_settings
from kafka_files.data_sets import unpack
from kstore.log.log import Log
from oracle.files import read_offset_checkpoint
from support.logs import open_log
from support.producers import NOW, sent

LOADING = "warn,kafka.log=info,org.apache.kafka.storage.internals.log=info"
SMALL: dict[str, object] = {"producer_id_expiration_ms": 86_400_000}


def busy(directory: Path) -> list[int]:
    """Four segments of batches of three records, with producers that come and go; their bases.

    Each segment has one producer of its own, one that ends its transaction, one that leaves it
    open, and one that writes in all of them.
    """
    log = opened(directory)
    for turn in range(4):
        log.append_as_leader(sent(100 + turn, 0, 0, 3))
        log.append_as_leader(sent(1, 0, 3 * turn, 3))
        log.append_as_leader(sent(200 + turn, 0, 0, 3, transactional=True))
        log.append_end_marker(200 + turn, 0, commit=turn % 2 == 0, coordinator_epoch=turn)
        log.append_as_leader(sent(300 + turn, turn, 0, 3, transactional=True))
        if turn < 3:
            log.roll()
    bases = [view.base_offset for view in log.segments.views]
    log.close()
    return bases


def opened(directory: Path, **found: int | bool) -> Log:
    return open_log(directory, clock=lambda: NOW, **SMALL, **found)


def said_of(log: Log) -> str:
    """As the Java program describes a log."""
    bases = ",".join(str(view.base_offset) for view in log.segments.views)
    producers = [
        f"{each.producer_id}:{each.producer_epoch}:{each.last_sequence}:{each.coordinator_epoch}"
        f":{each.current_transaction_first_offset}"
        for each in sorted(log.producers())
    ]
    return f"{bases};{log.start_offset};{log.end_offset};{','.join(producers)}"


def test_producers_after_an_unclean_stop(kafka: str, tmp_path: Path) -> None:
    """Whatever recovery point and log start the checkpoints give: which snapshot counts, and from
    where the log is replayed. Batches below the log start, and producers of segments that are
    gone, are known or forgotten as Kafka has it."""
    bases = busy(tmp_path / "made-0")
    end = bases[-1] + 13
    starts = [0, bases[1], bases[1] + 1, bases[2] + 7, bases[3], bases[3] + 4, end]
    points = [0, bases[1], bases[2] + 7, bases[3], end]
    lines, ours, names = [], [], []
    for number, (start, point, gone) in enumerate(itertools.product(starts, points, (0, 1, 2))):
        if gone and start < bases[gone] and start > 0:
            continue  # a segment goes when the log start has passed it; its checkpoint may be old
        whose = [tmp_path / f"{who}{number}" / "t-0" for who in ("kafka", "ours")]
        for directory in whose:
            shutil.copytree(tmp_path / "made-0", directory)
            for base in bases[:gone]:
                for path in directory.glob(f"{base:020}.*"):
                    path.unlink()
        lines.append(f"load {whose[0]} {kafkas_settings(kafka, {})} false {start} {point} {NOW}")
        log = opened(whose[1], clean=False, recovery_point=point, log_start_offset=start)
        ours.append(said_of(log))
        log.close()
        names.append((start, point, gone))
    kafkas, _ = ask_segments(kafka, lines, LOADING)
    assert len(set(kafkas)) > 10
    wrong = [
        (where, theirs, our)
        for where, theirs, our in zip(names, kafkas, ours, strict=True)
        if theirs != our
    ]
    assert wrong[:3] == [], f"{len(wrong)} of {len(names)}"


MADE = ("zk-0.8.2.2", "zk-0.10.2.2", "zk-2.8.2", "kraft-4.3.0-clean")


def indexes_of(log_dir: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in log_dir.glob("*/*index")}


def test_kafkas_loader_agrees_with_kstore_about_closed_directories(tmp_path: Path) -> None:
    """Directories of brokers from 0.8.2 to 4.3, opened for appending, half of the partitions
    appended to, and closed: the loader of 3.9.2 trusts every file of them."""
    now = time.time_ns() // 1_000_000
    lines, ours, kept = [], [], {}
    for name in MADE:
        log_dir = unpack(f"made-{name}", tmp_path / name) / "log-dir"
        with kstore.open(log_dir) as store:
            logs = [log for topic in store for log in store[topic]]
            for log in logs[::2]:
                if not log.topic.startswith("__"):
                    log.append(b"value", key=b"key", timestamp=now)
            expected = [(f"{log.topic}-{log.partition}", said_of(log)) for log in logs]
        assert (log_dir / ".kafka_cleanshutdown").exists()
        starts, points = (
            read_offset_checkpoint((log_dir / f"{what}-offset-checkpoint").read_text())
            if (log_dir / f"{what}-offset-checkpoint").exists()
            else {}
            for what in ("log-start", "recovery-point")
        )
        for partition, said in expected:
            topic, _, number = partition.rpartition("-")
            key = topic, int(number)
            found = f"{starts.get(key, 0)} {points.get(key, 0)}"
            settings = kafkas_settings("3.9.2", {})
            lines.append(f"load {log_dir / partition} {settings} true {found} {now}")
            ours.append(said)
        kept |= indexes_of(log_dir)
    kafkas, words = ask_segments("3.9.2", lines, LOADING)
    assert len(lines) > 40
    assert [pair for pair in zip(kafkas, ours, strict=True) if pair[0] != pair[1]] == []
    assert words.count("Loading producer state till offset") == len(lines)
    bad = (" WARN ", " ERROR ", "ebuilding index", "Recovering")
    assert [line for line in words.splitlines() if any(each in line for each in bad)] == []
    for log_dir in tmp_path.glob("*/log-dir"):
        assert {path: kept[path] for path in indexes_of(log_dir)} == indexes_of(log_dir)
