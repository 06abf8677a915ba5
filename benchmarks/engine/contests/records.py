"""Encoding and decoding of record batches against kafka-python, aiokafka and a bare C loop."""

import random
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from engine.data.batches import OVERHEAD, TIME, VALUE_SIZE, at_offsets, build_batch
from kstore._native.append.encode import BatchBuffer
from kstore._native.bench import record_loops
from kstore._native.read.decode import Scanner
from kstore.bench.contest import Bar, Calls, Contest, scaled
from kstore.bench.peers.availability import optional

RECORDS = 1000  # of the batch that is encoded
NO_LIMIT = 1 << 30
LOOP = "bare C loop"


class Encoding:
    """The values of one batch, and two ways to encode them with kstore."""

    def __init__(self) -> None:
        draw = random.Random(RECORDS)
        self.values = [draw.randbytes(VALUE_SIZE) for _ in range(RECORDS)]
        self._buffer = BatchBuffer(1 << 20)

    def put_values(self) -> memoryview:
        """One batch from the list, CRC included, left in the encoder's memory."""
        self._buffer.reset()
        self._buffer.put_values(self.values, 0, TIME, NO_LIMIT)
        return self._buffer.finish()

    def put_each(self) -> bytes:
        """The same batch with one call per record."""
        self._buffer.reset()
        for value in self.values:
            self._buffer.put(value, None, None, TIME)
        return self._buffer.to_bytes()

    def by_peer(self, peer: Any) -> bytes:
        """A batch by the builder that aiokafka and kafka-python both have."""
        builder = peer.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, NO_LIMIT)
        for n, value in enumerate(self.values):
            builder.append(n, TIME, None, value, [])
        return bytes(builder.build())


def read_fields(records: Iterable[Any]) -> int:
    """Read the four fields of each record; return how many there are if offsets start at 0.

    One statement per field and no counter, since a loop that did more would measure itself.
    """
    record: Any = None
    for record in records:
        record.key  # noqa: B018
        record.value  # noqa: B018
        record.timestamp  # noqa: B018
        record.headers  # noqa: B018
    return 0 if record is None else int(record.offset) + 1


def decode_into_values(data: bytes) -> int:
    scanner = Scanner(data, values_only=True)
    total = 0
    while (values := scanner.next_values()) is not None:
        total += len(values)
    return total


def decode_into_blocks(data: bytes, *, values_only: bool = False) -> int:
    """Columns; ``values_only``: just positions and lengths of the values."""
    scanner = Scanner(data, values_only=values_only)
    total = 0
    while (block := scanner.next_block()) is not None:
        total += len(block)
    return total


def decode_with_aiokafka(peer: Any, data: bytes, *, reads_fields: bool = False) -> int:
    """Iterate with the CRC checked, the least that aiokafka's consumer does."""
    total = 0
    records = peer.MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        if reads_fields:
            total = read_fields(batch)
        else:
            for _ in batch:
                total += 1
    return total


def encoding() -> Contest:
    work = Encoding()
    joined, room = b"".join(work.values), bytearray(RECORDS * (VALUE_SIZE + 40))

    def by_bare_loop() -> int:
        return record_loops.encode(joined, VALUE_SIZE, room)[0]

    ours = bytes(work.put_values())
    if by_bare_loop() != len(ours) - OVERHEAD:
        raise AssertionError("the bare loop encodes something else")
    calls: Calls = {
        "kstore": work.put_values,
        "kstore, one put a record": work.put_each,
        LOOP: by_bare_loop,
    }
    bars: list[Bar] = [("kstore", LOOP, 0.6)]
    for name, module, wanted in (
        ("aiokafka", "aiokafka.record._crecords", 20),
        ("kafka-python", "kafka.record.default_records", 150),
    ):
        if (peer := optional(module, name)) is not None:
            if work.by_peer(peer)[16:] != ours[16:]:
                raise AssertionError(f"kstore and {name} encode differently")
            calls[name] = partial(work.by_peer, peer)
            bars += [("kstore", name, wanted), ("kstore, one put a record", name, None)]
    return Contest(
        name=f"encode {RECORDS} records of {VALUE_SIZE} bytes into a batch",
        calls=calls,
        amount=RECORDS,
        unit="records",
        bars=tuple(bars),
        ceiling=LOOP,
        unchecked=frozenset({LOOP, "aiokafka", "kafka-python"}),
    )


def batches_of(records: int, size: int) -> tuple[bytes, int]:
    """Batches of about ``size`` bytes or more, and how many records they have."""
    batch = build_batch(records, leader_epoch=-1)
    count = -(-scaled(size, 1 << 16) // len(batch))
    return b"".join(at_offsets(batch, count, records)), count * records


def decoding(per_batch: int) -> Contest:
    data, count = batches_of(per_batch, 1 << 20)
    positions, lengths = np.empty(count, np.int64), np.empty(count, np.int32)

    def by_bare_loop() -> int:
        found, wrong = record_loops.decode(data, positions, lengths)
        if wrong:
            raise AssertionError(f"{wrong} checksums are wrong")
        return found

    calls: Calls = {
        "list of values": partial(decode_into_values, data),
        "Records, then read": lambda: read_fields(Scanner(data).records()),
        "value positions": partial(decode_into_blocks, data, values_only=True),
        "full columns": partial(decode_into_blocks, data),
        LOOP: by_bare_loop,
    }
    has_bars = per_batch == 1000
    bars: list[Bar] = [("value positions", LOOP, 0.9 if has_bars else None)]
    if (peer := optional("aiokafka.record.memory_records", "aiokafka")) is not None:
        wanted = (6, 2.5, 18, 10) if has_bars else (None,) * 4
        for name, bar in zip(list(calls)[:4], wanted, strict=True):
            reads = name == "Records, then read"
            bars.append((name, "aiokafka, then read" if reads else "aiokafka iterates", bar))
        calls["aiokafka iterates"] = partial(decode_with_aiokafka, peer, data)
        calls["aiokafka, then read"] = partial(decode_with_aiokafka, peer, data, reads_fields=True)
    batches = f"batches of {per_batch}" if per_batch > 1 else "one-record batches"
    return Contest(
        name=f"decode 100-byte records, {batches}, CRC checked",
        calls=calls,
        amount=count,
        unit="records",
        bars=tuple(bars),
        ceiling=LOOP,
    )


def contests() -> Iterator[Contest]:
    yield encoding()
    yield decoding(1000)
    yield decoding(1)
