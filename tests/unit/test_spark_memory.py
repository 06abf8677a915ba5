"""What a task of Spark's takes does not grow with what it reads or writes: the kernel counts.

As tests/unit/test_memory_bounds.py: a process whose private memory may grow by a stated number of
bytes and no more, for a log and for one that is many times as large.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kstore
from kstore._native.encode import BatchBuffer

MIB = 1 << 20
RECORDS = {"uncompressed": (5_000, 100_000)}  # of 1000 bytes
# MiB that docs/performance.md states.
BOUNDS = {
    ("read", "uncompressed"): 48,
    ("write", "uncompressed"): 32,
}
WORK = """
import resource, sys
import pyarrow
from kstore.spark import batches, plan
from kstore.spark.options import parse_source
from kstore.spark.sink_options import parse_sink
from kstore.spark.staging import stage
from kstore.spark.tasks import run_task

def limit(bound):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    now = int(status["VmData"].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + bound, now + bound))

root, work, bound, records = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if work == "write":
    column = pyarrow.array([b"%01000d" % n for n in range(1000)])
    batch = pyarrow.RecordBatch.from_pydict({"value": column})
    options = parse_sink({"path": root, "topic": "t"})
    limit(bound)
    staged = stage(options, "job", (batch for _ in range(0, records, 1000)))
    print(sum(part.count for part in staged.parts))
else:
    tasks = plan(root, topics="t", parallelism=1).tasks
    wanted = parse_source({"path": root, "subscribe": "t"})
    limit(bound)
    found = (batch for task in tasks for batch in run_task(wanted, wanted.columns, task))
    if work == "keep":
        found = list(found)
    print(sum(batch.num_rows for batch in found))
"""


def make(root: Path, records: int, codec: str) -> Path:
    """A partition of batches of a megabyte."""
    config = kstore.LogConfig(compression_type=codec)
    with kstore.open(root, config=kstore.StoreConfig(background=False)) as store:
        log = store.create_topic("t", config=config)[0]
        for start in range(0, records, 1000):
            buffer = BatchBuffer()
            for n in range(start, start + 1000):
                buffer.put(b"%01000d" % n, None, None, 1_700_000_000_000 + n)
            log.append_as_leader(buffer.to_bytes(0))
    return root


@pytest.fixture(scope="module", params=RECORDS)
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[int, Path]]:
    """The codec, and two stores by how many records they have."""
    codec = request.param
    root = tmp_path_factory.mktemp(codec)
    return codec, {count: make(root / str(count), count, codec) for count in RECORDS[codec]}


def run(root: Path, work: str, bound: int, records: int) -> "subprocess.CompletedProcess[str]":
    # Arrow's own pools take address space by the gigabyte, whatever they use of it.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", WORK, str(root), work, str(bound), str(records)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )


@pytest.mark.parametrize("work", ["read", "write"])
def test_memory_of_a_task_is_bounded_whatever_it_works_on(
    stores: tuple[str, dict[int, Path]], work: str
) -> None:
    codec, by_count = stores
    for records, root in by_count.items():
        bound = BOUNDS.get((work, codec), BOUNDS[work, "uncompressed"])
        done = run(root, work, bound * MIB, records)
        assert done.stdout == f"{records}\n", done.stderr


def test_less_is_too_little(stores: tuple[str, dict[int, Path]]) -> None:
    """The limit is one: all rows of a large log at a time do not fit."""
    codec, by_count = stores
    records = max(by_count)
    done = run(by_count[records], "keep", BOUNDS["read", codec] * MIB, records)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr or "malloc" in done.stderr
