"""The engine's contests as workloads, so many of each one's full size."""

from collections.abc import Callable, Iterator
from importlib import import_module

from kstore.bench.contest import Contest, part_of
from kstore.bench.workload import LEVELS, Setting, Workload

MIB = 1 << 20


def at(module: str, sizes: tuple[int, int, int]) -> Callable[[Setting], Iterator[Contest]]:
    """A module's contests, made as small as a level wants them."""

    def contests(setting: Setting) -> Iterator[Contest]:
        part = sizes[LEVELS.index(setting.level)] / sizes[-1]
        with part_of(part * setting.part):
            yield from import_module(f"kstore.bench.contests.{module}").contests()

    return contests


def workload(
    name: str,
    about: str,
    ceiling: str,
    peers: tuple[str, ...],
    sizes: tuple[int, int, int],
    *,
    module: str = "",
    count: int = 1,
    copies: float = 2.0,
    weight: float = 1.0,
) -> Workload:
    size = (sizes[0] * MIB, sizes[1] * MIB, sizes[2] * MIB)
    return Workload(
        group="engine",
        name=name,
        about=about,
        ceiling=ceiling,
        peers=peers,
        sizes=size,
        contests=at(module or name, size),
        count=(count, count, count),
        copies=copies,
        weight=weight,
    )


BEST = "the best of the run"
WORKLOADS = (
    workload(
        "checksum",
        "CRC-32C and CRC-32 of hot buffers, by size and by every path of the processor",
        BEST,
        ("crc32c", "google-crc32c", "aiokafka", "zlib"),
        (1, 1, 1),
        count=11,
        copies=0,
    ),
    workload(
        "segments",
        "walking frames, checking every batch of a segment, checking one as a leader",
        "reading every byte",
        ("crc32c",),
        (32, 128, 1024),
        module="batch",
        count=7,
    ),
    workload(
        "records",
        "encoding and decoding record batches, into values, objects, places and columns",
        "a bare C loop",
        ("aiokafka", "kafka-python"),
        (16, 64, 256),
        count=6,
        copies=0,
    ),
    workload(
        "index",
        "one lookup in an offset index, from Python and compiled, and many in one call",
        "a search in C",
        ("NumPy", "Numba"),
        (1, 4, 10),
        count=24,
        copies=0,
        weight=3,
    ),
    workload(
        "jit",
        "compiled loops over mapped files and columns",
        BEST,
        ("NumPy",),
        (2, 10, 50),
        count=5,
        copies=0,
        weight=1.5,
    ),
    workload(
        "append",
        "prepared batches, a thousand values, and single records into page cache",
        "write of the same bytes",
        ("LMDB", "SQLite", "RocksDB (rocksdict)", "Apache Kafka"),
        (10, 50, 200),
        module="log_append",
        count=5,
        weight=2,
    ),
    workload(
        "read",
        "read(offset) at random, scans with CRC on one and two cores, recovery of one log",
        "reading every byte",
        ("Apache Kafka",),
        (32, 128, 1024),
        module="log_read",
        count=12,
        weight=2,
    ),
    workload(
        "fetch",
        "slices of a log: summed warm, caught up with cold, sent to a socket by sendfile",
        "a C loop over the same file",
        (),
        (32, 256, 1000),
        count=4,
        weight=1.5,
    ),
    workload(
        "open",
        "a store of many clean partitions until its first use",
        BEST,
        ("Apache Kafka",),
        (1, 8, 80),
        module="log_open",
    ),
    workload(
        "stream",
        "a durable stream, acknowledged after its sync, read behind by another process",
        "bare writes of the same bytes, by every method",
        (),
        (30, 100, 1000),
        module="log_stream",
        count=2,
        copies=5,
        weight=2,
    ),
    workload(
        "producer",
        "a producer's records, plain and idempotent, and transactions",
        "the synced writes of a commit",
        (),
        (1, 4, 10),
        count=6,
        weight=2,
    ),
    workload(
        "growth",
        "appending, committing and reading by size of records and segments, partitions, threads",
        "write of the same bytes",
        (),
        (10, 40, 400),
        count=18,
        weight=2,
    ),
    workload(
        "publish",
        "messages handed over one by one and in bulk until acknowledged, beside brokers",
        "kstore in this process",
        ("confluent-kafka", "Redis Streams", "NATS JetStream"),
        (20, 100, 500),
        module="publish",
        count=2,
        weight=1.5,
    ),
    workload(
        "tables",
        "every value read back and measured, beside stores of keys and tables",
        "reading every byte",
        ("Parquet (pyarrow)", "DuckDB", "LMDB", "SQLite", "RocksDB (rocksdict)"),
        (20, 200, 400),
        module="tables",
        copies=5,
        weight=1.5,
    ),
    workload(
        "recovery",
        "opening a store of four partitions after a kill; recovering and verifying one segment",
        "reading the same bytes",
        ("Apache Kafka",),
        (64, 512, 4096),
        count=6,
        weight=1.5,
    ),
    workload(
        "compaction",
        "compacting a log whose every key was written ten times",
        BEST,
        ("Apache Kafka",),
        (20, 100, 1000),
        count=2,
        copies=4,
    ),
    workload(
        "admission",
        "what a leader's checks cost beside the CRC and the write",
        "CRC and write",
        (),
        (1, 4, 16),
        count=7,
        weight=2,
    ),
    workload(
        "committed",
        "scans with and without read_committed",
        BEST,
        (),
        (8, 64, 256),
        count=4,
        copies=3,
    ),
)
