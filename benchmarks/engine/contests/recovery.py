"""Opening an unclean store of four partitions in page cache, against Kafka's log manager, two
threads each."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter

from engine.data.logs import UnsyncedFiles
from engine.data.partitions import (
    SHAPES,
    make_unclean,
    read_descriptor,
    write_store,
)
from engine.data.two_cores import halves
from engine.peers.kafka import KafkaLog, kafka_log
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import opened, sync_below
from kstore.bench.peers.availability import attempt
from kstore.config import StoreConfig
from kstore.store.store import Store

GIB = 1 << 30
PARTITIONS = 4
BARS = {"16 KB batches": 1.5, "1.1 KB batches": 4.0, "one-record batches": 10.0}
OURS, ONE, THEIRS = "kstore, two threads", "kstore, one thread", "Kafka, two threads"
READ = "read, two threads"


def open_unclean(root: Path, threads: int) -> Timed:
    """Open a store as after a kill, without syncs; the result is the sum of its end offsets."""
    make_unclean(root)
    config = StoreConfig(background=False, num_recovery_threads_per_data_dir=threads)
    started = perf_counter()
    with Store(root, config=config, files=UnsyncedFiles()) as store:
        seconds = perf_counter() - started
        if store.recovery.failed or not store.recovery.unclean:
            raise AssertionError(str(store.recovery))
        return Timed(seconds, result=sum(store.end_offsets().values()))


def open_with_kafka(peer: KafkaLog, root: Path) -> Timed:
    make_unclean(root)
    result = peer.load(root.name)
    return Timed(float(result["seconds"]), result=int(result["end_offsets"]))


def fill_with_kafka(peer: KafkaLog, root: Path, records: int, size: int) -> int:
    """Let Kafka fill the partitions; return the sum of their end offsets."""
    filled = peer.partitions(PARTITIONS, name=root.name, records=records, size=size)
    if filled["directory"] != str(root):
        raise AssertionError(f"Kafka filled {filled['directory']}, not {root}")
    return int(peer.load(root.name)["end_offsets"])


def read_logs(root: Path) -> Timed:
    """Open and read every log file of a store by two threads; the files are closed after the clock
    has stopped, as those of a store that was opened."""
    paths = sorted(root.glob("*/*.log"))
    with ExitStack() as files:

        def read(some: Sequence[Path]) -> int:
            found = [files.enter_context(opened(path, os.O_RDONLY)) for path in some]
            return sum(map(read_descriptor, found))

        started = perf_counter()
        size = halves(read, paths)
        seconds = perf_counter() - started
    return Timed(seconds, result=size)


def contests() -> Iterator[Contest]:
    """Open all partitions of an unclean store; neither side syncs."""
    with tempfile.TemporaryDirectory() as path, kafka_log(Path(path)) as peer:
        for name, records in SHAPES.items():
            size = scaled(GIB, 1 << 16)
            root = Path(path) / name.replace(" ", "-").replace(".", "")
            calls: Calls = {}
            bars: list[Bar] = []
            end = None
            if peer is not None:
                end = attempt("Kafka", partial(fill_with_kafka, peer, root, records, size))
            if peer is None or end is None:
                peer = None
                shutil.rmtree(root, ignore_errors=True)
                end = write_store(root, PARTITIONS, records, size)
            else:
                sync_below(root)
                calls[THEIRS] = partial(open_with_kafka, peer, root)
                bars += [(OURS, THEIRS, BARS[name]), (ONE, THEIRS, None)]
            calls[OURS] = partial(open_unclean, root, 2)
            calls[ONE] = partial(open_unclean, root, 1)
            calls[READ] = partial(read_logs, root)
            total = sum(path.stat().st_size for path in root.glob("*/*.log"))
            yield Contest(
                name=f"unclean open, {PARTITIONS} partitions of {name}, {total:,} bytes",
                calls=calls,
                amount=total,
                expected=end,
                unchecked=frozenset({READ}),
                ceiling=READ,
                bars=(*bars, (OURS, ONE, None), (OURS, READ, None)),
                rounds=5,
            )
            shutil.rmtree(root)
