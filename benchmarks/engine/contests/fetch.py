"""How a log serves readers: views of warm files, a cold log, and slices sent to a socket, beside
pread and C loops over the same file.

The file is open before the clock of a read starts, for kstore and the others; nothing of it is
mapped. Who maps it does so while it is timed, page faults included, and unmaps it, too.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import kstore
from engine.clock import time_call
from engine.data.batches import client_batch
from engine.data.logs import TOPIC, fill
from kstore._native.bench import disk_loops, memory_loops
from kstore._native.read.segment_view import Slice
from kstore.bench.contest import Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import block_of, drop, opened, sequential, why_not_cold
from kstore.bench.machine import sockets
from kstore.bench.peers import availability
from kstore.bench.workload import Setting
from kstore.files.filenames import log_name

MIB = 1 << 20
SIZE = 1000 << 20  # one segment
BATCH = 150  # records
SENDFILE = {"copies": 1.15, "drops": 1.7}  # wanted against read and send


def slices(log: kstore.Log, size: int) -> Iterator[tuple[Slice, int]]:
    """Fetches of 1 MiB, each with the size of its complete batches, which all have one size; the
    next fetch starts after them."""
    batch = len(client_batch(BATCH))
    offset = seen = 0
    while seen < size and (found := log.read(offset, MIB)) is not None:
        count = found.size // batch
        yield found, count * batch
        offset, seen = offset + count * BATCH, seen + count * batch


def rotate(position: int, words: int) -> int:
    """Rotate the exclusive or of a slice's words to the word boundaries of the file."""
    turned = 8 * (position % 8)
    return (words << turned | words >> (64 - turned)) & (1 << 64) - 1


def summed(log: kstore.Log) -> int:
    """Read every byte of every slice; the exclusive or of the log's words."""
    words = 0
    for found, used in slices(log, log.size):
        with found.memory() as memory:
            words ^= rotate(found.position, memory_loops.read_all(memory[:used]))
    return words


def as_one_view(log: kstore.Log) -> int:
    """Read every byte of a segment as one view; the exclusive or of its words."""
    with log.segments.views[0].all_published().memory() as memory:
        return memory_loops.read_all(memory)


def scanned(log: kstore.Log) -> int:
    """Read every record as columns with its checksum checked; the record count."""
    count = sum(len(columns) for columns in log.view().scan())
    if count != log.end_offset:
        raise AssertionError(f"{count} of {log.end_offset} records")
    return count


def words_of(file: Path) -> int:
    """The exclusive or of a file's words, by NumPy."""
    words = 0
    with file.open("rb") as data:
        while block := data.read(MIB):
            padded = block + bytes(-len(block) % 8)
            words ^= int(np.bitwise_xor.reduce(np.frombuffer(padded, "<u8")))
    return words


def by_pread(fd: int, buffer: memoryview, advice: int | None = None) -> int:
    """Read a file by preads of 1 MiB, the last one shorter; the exclusive or of its words."""
    if advice is not None:
        os.posix_fadvise(fd, 0, 0, advice)
    size = os.fstat(fd).st_size
    words = disk_loops.read_at(fd, buffer, sequential(size // MIB, MIB), summed=True)
    if rest := size % MIB:
        last = sequential(1, 1) + size - rest
        words ^= disk_loops.read_at(fd, buffer[:rest], last, summed=True)
    return words


def by_first_touch(fd: int) -> int:
    """Map a file, read every byte, unmap it; the exclusive or of its words."""
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapping:
        return memory_loops.read_all(mapping)


def from_file(file: Path, read: Callable[[int], int], *, is_cold: bool = False) -> Timed:
    """Time a read of a file that is open, and not mapped; ``is_cold``: out of the page cache."""
    with opened(file, os.O_RDONLY) as fd:
        if is_cold:
            drop(fd)
        return time_call(partial(read, fd))


def from_log(
    store: Path, file: Path, read: Callable[[kstore.Log], int], *, is_cold: bool = False
) -> Timed:
    """Time a read of an open log whose segment is not mapped, from mapping to unmapping it."""

    def mapped(log: kstore.Log) -> int:
        seen = read(log)
        for view in log.segments.views:
            view.unmap()
        return seen

    with kstore.open(store) as opened_store, opened(file, os.O_RDONLY) as fd:
        log = opened_store[TOPIC][0]
        if is_cold:
            drop(fd)
        return time_call(partial(mapped, log))


def warm(store: Path, file: Path, size: int) -> Contest:
    buffer = block_of(MIB)
    plain = "pread of 1 MiB, summed"
    floor = "mmap, first touch, summed"
    calls: Calls = {
        "kstore, the segment as a view, summed": partial(from_log, store, file, as_one_view),
        "kstore, slices of 1 MiB, summed": partial(from_log, store, file, summed),
        plain: partial(from_file, file, partial(by_pread, buffer=buffer)),
        floor: partial(from_file, file, by_first_touch),
    }
    return Contest(
        name=f"warm reads of a log of {size} bytes",
        calls=calls,
        amount=size,
        expected=words_of(file),
        ceiling=floor,
        bars=(
            ("kstore, the segment as a view, summed", plain, 1.5),
            ("kstore, slices of 1 MiB, summed", plain, 1.5),
            ("kstore, the segment as a view, summed", floor, 0.9),
        ),
        rounds=9,
    )


def cold(store: Path, file: Path, size: int) -> Contest:
    buffer = block_of(MIB)
    plain = "pread of 1 MiB, summed"

    advised = partial(by_pread, buffer=buffer, advice=os.POSIX_FADV_SEQUENTIAL)
    by_kstore = partial(from_log, store, file, is_cold=True)
    forgotten = partial(from_file, file, is_cold=True)
    columns = "kstore, columns with CRC"
    calls: Calls = {
        columns: partial(by_kstore, scanned),
        "kstore, slices of 1 MiB, summed": partial(by_kstore, summed),
        plain: partial(forgotten, partial(by_pread, buffer=buffer)),
        "pread of 1 MiB, FADV_SEQUENTIAL": partial(forgotten, advised),
    }
    return Contest(
        name=f"cold reads of a log of {size} bytes",
        calls=calls,
        amount=size,
        expected=words_of(file),
        unchecked=frozenset([columns]),  # it counts records instead of summing words
        bars=(
            (columns, plain, 1.4),
            ("kstore, slices of 1 MiB, summed", plain, 1.4),
        ),
        rounds=5,
    )


def sending(log: kstore.Log, file: Path, directory: Path, kind: str) -> Iterator[Contest]:
    """Slices of 1 MiB by sendfile from one open descriptor of the segment."""
    sent = directory / "sent"
    if not sent.exists():
        os.link(file, sent)
    size = os.path.getsize(file) // MIB * MIB
    setting = Setting(directory, size, missing=availability.missing)
    with closing(sockets.Sending(setting, MIB)) as work:

        def by_slices(out: int) -> None:
            left = work.size
            for found, used in slices(log, work.size):
                position, end = found.position, found.position + min(used, left)
                left -= end - position
                while position < end:
                    position += os.sendfile(out, work.file, position, end - position)

        methods = work.methods()
        ours = "kstore, slices by sendfile"
        sends = {
            ours: by_slices,
            "read+send": methods["read+send"],
            "sendfile": methods["sendfile"],
        }
        drops = kind == "drops"
        calls: Calls = {
            name: partial(work.sent, name, send, drop=drops) for name, send in sends.items()
        }
        pins = f"pinned to CPUs {work.cpus[0]} and {work.cpus[1]}"
        yield Contest(
            name=f"slices of 1 MiB to a receiver that {kind}, {work.control}, "
            f"{pins if work.cpus[0] is not None else 'not pinned'}",
            calls=calls,
            amount=MIB,
            ceiling="sendfile",
            bars=(
                (ours, "read+send", SENDFILE[kind]),
                (ours, "sendfile", 0.95),
                (f"{ours} sender CPU", "read+send sender CPU", 1 / 0.6),
            ),
            rounds=9,
        )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        directory = Path(path)
        store = fill(directory, BATCH, scaled(SIZE, 2 * MIB))
        file = store / f"{TOPIC}-0" / log_name(0)
        with kstore.open(store) as opened_store:
            log = opened_store[TOPIC][0]
            if len(log.segments.views) != 1 or (size := log.size) != os.path.getsize(file):
                raise AssertionError("the log has more than one segment")
        yield warm(store, file, size)
        with kstore.open(store) as opened_store:
            for kind in SENDFILE:
                yield from sending(opened_store[TOPIC][0], file, directory, kind)
        if reason := why_not_cold(file):
            availability.missing["cold reads"] = reason
        else:
            yield cold(store, file, size)
