"""Read every value back and sum their sizes: a log beside embedded stores with the same records.

Each store is filled once, synced, and then read in page cache.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import kstore
from kstore._native.bench import memory_loops
from kstore.bench.contest import Calls, Contest, scaled
from kstore.bench.data.batches import VALUE_SIZE
from kstore.bench.data.logs import thousand_values
from kstore.bench.data.raw_files import sync_below
from kstore.bench.peers.availability import enter_peer
from kstore.bench.peers.stores import OpenStore, StorePeer, installed_stores

RECORDS = 2_000_000
READ = "read every byte of the segment"
OURS = "kstore, columns"


@contextmanager
def filled_log(directory: Path, count: int) -> Iterator[Calls]:
    """Reads as columns with every checksum checked, on one core and on two, and as records."""
    values = thousand_values()
    with kstore.open(directory / "log") as store:
        log = store.create_topic("log")[0]
        for _ in range(count // 1000):
            log.extend(values)
        log.flush()

        def columns(threads: int) -> int:
            return sum(int(some.values.lengths.sum()) for some in log.view().scan(threads=threads))

        view = log.segments.views[0].whole()
        yield {
            OURS: partial(columns, 1),
            "kstore, columns, two cores": partial(columns, 2),
            "kstore, records": lambda: sum(len(record.value or b"") for record in log.view()),
            READ: lambda: memory_loops.read_all(view) and 0,
        }


@contextmanager
def filled_store(peer: StorePeer, directory: Path, count: int) -> Iterator[OpenStore]:
    path = directory / peer.name
    path.mkdir()
    values = thousand_values()
    with peer.open(path) as store:
        for first in range(0, count, 1000):
            store.put(peer.rows(first, values))
        store.flush()
        yield store


def contests() -> Iterator[Contest]:
    count = scaled(RECORDS, 1000) // 1000 * 1000
    with TemporaryDirectory() as path, ExitStack() as running:
        directory = Path(path)
        calls = dict(running.enter_context(filled_log(directory, count)))
        ours = set(calls)
        for peer in installed_stores():
            store = enter_peer(running, peer.name, filled_store(peer, directory, count))
            if store is not None:
                calls[peer.name] = store.sum_sizes
        sync_below(directory)
        yield Contest(
            name=f"sum the sizes of {count} values of {VALUE_SIZE} bytes",
            calls=calls,
            amount=count,
            unit="records",
            expected=count * VALUE_SIZE,
            unchecked=frozenset([READ]),
            ceiling=READ,
            bars=tuple((OURS, name, None) for name in calls if name not in ours),
            rounds=5,
        )
