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
    shows: tuple[str, ...],
    kernels: str = "",
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
        kernels=kernels.split(),
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
        "reading every byte",
        ("crc32c", "google-crc32c", "aiokafka", "zlib", "Java's CRC32C"),
        (1, 1, 1),
        shows=("CRC-32C", "CRC-32 ", "path table", "path sse42", "path pclmul", "path avx512"),
        kernels="checksum.crc32 checksum.crc32_by checksum.crc32c checksum.crc32c_by",
        count=11,
        copies=0,
    ),
    workload(
        "segments",
        "walking frames, checking every batch of a segment, checking one as a leader",
        "reading every byte",
        ("crc32c",),
        (32, 128, 1024),
        shows=("walk frames", "check every batch", "as a leader", "one core", "two cores"),
        kernels="frames.walk_frames frames.scan batch.validate_leader",
        module="batch",
        count=7,
    ),
    workload(
        "records",
        "encoding and decoding record batches, into values, objects, places and columns",
        "a bare C loop",
        ("aiokafka", "kafka-python"),
        (16, 64, 256),
        shows=("encode", "decode", "bare C loop"),
        kernels="encode.BatchBuffer decode.Scanner",
        count=6,
        copies=0,
    ),
    workload(
        "index",
        "one lookup in an offset index, from Python and compiled, and many in one call",
        "a search in C",
        ("NumPy", "Numba", "Apache Kafka"),
        (1, 4, 10),
        shows=(
            "one index lookup",
            "lookups in one call",
            "path table",
            "path avx2",
            "path avx512",
            "numba",
            "bisect",
        ),
        kernels="index.OffsetIndex",
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
        shows=("compiled loop", "NumPy", "time index", "a call each"),
        kernels=(
            "jit.index_count jit.index_lookup jit.time_index_count jit.time_lookup "
            "jit.next_frame jit.next_record jit.crc_ok jit.crc32c jit.key_hash "
            "jit.compile_predicate jit.equals jit.starts_with jit.contains jit.rows_between "
            "jit.tumbling jit.group_by_key jit.sum_by_group jit.top_k"
        ),
        count=11,
        copies=0,
        weight=2,
    ),
    workload(
        "walks",
        "every walk over a segment's headers or checksums, finding batches in damage, stamping one",
        "a bare chain of headers, reading every byte",
        (),
        (4, 16, 64),
        shows=(
            "headers only",
            "every checksum",
            "damaged bytes",
            "lines about",
            "stamp a batch",
            "aborted",
        ),
        kernels=(
            "audit.BatchAudit batch.prefix batch.stamp batch.stamp_timestamp "
            "batch.validate_records dump.LineDumper locate.find_batch locate.find_end "
            "producers.ProducerTable recover.SegmentScan recover.walk_tail "
            "salvage.epoch_runs salvage.find_batch salvage.find_extent salvage.find_run "
            "salvage.skip_to transactions.AbortedRanges transactions.TransactionWalk"
        ),
        count=12,
        copies=0,
        weight=0.5,
    ),
    workload(
        "seal",
        "making and checking the checksums over headers of a sealed segment",
        "a bare chain of headers",
        ("crc32c",),
        (32, 128, 1024),
        shows=("make a seal", "check a seal", "one-record batches", "Python loop"),
        kernels="seal.SealCheck seal.SealMaker",
        count=2,
        weight=0.4,
    ),
    workload(
        "conversion",
        "messages v1 to batches v2 and back, and batches into codecs and out of them",
        "a copy of the bytes, the codec alone",
        ("aiokafka",),
        (4, 16, 64),
        shows=("v1 to batches v2", "to messages v1", "rebuild", "lz4", "zstd"),
        kernels="convert.Converter",
        module="convert",
        count=7,
        copies=0,
        weight=0.7,
    ),
    workload(
        "groups",
        "counting and measuring records by key and by window of time; a survey of a segment",
        "reading the same bytes",
        ("NumPy", "Arrow (pyarrow)", "aiokafka"),
        (2, 16, 64),
        shows=("by key", "by minute", "survey", "extents too"),
        kernels="survey.Survey tally.Tally",
        module="tally",
        count=3,
        copies=0,
        weight=0.5,
    ),
    workload(
        "keys",
        "partitions and hashes of keys as Kafka's clients have them, the map of a compaction",
        "reading every key",
        ("aiokafka", "kafka-python"),
        (1, 1, 1),
        shows=("partitions of", "murmur2 of", "one call a key", "put and get"),
        kernels=(
            "keymap.KeyMap keys.murmur2 keys.murmur2_many keys.partition_for_key "
            "keys.partitions_for_keys"
        ),
        count=5,
        copies=0,
        weight=0.3,
    ),
    workload(
        "columns",
        "values and headers between segments, Arrow's buffers and batches, row by row",
        "a copy of the bytes",
        ("NumPy",),
        (4, 16, 64),
        shows=("as a list", "packed", "Arrow's views", "headers", "into a batch", "staged"),
        kernels=(
            "ragged.binary_views ragged.gather ragged.pack ragged.place_headers "
            "ragged.read_headers ragged.total_size staging.ArrowBinary staging.ArrowHeaders "
            "staging.place_batches staging.put_rows"
        ),
        count=8,
        copies=0,
        weight=0.5,
    ),
    workload(
        "append",
        "prepared batches, a thousand values, and single records into page cache",
        "write of the same bytes",
        ("LMDB", "SQLite", "RocksDB (rocksdict)", "Apache Kafka"),
        (10, 50, 200),
        shows=(
            "110 KB",
            "16.5 KB",
            "1.15 KB",
            "as leader",
            "as follower",
            "1000 values",
            "one record",
            "p99",
        ),
        kernels="append.Appender record.holds_records",
        module="log_append",
        count=5,
        weight=2,
    ),
    workload(
        "read",
        "read(offset) at random, scans with CRC on one and two cores, recovery of one log",
        "reading every byte; a header whose place is known",
        ("Apache Kafka",),
        (32, 128, 1024),
        shows=("read(offset)", "offset_at(time)", "as columns", "two cores", "recover"),
        kernels=(
            "locate.SegmentList locate.SegmentView locate.FileMap locate.find_time "
            "locate.first_batch_timestamp index.TimeIndex"
        ),
        module="log_read",
        count=13,
        weight=2,
    ),
    workload(
        "fetch",
        "slices of a log: summed warm, caught up with cold, sent to a socket by sendfile",
        "a C loop over the same file",
        (),
        (32, 256, 1000),
        shows=(
            "warm reads",
            "cold reads",
            "slices by sendfile",
            "a receiver that copies",
            "a receiver that drops",
            "sender CPU",
        ),
        count=4,
        weight=1.5,
    ),
    workload(
        "open",
        "a store of many clean partitions until its first use, in a process and from its start on",
        "none: the best of the run, kstore where Kafka is not here",
        ("Apache Kafka", "its broker"),
        (1, 8, 80),
        shows=("clean partitions", "all end offsets", "the whole program", "memory"),
        module="log_open",
        count=2,
    ),
    workload(
        "stream",
        "a durable stream, acknowledged after its sync, read behind by another process",
        "bare writes of the same bytes, by every method",
        (),
        (30, 100, 1000),
        shows=(
            "reader",
            "ack",
            "tail",
            "RWF_DONTCACHE",
            "O_DIRECT",
            "io_uring",
            "synced behind",
        ),
        kernels="pages.start_writing",
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
        shows=("plain", "idempotent", "transactions of 1,", "transactions of 100", "on disk"),
        count=6,
        weight=2,
    ),
    workload(
        "growth",
        "appending, committing and reading by size of records and segments, partitions, threads",
        "write of the same bytes",
        (),
        (10, 40, 400),
        shows=(
            "records of 10 B",
            "records of 100000 B",
            "segments of 1 MiB",
            "segments of 256 MiB",
            "10 partitions",
            "4 threads",
            "read",
        ),
        kernels="lock.ReentrantLock",
        count=18,
        weight=2,
    ),
    workload(
        "publish",
        "messages handed over one by one and in bulk until acknowledged, beside brokers",
        "write of ready batches, synced where everybody syncs",
        ("confluent-kafka", "Redis Streams", "NATS JetStream"),
        (20, 100, 500),
        shows=("extend of 1000", "a producer", "nothing synced", "once on disk"),
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
        shows=("columns", "records", "sum the sizes"),
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
        shows=(
            "unclean open",
            "16 KB batches",
            "one-record batches",
            "two threads",
            "verify, 2 threads",
        ),
        kernels="recover.SegmentScan audit.BatchAudit pages.populate",
        count=6,
        weight=1.5,
    ),
    workload(
        "compaction",
        "compacting a log whose every key was written ten times",
        BEST,
        ("Apache Kafka",),
        (20, 100, 1000),
        shows=("1 thread", "2 threads"),
        kernels="keymap.KeyMap key_indexer.KeyIndexer record_filter.RecordFilter",
        count=2,
        copies=4,
    ),
    workload(
        "admission",
        "what a leader's checks cost beside the CRC and the write",
        "CRC and write",
        (),
        (1, 4, 16),
        shows=("as a leader", "keys", "an idempotent producer"),
        count=7,
        weight=2,
    ),
    workload(
        "committed",
        "scans with and without read_committed",
        "reading every byte",
        (),
        (8, 64, 256),
        shows=("read_committed", "read_uncommitted", "aborted"),
        kernels="transactions.AbortedRanges transactions.TransactionWalk ragged.gather",
        count=4,
        copies=3,
    ),
    workload(
        "programs",
        "verifying and dumping a segment by whole programs, their starts and memory included",
        "reading the file, in this process",
        ("Apache Kafka's DumpLogSegments",),
        (32, 128, 1024),
        shows=("kstore verify", "kstore dump-log", "kstore starts", "memory"),
        module="verify",
        count=2,
    ),
    workload(
        "start",
        "a bare interpreter, and one that imports kstore",
        "bare Python",
        (),
        (1, 1, 1),
        shows=("import kstore", "bare Python"),
        copies=0,
        weight=0.5,
    ),
)
