"""Durable streams against bare writes of the same bytes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import log_stream as work
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.disk import MIB, SEQUENTIAL, Writing
from kstore.bench.log_append import prepared
from kstore.bench.raw_files import sequential
from kstore.bench.workload import Setting

WANTED = 4_000_000  # records a second, durable; read behind as fast
OF_THE_BEST = 0.85
OF_BUFFERED = 1.3
RAW = ("RWF_DONTCACHE", "O_DIRECT", "O_DIRECT over zeros")
ZEROED = ", zeroed before"
Calls = dict[str, Callable[[], object]]


def contests() -> Iterator[Contest]:
    records = scaled(10_000_000, 20_000) // 1000 * 1000
    with TemporaryDirectory() as path:
        directory = Path(path)
        yield Contest(
            name=f"durable stream of {records} records, read by another process",
            calls={
                "kstore": partial(work.stream, directory, records),
                "kstore, nobody reads": partial(work.stream, directory, records, reader=False),
                "write, fdatasync each MiB": partial(work.raw_stream, directory, records),
                "4 M records/s": lambda: Timed(1 / WANTED, result=records),
                "10 ms": lambda: Timed(0.010, result=records),
            },
            amount=1,
            unit="records",
            ceiling="write, fdatasync each MiB",
            targets=frozenset(["4 M records/s", "10 ms"]),
            bars=(
                ("kstore", "4 M records/s", 1.0),
                ("kstore reader", "4 M records/s", 1.0),
                ("kstore ack p99", "10 ms", None),
                ("kstore, nobody reads", "write, fdatasync each MiB", None),
            ),
            rounds=5,
        )
        yield wide(directory, max(records, 200_000))


def wide(directory: Path, records: int) -> Contest:
    """Batches of 1 MiB, at most 16 MiB waiting, beside every raw way to stream to a disk.

    RWF_DONTCACHE and O_DIRECT leave nothing in the page cache for who reads behind. Somebody has to
    write the zeros that others write over: that is wanted to be counted, and shown without, too.
    """
    records = records // work.WIDE.together * work.WIDE.together
    ours = "kstore, ready batches, nobody reads"
    values = "kstore, values, nobody reads"
    streamed = partial(work.stream, directory, records)
    calls: Calls = {
        ours: partial(streamed, shape=work.READY, reader=False),
        "kstore, ready batches": partial(streamed, shape=work.READY),
        values: partial(streamed, shape=work.WIDE, reader=False),
        "kstore, values": partial(streamed, shape=work.WIDE),
        "write, fdatasync at the end": partial(work.buffered, directory, records),
        "write, fdatasync each MiB": partial(work.buffered, directory, records, MIB),
        "write, synced behind": partial(work.synced_behind, directory, records),
    }
    batch = len(prepared(work.WIDE.together))
    size = records // work.WIDE.together * batch // MIB * MIB
    writing = Writing(Setting(directory, size), MIB)
    a_record = batch / work.WIDE.together / MIB  # blocks
    positions = sequential(size // MIB, MIB)

    def raw(call: Callable[[], Timed], before: Callable[[], float] = float) -> Timed:
        return Timed((before() + call().seconds) * a_record, result=records)

    for method in SEQUENTIAL:
        if method.name in RAW and not writing.why_not(method):
            write = partial(writing.write, method, positions)
            name = f"{method.name} of 1 MiB"
            calls[name] = partial(raw, write)
            if method.zeros:
                calls[name + ZEROED] = partial(raw, write, writing.zero_again)
    if not writing.why_no_ring():
        name, write = (
            "io_uring, O_DIRECT over zeros, 4 at once",
            partial(writing.by_ring, positions, 4),
        )
        calls[name] = partial(raw, write)
        calls[name + ZEROED] = partial(raw, write, writing.zero_again)
    others = [name for name in calls if not name.startswith("kstore") and "fdatasync" not in name]
    unpaid = {name for name in others if name + ZEROED in others}
    return Contest(
        name=f"durable stream of {records} records in batches of 1 MiB",
        calls=calls,
        amount=1,
        unit="records",
        bars=(
            *((ours, name, None if name in unpaid else OF_THE_BEST) for name in others),
            (ours, "write, fdatasync at the end", OF_BUFFERED),
            (ours, "write, fdatasync each MiB", OF_BUFFERED),
            *((values, name, None) for name in others),
            ("kstore, ready batches", ours, None),
            ("kstore, values", values, None),
        ),
        rounds=5,
    )
