"""What a task of Spark's takes does not grow with what it reads or writes: the kernel counts.

As tests/unit/store/test_memory_bounds.py: a process whose private memory may grow by a stated
number of bytes and no more, for a log and for one that is many times as large.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kstore
from kstore._native.append.encode import BatchBuffer

MIB = 1 << 20
# Of 1000 bytes, of which a codec leaves about ten: a chunk that is read has all of them.
RECORDS = {
    "none": (5_000, 100_000),
    "lz4": (5_000, 100_000),
    "zstd": (5_000, 100_000),
}
BOUNDS = {"read": 48, "write": 32}  # MiB that docs/performance.md states
WORK = """
import resource, sys
import pyarrow
from kstore.spark import plan
from kstore.spark.source import arrow_batches
from kstore.spark.source.options import parse_source
from kstore.spark.sink.options import parse_sink
from kstore.spark.sink.stager import stage
from kstore.spark.source.read_task import run_task

def limit(bound):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    now = int(status["VmData"].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + bound, now + bound))

root, work, codec = sys.argv[1:4]
bound, records = map(int, sys.argv[4:])
pyarrow.array([b""])  # imports pandas where it is installed
if work == "write":
    column = pyarrow.array([b"%01000d" % n for n in range(1000)])
    batch = pyarrow.RecordBatch.from_pydict({"value": column})
    options = parse_sink({"path": root, "topic": "t", "compression": codec})
    limit(bound)
    staged = stage(options, "job", (batch for _ in range(0, records, 1000)))
    print(sum(part.count for part in staged.partitions))
else:
    tasks = plan(root, topics="t", parallelism=1).tasks
    wanted = parse_source({"path": root, "subscribe": "t"})
    limit(bound)
    found = (batch for task in tasks for batch in run_task(wanted, wanted.columns, task))
    if work == "keep":
        found = list(found)
    print(sum(batch.num_rows for batch in found))
"""

JOB_BOUNDS = {"verify": 32, "reindex": 16, "recompress": 32, "convert": 32}  # the jobs' guide
JOB = """
import resource, sys
from kstore.config import LogConfig
from kstore.files.files import DISK
from kstore.maintenance.rewrite import RewriteTarget
from kstore.verify.distributed import SegmentRange
from kstore.verify.log_dir_state import StateReader
from kstore.spark.jobs import reindex, rewrite, verify
from kstore.spark.jobs.partition_job import Task, WorkUnit

root, work, codec = sys.argv[1:4]
bound, records = map(int, sys.argv[4:])
directory = f"{root}/t-0"
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
now = int(status["VmData"].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (now + bound, now + bound))
if work == "verify":
    partition = WorkUnit(0, directory, 0, 0, verify._Range("t", 0, SegmentRange()))
    task = Task((root,), (partition,), DISK)
    print(verify._verify_range(task, partition, StateReader(DISK)).segments.end_offset)
elif work == "reindex":
    segment = reindex._Segment(LogConfig(), 0, True)
    print(reindex._index_one(DISK, WorkUnit(0, directory, 0, 0, segment)).next_offset)
else:
    magic = 2 if work == "convert" else None
    target = RewriteTarget("lz4" if codec == "zstd" else "zstd", None, magic, force=True)
    segment = WorkUnit(0, directory, 0, 0, rewrite._Segment(LogConfig(), 0, records))
    print(rewrite._rewrite_one(DISK, segment, target)[1].new[-1].next_offset)
"""


def make(root: Path, records: int, codec: str) -> Path:
    """A partition of batches of a megabyte."""
    kind = "uncompressed" if codec == "none" else codec
    config = kstore.LogConfig(compression_type=kind)
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


def run(
    root: Path, work: str, codec: str, bound: int, records: int, program: str = WORK
) -> "subprocess.CompletedProcess[str]":
    # Arrow's own pools take address space by the gigabyte, whatever they use of it; and glibc
    # learns from freed blocks to put such into its heap, between whose holes others do not fit.
    environment = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_MMAP_THRESHOLD_": "1048576",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", program, str(root), work, codec, str(bound), str(records)],
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
        done = run(root, work, codec, BOUNDS[work] * MIB, records)
        assert done.stdout == f"{records}\n", done.stderr


@pytest.mark.parametrize("work", list(JOB_BOUNDS))
def test_memory_of_a_job_s_task_does_not_grow_with_the_segment(
    stores: tuple[str, dict[int, Path]], work: str
) -> None:
    """What an executor does for one segment, of 5 MB of records and of 100."""
    codec, by_count = stores
    for records, root in by_count.items():
        done = run(root, work, codec, JOB_BOUNDS[work] * MIB, records, JOB)
        assert done.stdout == f"{records}\n", done.stderr


def test_a_job_s_bound_is_one(stores: tuple[str, dict[int, Path]]) -> None:
    codec, by_count = stores
    records = max(by_count)
    done = run(by_count[records], "recompress", codec, 1 * MIB, records, JOB)
    assert done.stdout != f"{records}\n"


def test_reading_fails_with_less_memory_than_its_bound(stores: tuple[str, dict[int, Path]]) -> None:
    """The limit is one: all rows of a large log at a time do not fit."""
    codec, by_count = stores
    records = max(by_count)
    done = run(by_count[records], "keep", codec, BOUNDS["read"] * MIB, records)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr or "malloc" in done.stderr
