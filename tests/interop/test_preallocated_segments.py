"""Two hundred kills during commits over zeros, and power cuts; brokers recover what was left.

A child appends batches of one size to a log with ``preallocate``, flushes each and says so; it
dies by SIGKILL at a random point. Each death leaves a partition as it was. A kill loses nothing of
the page cache, so states that a power cut may leave of such a log are computed, too. One start of
each broker recovers all of them: every flushed record exists, at its offset, and nothing else.
"""

import os
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import kstore
from interop.dump import dump_log
from interop.node import Node
from kstore import LogConfig, Store, StoreConfig
from kstore.files.files import DISK, Files
from support.recording_disk import Recorder
from torture.crash_disk import CrashDisk

KILLS, CUTS = 200, 60
SEED = 11
SIZE = 1500  # of a value: batches begin and end within pages, and lie across them
SEGMENT, INDEX = 1 << 16, 1200
MOST = 90  # records a child appends if it is not killed: a second segment and more
QUIET = StoreConfig(background=False)


class Left(NamedTuple):
    """A partition's files as a crash left them, and how many of its records were flushed."""

    folder: Path
    flushed: int
    crash: int


def value_of(crash: int, offset: int, size: int = SIZE) -> bytes:
    return (b"%d:%d:" % (crash, offset)).ljust(size, b"v")


def commit(path: Path, crash: int, pipe: int, files: Files = DISK) -> None:
    """Append, flush, report: all that a child does."""
    config = LogConfig(preallocate=True, segment_bytes=SEGMENT, segment_index_bytes=INDEX)
    with kstore.open(path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for offset in range(MOST):
            log.append(value_of(crash, offset))
            log.flush()
            os.write(pipe, b"+")


def kill_one(root: Path, crash: int, random: Random) -> Left:
    path = root / f"store-{crash}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            commit(path, crash, writing)
        finally:
            os._exit(0)
    os.close(writing)
    wanted, acknowledged = random.randrange(1, MOST - 5), 0
    while acknowledged < wanted:
        acknowledged += len(os.read(reading, wanted - acknowledged))
    time.sleep(random.random() * 0.0006)
    os.kill(child, signal.SIGKILL)
    while more := os.read(reading, 1 << 16):
        acknowledged += len(more)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    return Left(path / "t-0", acknowledged, crash)


def power_cuts(root: Path, random: Random) -> list[Left]:
    """A spread of the states that a disk may be in, of one run that a recorder saw."""
    disk = Recorder(root / "run")
    config = LogConfig(preallocate=True, segment_bytes=4096, segment_index_bytes=INDEX)
    with Store(root / "run", config=QUIET, files=disk) as store:
        log = store.create_topic("t", config=config)[0]
        for offset in range(24):
            log.append(value_of(KILLS, offset, 400))
            if offset % 3:
                log.flush()
                disk.note("flushed", offset + 1)
    trace, computed, flushed = disk.trace, CrashDisk(disk.trace), 0
    notes = {at: event[1] for at, event in trace.notes}
    found = []
    for index, op in enumerate(trace.ops):
        computed.apply(index, op)
        flushed = notes.get(index + 1, flushed)
        for model in ("ordered", "hostile"):
            for tree in computed.states(model, 4, random, None):
                if flushed and "t-0" in tree:
                    found.append((tree, flushed))
    left = []
    for tree, least in random.sample(found, CUTS):
        folder = root / f"cut-{len(left)}"
        folder.mkdir()
        for path, content in tree.items():
            if path.startswith("t-0/") and content is not None:
                (folder / path.removeprefix("t-0/")).write_bytes(content)
        left.append(Left(folder, least, KILLS))
    return left


@pytest.fixture(scope="session")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> list[Left]:
    root, random = tmp_path_factory.mktemp("crashed"), Random(SEED)
    kills = [kill_one(root, crash, random) for crash in range(KILLS)]
    ahead = [zeros_behind(each.folder) for each in kills]
    # Zeros were written, and recovery has to cut them.
    assert sum(size > 0 for size in ahead) > KILLS * 0.9
    assert sum(len(list(each.folder.glob("*.log"))) > 1 for each in kills) > KILLS // 10
    return kills + power_cuts(root, random)


def zeros_behind(folder: Path) -> int:
    data = max(folder.glob("*.log")).read_bytes()
    return len(data) - len(data.rstrip(b"\0"))


def segment_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (".log", ".index", ".timeindex")]


@pytest.mark.timeout(600)
def test_every_flushed_record_survives_a_brokers_recovery(kafka, tmp_path, crashed):
    broker = Node(kafka, tmp_path)
    try:
        broker.start()
        broker.create_topic("t", partitions=len(crashed))
        broker.stop()
        folders = [broker.log_dir / f"t-{number}" for number in range(len(crashed))]
        for left, folder in zip(crashed, folders, strict=True):
            for path in segment_files(folder):
                path.unlink()
            for path in segment_files(left.folder):
                shutil.copy(path, folder / path.name)
        (broker.log_dir / ".kafka_cleanshutdown").unlink()
        broker.start()
        ends = broker.end_offsets("t")
        consumed = broker.consume("t", sum(ends.values()))
        broker.kill()  # it serves what its recovery left in the files
        dumps = dump_log(kafka, [path for folder in folders for path in folder.glob("*.log")])
    finally:
        broker.kill()
    records: dict[int, list[tuple[int, str]]] = {}
    for record in consumed:
        records.setdefault(record.partition, []).append((record.offset, record.value or ""))
    for number, left in enumerate(crashed):
        size = SIZE if left.crash < KILLS else 400
        assert left.flushed <= ends[number] <= left.flushed + (1 if size == SIZE else 24), left
        wanted = [
            (offset, value_of(left.crash, offset, size).decode()) for offset in range(ends[number])
        ]
        assert records.get(number, []) == wanted, left
        found = [
            (batch.base_offset, batch.valid)
            for path in sorted(folders[number].glob("*.log"))
            for batch in dumps.files[str(path)].batches
        ]
        assert found == [(offset, True) for offset, _ in wanted], left


def test_kstore_recovers_the_same(crashed, tmp_path):
    """And keeps nothing aside of what a kill left: there were only zeros behind the end."""
    for left in crashed:
        left_dir = tmp_path / f"{left.folder.parent.name}-{left.folder.name}"
        (left_dir / "t-0").mkdir(parents=True)
        for path in segment_files(left.folder):
            shutil.copy(path, left_dir / "t-0" / path.name)
        size = SIZE if left.crash < KILLS else 400
        with kstore.open(left_dir, config=QUIET) as store:
            rows = [record.value for record in store["t"][0]]
            assert len(rows) >= left.flushed
            assert rows == [value_of(left.crash, n, size) for n in range(len(rows))]
