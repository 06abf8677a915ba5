"""One pass over a segment by each kernel that makes one: over its headers only, or with every
checksum; and finding sound batches in damage.

What each has to find is another thing, on the same bytes: beside the bare chain of headers, or a
read of every byte, is what it adds.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kstore._native import batch, limits, salvage
from kstore._native.audit import BatchAudit
from kstore._native.checksum import crc32c
from kstore._native.dump import LineDumper
from kstore._native.locate import find_batch, find_end
from kstore._native.producers import ProducerTable
from kstore._native.recover import SegmentScan, walk_tail
from kstore._native.transactions import AbortedRanges, TransactionWalk
from kstore.bench.contest import Contest, scaled
from kstore.bench.kernels_rows import TIME, Batches
from kstore.record.codec import decompress

SIZE = 64 << 20
SHAPES = {"16 KB batches": 150, "one-record batches": 1}
PRODUCERS = 8
OVERHEAD = 61  # bytes of a batch v2 in front of its records
NO_END = 1 << 62
CHAIN, READ, COPY = "one chain in C", "read every byte", "copy the text"
CRC = "its CRC alone"
Calls = dict[str, Callable[[], object]]


def contest(name: str, calls: Calls, ceiling: str, data: bytes, expected: object) -> Contest:
    return Contest(
        name=name,
        calls=calls,
        amount=len(data),
        bars=tuple(
            (each, ceiling, None) for each in calls if ceiling and each not in (CHAIN, READ)
        ),
        expected=expected,
        unchecked=frozenset([CHAIN, READ, COPY]),
        ceiling=ceiling,
        rounds=7,
    )


class Walks:
    """Every walk gives the size of the segment if it found in it what is there."""

    def __init__(self, records: int, size: int) -> None:
        self.work = Batches(records, size, producers=PRODUCERS)
        self.data = self.work.data

    def _right(self, found: object, wanted: object) -> int:
        if found != wanted:
            raise AssertionError(f"a walk found {found}, not {wanted}")
        return len(self.data)

    def producers(self) -> int:
        table = ProducerTable()
        end = table.replay(self.data)
        self._right(len(table), min(PRODUCERS, self.work.batches))
        return end

    def transactions(self) -> int:
        return TransactionWalk(0).walk(self.data, 0, NO_END)

    def epochs(self) -> int:
        return self._right(
            salvage.epoch_runs(self.data, 0, len(self.data)), [(0, self.work.batches, 0)]
        )

    def skip(self) -> int:
        return salvage.skip_to(self.data, 0, len(self.data), NO_END)

    def tail(self, *, check: bool) -> int:
        return walk_tail(self.data, 0, check_crc=check)[1]

    def end_of_reader(self) -> int:
        return find_end(self.data, 0, 0, False)[0]

    def scan(self) -> int:
        walk = SegmentScan(0, len(self.data))
        walk.feed(self.data)
        walk.finish()
        self._right(walk.next_offset, self.work.count)
        return walk.valid_size

    def audit(self) -> int:
        walk = BatchAudit(0, len(self.data), b"", b"")
        walk.walk(self.data)
        return self._right(walk.batches, self.work.batches)

    def sound(self) -> int:
        end, batches = salvage.find_run(self.data, 0)[:2]
        self._right(batches, self.work.batches)
        return end


def walking() -> Iterator[Contest]:
    for name, records in SHAPES.items():
        walks = Walks(records, scaled(SIZE))
        data = walks.data
        chain = partial(limits.count_frames, data)
        every = partial(limits.read_all, data)
        yield contest(
            f"walk {len(data):,} bytes of {name}, headers only",
            {
                "producers": walks.producers,
                "transactions": walks.transactions,
                "epochs": walks.epochs,
                "to an offset": walks.skip,
                "verify's audit": walks.audit,
                "end of a tail": partial(walks.tail, check=False),
                "end for a reader": walks.end_of_reader,
                CHAIN: chain,
                READ: every,
            },
            READ if records == 1 else CHAIN,  # a chain waits for each header; reading does not
            data,
            len(data),
        )
        yield contest(
            f"walk {len(data):,} bytes of {name}, every checksum",
            {
                "recovery's scan": walks.scan,
                "sound batches": walks.sound,
                "end of a tail": partial(walks.tail, check=True),
                READ: every,
            },
            READ,
            data,
            len(data),
        )


def in_damage() -> Iterator[Contest]:
    """The first sound batch behind damaged bytes; the end of a batch whose size is not right."""
    noise = random.Random(7).randbytes(scaled(SIZE // 4))
    work = Batches(10, 1 << 16)
    data = noise + work.data
    yield contest(
        f"find a batch behind {len(noise):,} damaged bytes",
        {
            "kstore": partial(salvage.find_batch, data, 0, 0, NO_END),
            READ: partial(limits.read_all, data),
        },
        READ,
        data,
        len(noise),
    )
    one = bytearray(Batches(1000, 0).one())
    right = len(one)
    one[8:12] = (right // 2).to_bytes(4, "big")
    yield contest(
        f"find the end of a batch of {right:,} bytes whose size is damaged",
        {
            "kstore": partial(salvage.find_extent, bytes(one), 0, right, 0, NO_END),
            READ: partial(limits.read_all, one),
        },
        READ,
        bytes(one),
        right,
    )


def lines(data: bytes) -> int:
    """Of ``dump-log --deep-iteration``: how many bytes of text."""
    dumper = LineDumper(deep=True, decompress=decompress)
    dumper.feed(data, 0)
    size = 0
    while (some := dumper.next_lines()) is not None:
        size += len(some)
    dumper.close()
    return size


def dumping() -> Contest:
    data = Batches(150, scaled(SIZE // 4)).data
    size = lines(data)
    out, text = bytearray(size), bytes(size)
    return contest(
        f"{size:,} bytes of lines about {len(data):,} bytes of 16 KB batches",
        {"kstore": partial(lines, data), COPY: partial(limits.copy, out, text)},
        COPY,
        text,
        size,
    )


def on_one_batch() -> Iterator[Contest]:
    """What is done to a batch on its way in: its first bytes, a time of appending, a check of the
    records of one that was compressed."""
    one = Batches(150, 0).one()
    sized = f"of {len(one):,} bytes"
    made = bytearray(one)
    about = {"base_offset": 7, "leader_epoch": 3}

    def in_place() -> bytes:
        batch.stamp(made, **about)
        return bytes(made[:16])

    def with_a_time() -> int:
        batch.stamp_timestamp(made, log_append_time=True, max_timestamp=TIME)
        return int.from_bytes(made[17:21], "big")

    calls: Calls = {
        "in place": in_place,
        "alone": lambda: batch.prefix(size=len(one), **about),
    }
    yield replace(contest(f"stamp a batch {sized}", calls, "", b"", None), amount=0)
    stamped = bytearray(one)
    batch.stamp_timestamp(stamped, log_append_time=True, max_timestamp=TIME)
    right = int.from_bytes(stamped[17:21], "big")
    calls = {
        "kstore": with_a_time,
        CRC: partial(crc32c, memoryview(stamped)[21:]),
    }
    yield contest(f"stamp a batch {sized} with a time", calls, CRC, one, right)
    check = partial(
        batch.validate_records,
        one[OVERHEAD:],
        count=150,
        now=TIME,
        base_timestamp=TIME,
        max_timestamp=TIME + 149,
    )
    calls = {"kstore": lambda: check().ok, READ: partial(limits.read_all, one[OVERHEAD:])}
    yield contest(f"check the records of a batch {sized}", calls, READ, one, True)
    known = AbortedRanges([(7, n * 10, n * 10 + 5) for n in range(1000)])
    plain = {(7, n) for start in range(0, 10_000, 10) for n in range(start, start + 5)}
    calls = {
        "kstore": lambda: sum((7, n) in known for n in range(100)),
        "a set of every offset": lambda: sum((7, n) in plain for n in range(100)),
    }
    yield replace(contest("100 batches: aborted or not", calls, "", b"", 50), amount=0)


def reaching() -> Contest:
    """From an index entry to the batch of an offset: 4 KiB of headers at the most, by default."""
    data = Batches(1, 4096).data
    last = len(data) // len(Batches(1, 0).one()) - 1
    right = (last * (len(data) // (last + 1)), len(data) // (last + 1))
    calls: Calls = {
        "kstore": partial(find_batch, data, 0, last),
        CHAIN: partial(limits.count_frames, data),
    }
    return contest("from an index entry to the last batch behind it", calls, CHAIN, data, right)


def contests() -> Iterator[Contest]:
    yield from walking()
    yield from in_damage()
    yield dumping()
    yield reaching()
    yield from on_one_batch()
