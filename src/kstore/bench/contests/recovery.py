"""Recovery and verification in page cache: one segment beside a plain read of it, and an
unclean store of four partitions against Kafka's log manager, two threads each."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kstore.bench import recovery
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.log_read import Unsynced
from kstore.bench.peers import KafkaLog, attempt, kafka_log
from kstore.bench.raw_files import sync_below
from kstore.log import filenames

GIB = 1 << 30
PARTITIONS = 4
BARS = {"16 KB batches": 1.5, "1.1 KB batches": 4.0, "one-record batches": 10.0}


def contests() -> Iterator[Contest]:
    yield from segments()
    yield from stores()


def stores() -> Iterator[Contest]:
    """An unclean open of all of it; nobody syncs."""
    with tempfile.TemporaryDirectory() as path, kafka_log(Path(path)) as peer:
        for name, (records, value_size) in recovery.SHAPES.items():
            size = scaled(GIB, 1 << 16)
            short = name.replace(" ", "-").replace(".", "")
            root = Path(path) / short
            calls: dict[str, Callable[[], object]] = {}
            bars: list[tuple[str, str, float | None]] = []
            made = None
            if peer is not None:
                made = attempt("Kafka", partial(by_kafka_made, peer, root, records, size))
            if peer is None or made is None:
                peer = None
                shutil.rmtree(root, ignore_errors=True)
                expected = recovery.write_store(root, PARTITIONS, records, value_size, size)
            else:
                expected = made
                sync_below(root)
                calls["Kafka, two threads"] = partial(by_kafka, peer, root)
            for threads, called in ((2, "kstore, two threads"), (1, "kstore, one thread")):
                calls[called] = partial(by_kstore, root, threads)
                if peer is not None:
                    wanted = BARS[name] if threads == 2 else None
                    bars.append((called, "Kafka, two threads", wanted))
            calls["read"] = partial(read_logs, root)
            bars.append(("kstore, two threads", "kstore, one thread", None))
            bars.append(("kstore, two threads", "read", None))
            total = sum(path.stat().st_size for path in root.glob("*/*.log"))
            yield Contest(
                name=f"unclean open, {PARTITIONS} partitions of {name}, {total:,} bytes",
                calls=calls,
                amount=total,
                expected=expected,
                unchecked=frozenset({"read"}),
                ceiling="read",
                bars=tuple(bars),
                rounds=5,
            )
            shutil.rmtree(root)


def by_kafka_made(peer: KafkaLog, root: Path, records: int, size: int) -> int:
    """Partitions that Kafka fills; the sum of their end offsets."""
    made = peer.partitions(PARTITIONS, name=root.name, records=records, size=size)
    if made["directory"] != str(root):
        raise AssertionError(f"Kafka filled {made['directory']}, not {root}")
    return int(peer.load(root.name)["end_offsets"])


def read_logs(root: Path) -> int:
    """Every log file of a store, one after another: every byte is seen once."""
    return sum(recovery.read_whole(path) for path in sorted(root.glob("*/*.log")))


def by_kafka(peer: KafkaLog, root: Path) -> Timed:
    recovery.kill(root)
    result = peer.load(root.name)
    return Timed(float(result["seconds"]), result=int(result["end_offsets"]))


def by_kstore(root: Path, threads: int) -> Timed:
    recovery.kill(root)
    return recovery.open_unclean(root, threads, Unsynced())


def recovered_batches(directory: Path) -> int:
    return recovery.recover(directory)[0]


def segments() -> Iterator[Contest]:
    for name, (records, value_size) in recovery.SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            size = scaled(1 << 30)
            end = recovery.write_partition(directory, records, value_size, size)
            batches = end // records
            yield Contest(
                name=f"recover and verify {size:,} bytes of {name}, page cache",
                calls={
                    "recover": partial(recovered_batches, directory),
                    "verify, 1 thread": partial(recovery.verify, directory, 1),
                    "verify, 2 threads": partial(recovery.verify, directory, 2),
                    "read": partial(recovery.read_whole, directory / filenames.log_name(0)),
                },
                amount=size,
                expected=batches,
                unchecked=frozenset({"read"}),
                ceiling="read",
                bars=(
                    ("recover", "read", None),
                    ("verify, 1 thread", "read", None),
                    ("verify, 2 threads", "read", None),
                ),
            )
