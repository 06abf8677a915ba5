"""Random logs to be compacted, written batch by batch by the oracle."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kstore.record import Record
from oracle import writer
from oracle.plain import ABORT, COMMIT, CREATE_TIME, LOG_APPEND_TIME, PlainBatch, PlainRecord
from oracle.reader import read_log
from support.disks import HastyDisk
from support.logs import open_log

NOW = 1_700_000_000_000
RETENTION = 86_400_000


class Shape(NamedTuple):
    """What a random log contains."""

    batches: int = 60
    segments: int = 5
    keys: int = 12
    magics: tuple[int, ...] = (2,)
    codecs: tuple[int, ...] = (0, 0, 1, 2, 3, 4)
    transactions: bool = True
    null_keys: bool = False


def random_segments(rng: random.Random, shape: Shape) -> dict[int, bytes]:
    """Log files by base offset; the last is the active one."""
    made: list[tuple[int, bytes]] = []
    offset = rng.choice((0, 7))
    sequences: dict[int, int] = {}
    epochs = {pid: rng.randrange(3) for pid in (20, 21, 22)}
    open_for: set[int] = set()
    for _ in range(shape.batches):
        magic = rng.choice(shape.magics)
        count = rng.choice((1, 1, 2, 5, 9))
        records = _records(rng, shape, offset, count, headers=magic == 2)
        if magic < 2:
            data = _legacy(rng, shape, records, magic)
        elif shape.transactions and rng.random() < 0.6:
            data, count = _transactional(rng, records, offset, sequences, epochs, open_for, shape)
        else:
            data = _plain_batch(rng, shape, records, sequences)
        made.append((offset, data))
        offset += count
        if rng.random() < 0.05:
            offset += rng.randrange(1, 4)
    return _cut(rng, made, shape.segments)


def _records(
    rng: random.Random, shape: Shape, offset: int, count: int, *, headers: bool
) -> list[PlainRecord]:
    at = NOW - 10_000_000 + offset * 10
    return [
        PlainRecord(
            offset + n,
            at + rng.randrange(-50, 50),
            None if shape.null_keys and rng.random() < 0.1 else b"k%d" % rng.randrange(shape.keys),
            None if rng.random() < 0.25 else b"v%d" % (offset + n) * rng.randrange(0, 6),
            (("h", b"1"), ("none", None)) if headers and rng.random() < 0.2 else (),
        )
        for n in range(count)
    ]


def _legacy(rng: random.Random, shape: Shape, records: Sequence[PlainRecord], magic: int) -> bytes:
    codec = rng.choice([codec for codec in shape.codecs if codec < 4])
    kind = LOG_APPEND_TIME if magic == 1 and rng.random() < 0.3 else CREATE_TIME
    if kind == LOG_APPEND_TIME:
        records = [record._replace(timestamp=records[0].timestamp) for record in records]
    if codec:
        return writer.wrapper(records, magic=magic, codec=codec, timestamp_type=kind)
    return b"".join(
        writer.message(
            record.offset,
            record.key,
            record.value,
            magic=magic,
            timestamp=record.timestamp,
            timestamp_type=kind,
        )
        for record in records
    )


def _plain_batch(
    rng: random.Random,
    shape: Shape,
    records: Sequence[PlainRecord],
    sequences: dict[int, int],
) -> bytes:
    pid = rng.choice((-1, -1, 10, 11))
    kind = LOG_APPEND_TIME if rng.random() < 0.2 else CREATE_TIME
    sequence = -1
    if pid >= 0:
        sequence = sequences.get(pid, 0)
        sequences[pid] = sequence + len(records)
    return writer.batch(
        records,
        codec=rng.choice(shape.codecs),
        timestamp_type=kind,
        max_timestamp=records[0].timestamp if kind == LOG_APPEND_TIME else None,
        producer_id=pid,
        producer_epoch=0 if pid >= 0 else -1,
        base_sequence=sequence,
    )


def _transactional(
    rng: random.Random,
    records: Sequence[PlainRecord],
    offset: int,
    sequences: dict[int, int],
    epochs: dict[int, int],
    open_for: set[int],
    shape: Shape,
) -> tuple[bytes, int]:
    pid = rng.choice((20, 21, 22))
    if (pid in open_for and rng.random() < 0.5) or rng.random() < 0.03:
        open_for.discard(pid)
        if rng.random() < 0.2:  # a coordinator raises the epoch with the marker
            epochs[pid] += 1
            sequences.pop(pid, None)
        kind = rng.choice((ABORT, COMMIT, COMMIT))
        return writer.marker(
            offset,
            kind,
            timestamp=records[0].timestamp,
            producer_id=pid,
            producer_epoch=epochs[pid],
        ), 1
    open_for.add(pid)
    sequence = sequences.get(pid, 0)
    sequences[pid] = sequence + len(records)
    return writer.batch(
        records,
        codec=rng.choice(shape.codecs),
        producer_id=pid,
        producer_epoch=epochs[pid],
        base_sequence=sequence,
        transactional=True,
    ), len(records)


def _cut(rng: random.Random, made: list[tuple[int, bytes]], count: int) -> dict[int, bytes]:
    starts = sorted({0, *(rng.randrange(1, len(made)) for _ in range(count - 1))})
    ends = [*starts[1:], len(made)]
    return {
        made[start][0]: b"".join(data for _, data in made[start:end])
        for start, end in zip(starts, ends, strict=True)
    }


def write_logs(directory: Path, segments: dict[int, bytes]) -> None:
    directory.mkdir(parents=True)
    for base, data in segments.items():
        (directory / f"{base:020}.log").write_bytes(data)


def live_segments(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in sorted(directory.glob("*.log"))}


def batches_of(segments: dict[int, bytes]) -> list[PlainBatch]:
    return [batch for base in sorted(segments) for batch in read_log(segments[base]).batches]


def open_compacted(directory, *, now=NOW, **named):
    named = {
        "clean": True,
        "file_delete_delay_ms": 0,
        "files": HastyDisk(),
    } | named
    return open_log(
        directory,
        clock=lambda: now,
        cleanup_policy="compact",
        delete_retention_ms=RETENTION,
        **named,
    )


def fill(directory, *, rounds=6, keys=20, **named):
    """A log of several rolled segments with the same keys over and over."""
    log = open_compacted(directory, **named)
    for number in range(rounds):
        log.extend([Record(-1, NOW, b"k%02d" % n, b"%d-%d" % (number, n)) for n in range(keys)])
        log.roll()
    return log


def contents(log):
    return [(record.offset, record.key, record.value) for record in log]
