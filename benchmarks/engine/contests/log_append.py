"""Appends in page cache against Kafka's log layer, embedded stores and the bare system call.

Every contestant works on a log or file of its own and deletes it, so that its dirty pages are not
written back while another one is timed.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from engine.data.batches import VALUE_SIZE, at_offsets, client_batch
from engine.data.fresh import HOT, copies, hot, in_turn, value_lists, values_in_turn
from engine.data.logs import SHAPES, check_log, fresh_log, time_each
from engine.peers.kafka import KafkaLog, kafka_log, timed
from engine.peers.stores import StorePeer, installed_stores
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import raw_file

MB = 1_000_000
# name: bytes appended per round, wanted against Kafka, wanted of a follower against a raw write
BARS = {
    "110 KB": (200 * MB, 1.5, 0.7),
    "16.5 KB": (200 * MB, 1.5, 0.7),
    "1.15 KB": (100 * MB, 1.0, 0.7),
}
FOLLOWED = 64 << 20  # bytes of batches that a follower appends, each at its own offset
RATE = 15_000_000  # records a second that are wanted of extend
EXTEND, PWRITE = "kstore, extend", "pwrite of the batch"


def append_batches(directory: Path, batches: Sequence[bytes], records: int, role: str) -> Timed:
    """Append batches as "leader" (with every check of a Kafka leader) or as "follower" (each at its
    own offset). The figure is per batch, without the first, which opens the files."""
    with fresh_log(directory) as log:
        append = log.append_as_leader if role == "leader" else log.append_as_follower
        first, *rest = batches
        append(first)
        started = perf_counter()
        for batch in rest:
            append(batch)
        seconds = perf_counter() - started
        check_log(log, len(batches) * records, sum(map(len, batches)))
    return Timed(seconds / len(rest), result=len(batches))


def write_batches(directory: Path, batches: Sequence[bytes]) -> Timed:
    """write(2) of the same bytes; per batch, without the first as in :func:`append_batches`."""
    first, *rest = batches
    with raw_file(directory, sum(map(len, batches))) as fd:
        write = os.write
        write(fd, first)
        started = perf_counter()
        for batch in rest:
            write(fd, batch)
        seconds = perf_counter() - started
    return Timed(seconds / len(rest), result=len(batches))


def extend_thousands(directory: Path, count: int, *, is_hot: bool = False) -> Timed:
    """extend() with 1000 values: encode, checksum, write, index; per call, without the first.

    ``is_hot``: the same list at each call.
    """
    lists = value_lists(1 if is_hot else count)
    first, *rest = in_turn(lists, count + 1)
    with fresh_log(directory) as log:
        log.extend(first)
        extend = log.extend
        started = perf_counter()
        for values in rest:
            extend(values)
        seconds = perf_counter() - started
        check_log(log, (count + 1) * 1000)
        if log[1999].value != rest[0][999]:
            raise AssertionError("another value was read back")
    return Timed(seconds / count, result=count)


def pwrite_thousands(directory: Path, count: int, *, is_hot: bool = False) -> Timed:
    """pwrite(2) of the batch that 1000 values make; per call, without the first."""
    batch = client_batch(1000)
    size = len(batch)
    first, *rest = [batch] * (count + 1) if is_hot else copies(batch, count + 1)
    with raw_file(directory, (count + 1) * size, flags=0) as fd:
        pwrite = os.pwrite
        pwrite(fd, first, 0)
        started = perf_counter()
        for number, each in enumerate(rest, 1):
            pwrite(fd, each, number * size)
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count)


def put_thousands(peer: StorePeer, directory: Path, count: int) -> Timed:
    """One transaction per 1000 values, keys ready-made; per transaction, without the first."""
    lists = in_turn(value_lists(count), count + 1)
    first, *rest = (peer.rows(n * 1000, values) for n, values in enumerate(lists))
    with TemporaryDirectory(dir=directory) as path, peer.open(Path(path)) as store:
        store.put(first)
        started = perf_counter()
        for some in rest:
            store.put(some)
        seconds = perf_counter() - started
        if store.sum_sizes() != (count + 1) * 1000 * VALUE_SIZE:
            raise AssertionError(f"{peer.name} does not have every value")
    return Timed(seconds / count, result=count)


def append_singles(directory: Path, count: int, *, is_hot: bool = False) -> Timed:
    """append() of one 100-byte value, each call timed; ``is_hot``: the same value each time."""
    values = values_in_turn(count)
    with fresh_log(directory) as log:
        log.append(values[0])
        found = time_each(log.append, [values[0]] * count if is_hot else values)
        check_log(log, count + 1)
    return found


def write_singles(directory: Path, count: int) -> Timed:
    """os.write of ready one-record batches, each call timed."""
    first, *rest = copies(client_batch(1), count + 1)
    with raw_file(directory, (count + 1) * len(first)) as fd:
        os.write(fd, first)
        return time_each(partial(os.write, fd), rest)


def prepared(name: str, directory: Path, peer: KafkaLog | None) -> Contest:
    size, against_kafka, against_write = BARS[name]
    records = SHAPES[name]
    batch = client_batch(records)
    count = scaled(size // len(batch), 20)
    sent = copies(batch, count)
    batches = list(at_offsets(batch, min(count, FOLLOWED // len(batch)), records))
    leader = partial(append_batches, directory, records=records, role="leader")
    calls: Calls = {
        "kstore, as leader": partial(leader, sent),
        "write": partial(write_batches, directory, sent),
        f"kstore, as leader{HOT}": partial(leader, [batch] * count),
        f"write{HOT}": partial(write_batches, directory, [batch] * count),
        "kstore, as follower": partial(append_batches, directory, batches, records, "follower"),
        "write of what follows": partial(write_batches, directory, batches),
    }
    bars: list[Bar] = [
        ("kstore, as follower", "write of what follows", against_write),
        ("kstore, as leader", "write", None),
        (f"kstore, as leader{HOT}", f"write{HOT}", None),
    ]
    if peer is not None:
        calls["Kafka"] = lambda: timed(peer.append(records, count * len(batch)))
        bars.append(("kstore, as leader", "Kafka", against_kafka))
    return Contest(
        name=f"append a prepared batch of {name}, {records} records",
        calls=calls,
        easier=hot(calls),
        amount=len(batch),
        bars=tuple(bars),
        unchecked=frozenset(["kstore, as follower", "write of what follows"]),
        ceiling="write",
        rounds=9,
    )


def values(directory: Path) -> Contest:
    count = scaled(1000, 20)
    rate = "15 M records/s"
    calls: Calls = {
        EXTEND: partial(extend_thousands, directory, count),
        PWRITE: partial(pwrite_thousands, directory, count),
        EXTEND + HOT: partial(extend_thousands, directory, count, is_hot=True),
        PWRITE + HOT: partial(pwrite_thousands, directory, count, is_hot=True),
        rate: lambda: Timed(1000 / RATE, result=count),
    }
    bars: list[Bar] = [(EXTEND, PWRITE, 0.5), (EXTEND, rate, 1.0)]
    bars.append((EXTEND + HOT, PWRITE + HOT, None))
    for peer in installed_stores():
        name = "SQLite, WAL" if peer.name == "SQLite" else peer.name
        calls[name] = partial(put_thousands, peer, directory, count)
        bars.append((EXTEND, name, 5.0 if name == "LMDB" else None))
    return Contest(
        name="append 1000 values of 100 bytes",
        calls=calls,
        easier=hot(calls),
        amount=1000,
        unit="records",
        ceiling=PWRITE,
        targets=frozenset([rate]),
        bars=tuple(bars),
        rounds=9,
    )


def single(directory: Path, peer: KafkaLog | None) -> Contest:
    count = scaled(200_000, 1000)
    calls: Calls = {
        "kstore": partial(append_singles, directory, count),
        "os.write": partial(write_singles, directory, count),
        f"kstore{HOT}": partial(append_singles, directory, count, is_hot=True),
    }
    bars: list[Bar] = [("kstore", "os.write", None), ("kstore p99", "kstore", None)]
    if peer is not None:
        size = len(client_batch(1))
        calls["Kafka"] = lambda: timed(peer.append(1, count * size), is_single=True)
        bars += [("kstore", "Kafka", 1.0), ("kstore p99", "Kafka p99", 1.0)]
    return Contest(
        name="append one record of 100 bytes, each call timed",
        ceiling="os.write",
        calls=calls,
        easier=hot(calls),
        amount=1,
        unit="records",
        bars=tuple(bars),
        rounds=9,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        directory = Path(path)
        for name in BARS:
            yield prepared(name, directory, peer)
        yield values(directory)
        yield single(directory, peer)
