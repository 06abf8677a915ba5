"""The workloads of the group ``engine``: their contests, ceilings, peers and sizes."""

from collections.abc import Callable, Iterator
from importlib import import_module

from kstore.bench.contest import Contest, part_of
from kstore.bench.workload import LEVELS, MACHINE, Catalog, Setting, Workload

MIB = 1 << 20


def at(module: str, sizes: tuple[int, int, int]) -> Callable[[Setting], Iterator[Contest]]:
    """A module's contests at the size of the level."""

    def contests(setting: Setting) -> Iterator[Contest]:
        part = sizes[LEVELS.index(setting.level)] / sizes[-1]
        with part_of(part * setting.part):
            yield from import_module(f"engine.contests.{module}").contests()

    return contests


def workload(
    name: str,
    about: str,
    ceiling: str,
    peers: tuple[str, ...],
    sizes: tuple[int, int, int],
    *,
    shows: str,
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
        shows=shows,
        peers=peers,
        sizes=size,
        contests=at(module or name, size),
        count=(count, count, count),
        copies=copies,
        weight=weight,
    )


BEST = "the fastest of the run"
WORKLOADS = (
    workload(
        "checksum",
        "CRC-32C of hot buffers, by size and by every path of the processor",
        f"none: {BEST}",
        ("crc32c", "google-crc32c", "aiokafka", "Java's CRC32C"),
        (1, 1, 1),
        shows="CRC-32C; path table; path sse42; path pclmul; path avx512",
        count=4,
        copies=0,
    ),
    workload(
        "segments",
        "walking frames, checking every batch of a segment",
        "reading every byte by two threads, for checks; none for walks",
        ("crc32c",),
        (32, 128, 1024),
        shows="walk frames; check every batch; one core; two cores",
        module="batch",
        count=4,
    ),
    workload(
        "records",
        "encoding record batches, and decoding them into values, objects, positions and columns",
        "a bare C loop",
        ("aiokafka", "kafka-python"),
        (16, 64, 256),
        shows="encode; decode; bare C loop",
        count=3,
        copies=0,
    ),
    workload(
        "index",
        "one lookup in an offset index, from Python and compiled, and many in one call",
        "a search in C",
        ("NumPy", "Numba", "Apache Kafka"),
        (1, 4, 10),
        shows="one index lookup; lookups in one call; path table; path avx2; path avx512; "
        "numba; bisect",
        count=12,
        copies=0,
        weight=1.5,
    ),
    workload(
        "jit",
        "compiled loops over a segment and its index",
        BEST,
        ("NumPy",),
        (2, 10, 50),
        shows="compiled loop; NumPy",
        count=2,
        copies=0,
        weight=0.5,
    ),
    workload(
        "append",
        "prepared batches, a thousand values, and single records into page cache",
        "write of the same bytes",
        ("LMDB", "SQLite", "RocksDB (rocksdict)", "Apache Kafka"),
        (10, 50, 200),
        shows="110 KB; 16.5 KB; 1.15 KB; as leader; as follower; 1000 values; one record; p99",
        module="log_append",
        count=5,
        weight=2,
    ),
    workload(
        "read",
        "read(offset) at random, scans with CRC on one and two cores, recovery of one log",
        "reading every byte by two threads; a header at a known position",
        ("Apache Kafka",),
        (32, 128, 1024),
        shows="read(offset); offset_at(time); as columns; two cores; recover",
        module="log_read",
        count=13,
        weight=2,
    ),
    workload(
        "fetch",
        "slices of a log: read warm, read cold, sent to a socket by sendfile",
        "a C loop over the same file",
        (),
        (32, 256, 1000),
        shows="warm reads; cold reads; slices by sendfile; a receiver that copies; a "
        "receiver that drops; sender CPU",
        count=4,
        weight=1.5,
    ),
    workload(
        "open",
        "a store of many clean partitions until its first use, in a process and from its start",
        "none: the best of the run, which is kstore without Kafka",
        ("Apache Kafka", "its broker"),
        (1, 8, 80),
        shows="clean partitions; all end offsets; the whole program; memory",
        module="log_open",
        count=2,
    ),
    workload(
        "stream",
        "a durable stream, acknowledged after its sync, and read by another process",
        "bare writes of the same bytes, by every method",
        (),
        (30, 100, 1000),
        shows="reader; ack; tail; RWF_DONTCACHE; O_DIRECT; io_uring; synced behind",
        module="log_stream",
        count=2,
        copies=5,
        weight=2,
    ),
    workload(
        "producer",
        "a producer's records, plain and idempotent, and transactions",
        "write of ready batches; the bare writes of a commit",
        (),
        (1, 4, 10),
        shows="plain; idempotent; transactions of 1,; transactions of 100; on disk",
        count=6,
        weight=2,
    ),
    workload(
        "publish",
        "messages published one by one and in bulk until acknowledged, beside brokers",
        "write of ready batches, synced where the others sync",
        ("confluent-kafka", "Redis Streams", "NATS JetStream"),
        (20, 100, 500),
        shows="extend of 1000; a producer; nothing synced; once on disk",
        module="publish",
        count=2,
        weight=1.5,
    ),
    workload(
        "recovery",
        "opening a store of four partitions after a kill",
        "reading the same bytes",
        ("Apache Kafka",),
        (64, 512, 4096),
        shows="unclean open; 16 KB batches; one-record batches; two threads",
        count=3,
        weight=1.5,
    ),
    workload(
        "compaction",
        "compacting a log in which every key was written ten times",
        BEST,
        ("Apache Kafka",),
        (20, 100, 1000),
        shows="1 thread; 2 threads",
        count=2,
        copies=4,
    ),
    workload(
        "admission",
        "the cost of a leader's checks in addition to the CRC and the write",
        "CRC and write",
        (),
        (1, 4, 16),
        shows="as a leader; keys; an idempotent producer",
        count=7,
        weight=2,
    ),
    workload(
        "programs",
        "verifying and dumping a segment by complete programs, with their starts and memory",
        "reading the file, in this process",
        ("Apache Kafka's DumpLogSegments",),
        (32, 128, 1024),
        shows="kstore verify; kstore dump-log; kstore starts; memory",
        module="verify",
        count=2,
    ),
    workload(
        "start",
        "a bare interpreter, and one that imports kstore",
        "bare Python",
        (),
        (1, 1, 1),
        shows="import kstore; bare Python",
        copies=0,
        weight=0.5,
    ),
)
# Packages and programs that take part, and how to install each.
PEERS = (
    ("crc32c", "pip install crc32c"),
    ("google-crc32c", "pip install google-crc32c"),
    ("aiokafka", "pip install aiokafka"),
    ("kafka-python", "pip install kafka-python"),
    ("confluent-kafka", "pip install confluent-kafka"),
    ("lmdb", "pip install lmdb"),
    ("rocksdict", "pip install rocksdict (RocksDB)"),
    ("pyarrow", "pip install pyarrow (Arrow)"),
    ("redis-server", "apt-get install redis-server (Redis Streams)"),
    ("nats-server", "apt-get install nats-server (NATS JetStream)"),
    ("java", "apt-get install openjdk-17-jre-headless, for Apache Kafka itself"),
)
CATALOG = Catalog({"engine": __name__, **MACHINE.groups}, PEERS, for_developers=True)
