"""What a scan, a compaction and a recovery take does not grow with the log: the kernel counts.

Each works in a process of its own whose private memory may grow by a stated number of bytes and
no more (RLIMIT_DATA: heap, stacks and anonymous maps; mapped log files are the system's cache and
do not count). The same bounds hold for a log and for one that is many times as large.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kstore
from kstore._native.append.encode import BatchBuffer

MIB = 1 << 20
RECORDS = {"uncompressed": (5_000, 40_000), "zstd": (5_000, 150_000)}  # of 1000 bytes
DEDUPE_BUFFER = 16 * MIB
# MiB that docs/performance.md and the guide state; a thread's stack is 8 of them.
BOUNDS = {
    "iterate": 8,
    # Decompressed bytes, to the end of a batch of 1: in hand, on their way, merged from.
    "scan": 3 * (8 + 1) + 7,
    "scan_threads": 3 * (8 + 1) * 3 + 7 + 2 * 8,
    "compact": 16 + 8,
    "recover": 2 * (8 + 4),
}
WORK = """
import resource, sys
from pathlib import Path
import kstore, kstore.record.columns, kstore.log.writable_log, kstore.store.store
import kstore.coordinator.group.store_group, kstore.recovery.loader, kstore.store.parallel_recovery

def limit(bound):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    now = int(status["VmData"].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + bound, now + bound))

root, work, bound, buffer = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
config = kstore.StoreConfig(background=False, num_recovery_threads_per_data_dir=2)
if work == "recover":
    limit(bound)
with kstore.open(root, config=config) as store:
    log = store["t"][0]
    if work != "recover":
        limit(bound)
    if work == "iterate":
        print(sum(1 for record in log))
    elif work == "scan":
        print(sum(len(columns) for columns in log.view().scan()))
    elif work == "scan_threads":
        print(sum(len(columns) for columns in log.view().scan(threads=2)))
    elif work == "keep":
        print(sum(len(columns) for columns in list(log.view().scan())))
    elif work == "compact":
        print(log.compact(dedupe_buffer_size=buffer).records_read)
    else:
        assert store.recovery.unclean and store.recovery.bytes_scanned >= 2 * log.size > 0
        print(log.end_offset)
"""


def make(root: Path, records: int, codec: str) -> Path:
    config = kstore.LogConfig(cleanup_policy="compact", compression_type=codec)
    with kstore.open(root, config=kstore.StoreConfig(background=False)) as store:
        for log in store.create_topic("t", partitions=2, config=config):
            for start in range(0, records, 1000):
                buffer = BatchBuffer()
                for n in range(start, start + 1000):
                    key = b"%08d" % (n % (records // 10))
                    buffer.put(b"%0992d" % n, key, None, 1_700_000_000_000 + n)
                log.append_as_leader(buffer.to_bytes(0))
            log.roll()
    return root


@pytest.fixture(scope="module", params=RECORDS)
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Path]:
    """Two stores, by how many records a partition has."""
    root = tmp_path_factory.mktemp(request.param)
    return {
        records: make(root / str(records), records, request.param)
        for records in RECORDS[request.param]
    }


def run(root: Path, copy: Path, work: str, bound: int) -> "subprocess.CompletedProcess[str]":
    shutil.copytree(root, copy)
    if work == "recover":
        (copy / ".kafka_cleanshutdown").unlink()
        (copy / "recovery-point-offset-checkpoint").unlink()
    try:
        return subprocess.run(
            [sys.executable, "-c", WORK, str(copy), work, str(bound), str(DEDUPE_BUFFER)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("work", BOUNDS)
def test_memory_is_bounded_whatever_the_size_of_the_log(
    stores: dict[int, Path], tmp_path: Path, work: str
) -> None:
    for records, root in stores.items():
        done = run(root, tmp_path / "store", work, BOUNDS[work] * MIB)
        assert done.stdout == f"{records}\n", done.stderr


def test_work_fails_with_less_memory_than_its_bound(
    stores: dict[int, Path], tmp_path: Path
) -> None:
    """The limit is one: a map has to fit, stacks have to, and all columns of a large log."""
    root = stores[max(stores)]
    wanted = {"compact": DEDUPE_BUFFER - 1, "recover": 2 * MIB}
    if root.parent.name.startswith("zstd"):  # others stay in the mapped file
        wanted["keep"] = BOUNDS["scan_threads"] * MIB
    for work, bound in wanted.items():
        try:
            done = run(root, tmp_path / "store", work, bound)
        except subprocess.TimeoutExpired as expired:
            # CPython's Thread.start never returns if the thread had no memory to begin with.
            errors = (expired.stderr or b"").decode()
        else:
            assert done.returncode != 0
            errors = done.stderr
        assert "MemoryError" in errors or "can't start new thread" in errors
