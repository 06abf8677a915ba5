"""A real broker writes and is stopped or killed; kstore opens a copy of what it left.

The judge is the same broker: what its consumers said before a clean stop, and what they say
after it recovered the same directory by itself.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from interop.clients import Clients, clients
from interop.compare_with_kafka import (
    Judged,
    assert_same_producers,
    assert_same_records,
    assert_same_transactions,
    take_over_markers,
)
from interop.node import Node
from interop.workload import PARTITIONS, SEGMENT, prepare, work
from oracle.reader import read_log

# What a judge cleans or deletes while it speaks is not what kstore was given.
JUDGING = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": 600_000}


class Stage:
    """A node under work, and copies of its directory."""

    def __init__(self, version: str, root: Path, java: Clients) -> None:
        self.node = Node(version, root)
        self.node.settings = {"log.cleaner.backoff.ms": 200}
        self.java = java
        self._root = root
        self._copies = 0

    def start(self) -> None:
        if not self.node.running:
            self.node.start()
            self.java.use(self.node)

    def copy(self) -> Path:
        """The directory as it is now; the broker must be down."""
        self._copies += 1
        target = self._root / f"copy-{self._copies}"
        shutil.copytree(self.node.log_dir, target)
        return target


@pytest.fixture(scope="module")
def stage(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("we-read-them")
    with clients(kafka, root) as java:
        made = Stage(kafka, root, java)
        try:
            made.start()
            prepare(java)
            yield made
        finally:
            made.node.kill()


def folders(log_dir: Path) -> list[str]:
    """Every partition that clients may read: the coordinators' too, not KRaft's own."""
    return sorted(p.name for p in log_dir.iterdir() if p.is_dir() and "metadata" not in p.name)


def assert_agrees(log_dir: Path, consumed: dict[str, Judged], judge_left: Path | None) -> int:
    """kstore says of the directory what Kafka said, as a reader and as a writer.

    Judge_left is the directory after the broker's own recovery of its copy: the markers that its
    coordinator added there are appended first. Returns how many those were.
    """
    added = 0
    for mode in ("r", "a") if judge_left is None else ("a", "r"):
        with kstore.open(log_dir, mode=mode) as store:
            for name, partition in consumed.items():
                topic, _, number = name.rpartition("-")
                log = store[topic][int(number)]
                if judge_left is not None and mode == "a":
                    assert log.recovery is not None, name
                    added += take_over_markers(log, judge_left / name, partition)
                assert_same_records(log, partition)
                assert_same_transactions(log, partition)
                assert_same_producers(log, partition)
                log.verify().raise_if_corrupt()
    return added


def judge(stage: Stage, names: list[str]) -> dict[str, Judged]:
    """The broker opens its directory, speaks, and stops; it cleans and deletes nothing."""
    stage.node.settings |= JUDGING
    stage.start()
    consumed = stage.java.look(names)
    stage.node.stop()
    for name in JUDGING:
        del stage.node.settings[name]
    return consumed


def test_kstore_reads_the_directory_of_a_stopped_broker(stage: Stage) -> None:
    stage.start()
    work(stage.java, 1)
    work(stage.java, 2)
    names = folders(stage.node.log_dir)
    assert set(PARTITIONS) < set(names)
    stage.node.stop()
    left = stage.copy()
    assert_agrees(left, judge(stage, names), None)


BURSTS = (  # name, topic, partition, records in a transaction, settings
    ("none", "codecs", 0, 0, {"enable_idempotence": "false"}),
    ("lz4", "codecs", 3, 0, {"compression_type": "lz4"}),
    ("stamped", "append-time", 0, 0, {}),
    ("committing", "transactions", 0, 7, {"transactional_id": "committing"}),
    ("compacting", "compacted", 0, 20, {"transactional_id": "compacting"}),
)


def spoil(log_dir: Path, random: Random) -> dict[str, str]:
    """Do to the ends of some partitions what a power cut might; what, of those it shortened.

    Bytes without a batch after the last one, a last batch that is cut, and one that has a wrong
    bit: recovery goes back to the batch before.
    """
    shortened = {}
    for name in ("codecs-0", "codecs-2", "codecs-4", "transactions-0", "append-time-0"):
        path = max((log_dir / name).glob("*.log"))
        batches = read_log(path.read_bytes(), decode=False).batches
        how = random.choice(("zeros", "garbage", "cut", "bit"))
        with path.open("r+b") as file:
            if how in ("zeros", "garbage") or not batches:
                file.seek(0, os.SEEK_END)
                file.write(bytes(5000) if how == "zeros" else random.randbytes(3000))
                continue
            at = random.randrange(1 + 21 * (how == "bit"), batches[-1].size)
            shortened[name] = f"{how} at {at} of {batches[-1]}"
            if how == "cut":
                file.truncate(batches[-1].position + at)
                continue
            file.seek(batches[-1].position + at)
            (byte,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes((byte ^ 1 << random.randrange(8),)))
    return shortened


@pytest.mark.parametrize("corrupted", [False, True], ids=["killed", "corrupted"])
def test_kstore_recovers_the_directory_of_a_killed_broker_as_the_broker_does(
    stage: Stage, corrupted: bool
) -> None:
    """SIGKILL while five producers write as fast as they can, at a random moment."""
    stage.start()
    seed = 20 + corrupted
    work(stage.java, seed)
    for name, topic, partition, transaction, settings in BURSTS:
        stage.java.producer(name, batch_size=SEGMENT // 2, linger_ms=0, **settings)
        stage.java.burst(name, topic, f"{name}-{seed}-", partition, transaction)
    deadline = time.monotonic() + 120
    while not all(stage.java.acked(name) for name, *_ in BURSTS):
        assert time.monotonic() < deadline, "a producer was never acknowledged"
        time.sleep(0.05)  # a slow machine's first transactions take a while
    time.sleep(Random().uniform(0, 0.7))  # the moment is the test's input
    stage.node.kill()
    acked = {name: stage.java.rest(name) for name, *_ in BURSTS}
    assert min(acked.values()) > 0
    damage = int(os.environ.get("SEED", Random().randrange(10**6)))
    shortened = spoil(stage.node.log_dir, Random(damage)) if corrupted else {}
    names = folders(stage.node.log_dir)
    left = stage.copy()
    consumed = judge(stage, names)
    try:
        assert_agrees(left, consumed, stage.node.log_dir)
    except Exception as error:
        error.add_note(f"SEED={damage} does the same damage again: {shortened}; left in {left}")
        raise
    for name, topic, partition, *_ in BURSTS:
        folder = f"{topic}-{partition}"
        if folder in shortened or topic == "compacted":
            continue
        values = {record.value for record in consumed[folder].records}
        missing = [
            n for n in range(acked[name]) if b"%s-%d-%d" % (name.encode(), seed, n) not in values
        ]
        assert missing == [], folder
