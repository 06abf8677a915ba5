"""One pass over a segment by each kernel that makes one, and searches for valid batches in damage.

Each kernel looks for something else in the same bytes: the difference to the bare chain of
headers, or to a read of every byte, is what it adds.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kstore._native.append import validate_batch
from kstore._native.append.producer_table import ProducerTable
from kstore._native.bench import memory_loops
from kstore._native.format.checksum import crc32c
from kstore._native.read.aborted_transactions import AbortedRanges, TransactionWalk
from kstore._native.read.dump_lines import LineDumper
from kstore._native.read.segment_view import find_batch_reaching, find_end
from kstore._native.recovery import salvage
from kstore._native.recovery.batch_audit import BatchAudit
from kstore._native.recovery.segment_scan import SegmentScan, walk_tail
from kstore.bench.contest import Calls, Contest, floor_contest, scaled
from kstore.bench.data.batches import OVERHEAD, TIME, Batches
from kstore.record.codec import decompress

SIZE = 64 << 20
SHAPES = {"16 KB batches": 150, "one-record batches": 1}
PRODUCERS = 8
NO_END = 1 << 62
CHAIN, READ = "one chain in C", "read every byte"


class Walks:
    """Walks that all return the size of the segment if they found in it what it holds."""

    def __init__(self, records: int, size: int) -> None:
        self.work = Batches(records, size, producers=PRODUCERS)
        self.data = self.work.data

    def _check(self, found: object, wanted: object) -> int:
        if found != wanted:
            raise AssertionError(f"a walk found {found}, not {wanted}")
        return len(self.data)

    def producers(self) -> int:
        table = ProducerTable()
        end = table.replay(self.data)
        self._check(len(table), min(PRODUCERS, self.work.batches))
        return end

    def epochs(self) -> int:
        runs = salvage.epoch_runs(self.data, 0, len(self.data))
        return self._check(runs, [(0, self.work.batches, 0)])

    def scan(self) -> int:
        walk = SegmentScan(0, len(self.data))
        walk.feed(self.data)
        walk.finish()
        self._check(walk.next_offset, self.work.count)
        return walk.valid_size

    def audit(self) -> int:
        walk = BatchAudit(0, len(self.data), b"", b"")
        walk.walk(self.data)
        return self._check(walk.batches, self.work.batches)

    def valid_batches(self) -> int:
        found = salvage.scan_valid_batches(self.data, 0)
        self._check(found.batch_count, self.work.batches)
        return found.end


def walking(name: str, records: int) -> Iterator[Contest]:
    walks = Walks(records, scaled(SIZE))
    data = walks.data
    size = len(data)
    chain, read = partial(memory_loops.count_frames, data), partial(memory_loops.read_all, data)
    calls: Calls = {
        "producers": walks.producers,
        "transactions": lambda: TransactionWalk(0).walk(data, 0, NO_END),
        "epochs": walks.epochs,
        "to an offset": lambda: salvage.skip_to(data, 0, size, NO_END),
        "verify's audit": walks.audit,
        "end of a tail": lambda: walk_tail(data, 0, check_crc=False)[1],
        "end for a reader": lambda: find_end(data, 0, 0, False)[0],
        CHAIN: chain,
    }
    title = f"walk {size:,} bytes of {name}"
    by_headers = floor_contest(f"{title}, headers only", calls, (READ, read), size, expected=size)
    # A chain waits for each header, which costs more than reading one-record batches.
    ceiling = READ if records == 1 else CHAIN
    yield replace(by_headers, ceiling=ceiling, unchecked=frozenset([CHAIN, READ]))
    calls = {
        "recovery's scan": walks.scan,
        "sound batches": walks.valid_batches,
        "end of a tail": lambda: walk_tail(data, 0, check_crc=True)[1],
    }
    yield floor_contest(f"{title}, every checksum", calls, (READ, read), size, expected=size)


def in_damage() -> Iterator[Contest]:
    """The first valid batch behind damaged bytes; the end of a batch whose size is wrong."""
    noise = random.Random(7).randbytes(scaled(SIZE // 4))
    data = noise + Batches(10, 1 << 16).data
    yield floor_contest(
        f"find a batch behind {len(noise):,} damaged bytes",
        {"kstore": partial(salvage.find_valid_batch, data, 0, 0, NO_END)},
        (READ, partial(memory_loops.read_all, data)),
        len(data),
        expected=len(noise),
    )
    one = bytearray(Batches(1000, 0).one())
    size = len(one)
    one[8:12] = (size // 2).to_bytes(4, "big")
    yield floor_contest(
        f"find the end of a batch of {size:,} bytes whose size is damaged",
        {"kstore": partial(salvage.find_extent, bytes(one), 0, size, 0, NO_END)},
        (READ, partial(memory_loops.read_all, one)),
        size,
        expected=size,
    )


def count_text(data: bytes) -> int:
    """Bytes of text that ``dump-log --deep-iteration`` prints about a segment."""
    dumper = LineDumper(deep=True, decompress=decompress)
    dumper.feed(data, 0)
    size = 0
    while (some := dumper.next_lines()) is not None:
        size += len(some)
    dumper.close()
    return size


def dumping() -> Contest:
    data = Batches(150, scaled(SIZE // 4)).data
    size = count_text(data)
    return floor_contest(
        f"{size:,} bytes of lines about {len(data):,} bytes of 16 KB batches",
        {"kstore": partial(count_text, data)},
        ("copy the text", partial(memory_loops.copy, bytearray(size), bytes(size))),
        size,
        expected=size,
    )


def reaching() -> Contest:
    """From an index entry to the batch of an offset: 4 KiB of headers at most, by default."""
    data = Batches(1, 4096).data
    one = len(Batches(1, 0).one())
    last = len(data) // one - 1
    return floor_contest(
        "from an index entry to the last batch behind it",
        {"kstore": partial(find_batch_reaching, data, 0, last)},
        (CHAIN, partial(memory_loops.count_frames, data)),
        len(data),
        expected=(last * one, one),
    )


def on_one_batch() -> Iterator[Contest]:
    """What an append does to a batch: stamp its header and timestamp, validate its records."""
    one = Batches(150, 0).one()
    sized = f"of {len(one):,} bytes"
    buffer = bytearray(one)

    def stamp() -> bytes:
        validate_batch.stamp(buffer, base_offset=7, leader_epoch=3)
        return bytes(buffer[:16])

    def stamp_timestamp() -> int:
        validate_batch.stamp_timestamp(buffer, log_append_time=True, max_timestamp=TIME)
        return int.from_bytes(buffer[17:21], "big")

    new_prefix = partial(validate_batch.prefix, size=len(one), base_offset=7, leader_epoch=3)
    calls: Calls = {"in place": stamp, "alone": new_prefix}
    yield Contest(name=f"stamp a batch {sized}", calls=calls, rounds=7)
    stamp_timestamp()
    yield floor_contest(
        f"stamp a batch {sized} with a time",
        {"kstore": stamp_timestamp},
        ("its CRC alone", partial(crc32c, memoryview(bytes(buffer))[21:])),
        len(one),
    )
    records = one[OVERHEAD:]
    validate = partial(
        validate_batch.validate_records,
        records,
        count=150,
        now=TIME,
        base_timestamp=TIME,
        max_timestamp=TIME + 149,
    )
    yield floor_contest(
        f"check the records of a batch {sized}",
        {"kstore": lambda: validate().ok},
        (READ, partial(memory_loops.read_all, records)),
        len(one),
        expected=True,
    )
    aborted = AbortedRanges([(7, n * 10, n * 10 + 5) for n in range(1000)])
    plain = {(7, n) for start in range(0, 10_000, 10) for n in range(start, start + 5)}
    calls = {
        "kstore": lambda: sum((7, n) in aborted for n in range(100)),
        "a set of every offset": lambda: sum((7, n) in plain for n in range(100)),
    }
    yield Contest(name="100 batches: aborted or not", calls=calls, expected=50, rounds=7)


def contests() -> Iterator[Contest]:
    for name, records in SHAPES.items():
        yield from walking(name, records)
    yield from in_damage()
    yield dumping()
    yield reaching()
    yield from on_one_batch()
