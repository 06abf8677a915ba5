"""kstore's turn on a broker's directory: every way of appending there is.

Run as a program it opens the directory, appends, flushes, says what it was promised, and continues
appending until it is killed.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import kstore
from interop.samples import batch_bytes, sample_records
from interop.workload import OLD, SEGMENT
from kstore import Log, Store
from kstore.config import CODECS
from oracle import writer
from oracle.plain import PlainRecord

# Ids of clients that bring their own: beyond Kafka's blocks, below those of kstore's coordinator.
OURS = 1 << 61


class OurProducer:
    """Complete batches of an idempotent or transactional producer, as a client would send them."""

    def __init__(self, producer_id: int, *, transactional: bool, epoch: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional = transactional
        self._sequences: dict[str, int] = {}
        self._part: dict[str, Log] = {}  # logs of the open transaction

    def send(self, log: Log, pairs: list[tuple[bytes | None, bytes | None]], when: int) -> int:
        """Append a batch; returns the offset of its first record."""
        name = f"{log.topic}-{log.partition}"
        sequence = self._sequences.get(name, 0)
        self._sequences[name] = sequence + len(pairs)
        if self.transactional:
            self._part[name] = log
        data = writer.batch(
            [PlainRecord(n, when + n, key, value) for n, (key, value) in enumerate(pairs)],
            codec=sequence % 4,
            leader_epoch=-1,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=self.transactional,
        )
        info = log.append_as_leader(data)
        assert info.last_offset - info.first_offset + 1 == len(pairs)
        return info.first_offset

    def end(self, *, commit: bool) -> None:
        for log in self._part.values():
            log.append_end_marker(self.producer_id, self.epoch, commit=commit)
        self._part.clear()


def environment() -> dict[str, str]:
    """Of a process that runs one of these modules as a program."""
    roots = (Path(kstore.__file__).parents[1], Path(__file__).parents[1])
    return os.environ | {"PYTHONPATH": ":".join(map(str, roots))}


def now_ms() -> int:
    """A time of today: producers with old times are forgotten at once."""
    return int(time.time() * 1000)


def configure(store: Store) -> None:
    """The settings that `workload.prepare` gave the broker, which no directory holds."""
    small: dict[str, Any] = {"segment_bytes": SEGMENT, "index_interval_bytes": 256}
    store.alter_topic("codecs", config=small)
    stamped = {"message_timestamp_type": "LogAppendTime", **small}
    store.alter_topic("append-time", config=stamped)
    store.alter_topic("rolled", config={"segment_ms": 3_600_000, "index_interval_bytes": 100})
    store.alter_topic("trimmed", config=small)
    store.alter_topic("transactions", config=small)
    store.alter_topic("recompressed", config={"compression_type": "gzip", **small})
    store.alter_topic("compacted", config={"cleanup_policy": "compact", **small})


def work(store: Store, seed: int) -> None:
    """As `workload.work`, by kstore."""
    random = Random(seed)
    configure(store)
    _codecs(store, random)
    _times(store, random)
    _trim(store, random)
    _transactions(store, random, seed)
    _compacted(store, random, seed)


def _codecs(store: Store, random: Random) -> None:
    for log, codec in zip(store["codecs"], CODECS, strict=True):
        for size in (1, 20, 7, 30):
            records = [r._replace(offset=n) for n, r in enumerate(sample_records(0, size))]
            log.append_as_leader(batch_bytes(records, leader_epoch=-1, codec=codec))
        log.configure(replace(log.config, batch_compression=codec, batch_size=SEGMENT // 2))
        log.extend([random.choice((None, b"", b"v" * random.randrange(90))) for _ in range(150)])
        for record in sample_records(3, 12):
            log.append(record.value, key=record.key, headers=record.headers)


def _times(store: Store, random: Random) -> None:
    rolled, stamped, packed = (store[name][0] for name in ("rolled", "append-time", "recompressed"))
    when = OLD
    for _ in range(12):
        when += random.choice((1000, 7_200_000, -5_000_000, 0))
        for n in range(random.randrange(1, 8)):
            rolled.append(b"value", key=b"key", timestamp=when + n * random.randrange(-40, 100))
        records = [PlainRecord(n, when + n, b"k", b"v" * 40) for n in range(random.randrange(1, 9))]
        for log in (stamped, packed):
            log.append_as_leader(writer.batch(records, leader_epoch=-1, codec=random.randrange(4)))
        stamped.append(b"one", timestamp=when)


def _trim(store: Store, random: Random) -> None:
    (log,) = store["trimmed"]
    for _ in range(20):
        log.extend([random.randbytes(50) for _ in range(10)])
    log.delete_records(log.end_offset - random.randrange(40, 100))
    log.apply_retention()


def _transactions(store: Store, random: Random, seed: int) -> None:
    logs = list(store["transactions"])
    ids = count(OURS + 100 * seed)
    producers = [OurProducer(next(ids), transactional=True) for _ in range(4)]
    free = OurProducer(next(ids), transactional=False)
    open_ = OurProducer(next(ids), transactional=True)
    for number in range(40):
        producer = random.choice([*producers, open_])
        for log in random.choice(([logs[0]], [logs[1]], logs)):
            pairs = [(b"k", b"%d-%d-%d" % (seed, number, n)) for n in range(random.randrange(1, 5))]
            producer.send(log, pairs, now_ms())
        if producer is not open_ and random.random() < 0.6:
            producer.end(commit=random.random() < 0.5)
        free.send(random.choice(logs), [(None, b"free %d-%d" % (seed, number))], now_ms())
    for producer in producers:
        producer.end(commit=random.random() < 0.5)
    open_.send(logs[seed % 2], [(b"k", b"open forever %d" % seed)], now_ms())


def _compacted(store: Store, random: Random, seed: int) -> None:
    (log,) = store["compacted"]
    producer = OurProducer(OURS + 100 * seed + 50, transactional=True)
    for number in range(12):
        for _ in range(3):
            pairs: list[tuple[bytes | None, bytes | None]] = [
                (
                    b"key-%d" % random.randrange(15),
                    None if random.random() < 0.15 else random.randbytes(30),
                )
                for _ in range(random.randrange(1, 9))
            ]
            producer.send(log, pairs, now_ms())
        producer.end(commit=number % 3 != 1)
    log.roll()
    log.compact()


def main() -> None:
    directory, seed = Path(sys.argv[1]), int(sys.argv[2])
    with kstore.open(directory) as store:
        work(store, seed)
        ends = {}
        for log in all_logs(store):
            log.flush()
            ends[f"{log.topic}-{log.partition}"] = log.end_offset
        print(json.dumps(ends), flush=True)
        for round_ in count(1):
            work(store, 1000 * seed + round_)


def all_logs(store: Store) -> Iterator[Log]:
    for name in store:
        yield from store[name]


if __name__ == "__main__":
    main()
