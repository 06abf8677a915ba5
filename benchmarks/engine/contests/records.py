"""Encoding and decoding of record batches against kafka-python, aiokafka and a bare C loop."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from engine.data.batches import OVERHEAD, TIME, VALUE_SIZE, at_offsets, build_batch
from engine.data.fresh import HOT, POOL, copies, each_in_turn, hot, value_lists
from kstore._native.append.encode import BatchBuffer
from kstore._native.bench import record_loops
from kstore._native.read.decode import Scanner
from kstore.bench.contest import Bar, Calls, Contest, scaled
from kstore.bench.peers.availability import optional

RECORDS = 1000  # of the batch that is encoded
NO_LIMIT = 1 << 30
LOOP = "bare C loop"


class Encoding:
    """Two ways to encode the values of a batch with kstore, and that of its peers."""

    def __init__(self) -> None:
        self._buffer = BatchBuffer(1 << 20)

    def put_values(self, values: list[bytes]) -> memoryview:
        """One batch from the list, CRC included, left in the encoder's memory."""
        self._buffer.reset()
        self._buffer.put_values(values, 0, TIME, NO_LIMIT)
        return self._buffer.finish()

    def put_each(self, values: list[bytes]) -> bytes:
        """The same batch with one call per record."""
        self._buffer.reset()
        for value in values:
            self._buffer.put(value, None, None, TIME)
        return self._buffer.to_bytes()

    def by_peer(self, peer: Any, values: list[bytes]) -> bytes:
        """A batch by the builder that aiokafka and kafka-python both have."""
        builder = peer.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, NO_LIMIT)
        for n, value in enumerate(values):
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


def read_records(data: bytes) -> int:
    return read_fields(Scanner(data).records())


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


def decode_with_aiokafka(peer: Any, take: Callable[[Any, int], int], data: bytes) -> int:
    """Check the CRC of each batch and take its records, as aiokafka's consumer does."""
    total = 0
    records = peer.MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        total = take(batch, total)
    return total


def count_records(batch: Any, before: int) -> int:
    for _ in batch:
        before += 1
    return before


def read_each(batch: Any, before: int) -> int:
    return read_fields(batch)  # up to the last offset


def list_values(batch: Any, before: int) -> int:
    return before + len([record.value for record in batch])


def fill_columns(batch: Any, before: int) -> int:
    """The columns that kstore's scan makes, from aiokafka's records: it has no call for them."""
    rows = [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    offsets, timestamps, _, values = zip(*rows, strict=True)
    np.fromiter(offsets, np.int64, len(rows))
    np.fromiter(timestamps, np.int64, len(rows))
    np.fromiter(map(len, values), np.int32, len(rows))
    return before + len(rows)


# What a Python program takes of a batch; the same results as kstore's contestants.
AIOKAFKA: dict[str, Callable[[Any, int], int]] = {
    "aiokafka iterates": count_records,
    "aiokafka, list of values": list_values,
    "aiokafka, then read": read_each,
    "aiokafka, columns": fill_columns,
}


def encoding() -> Contest:
    work, room = Encoding(), bytearray(RECORDS * (VALUE_SIZE + 40))
    lists = value_lists(scaled(400, 2), RECORDS)
    joined = [b"".join(values) for values in lists]

    def by_bare_loop(values: bytes) -> int:
        return record_loops.encode(values, VALUE_SIZE, room)[0]

    ours = bytes(work.put_values(lists[0]))
    if by_bare_loop(joined[0]) != len(ours) - OVERHEAD:
        raise AssertionError("the bare loop encodes something else")
    calls: Calls = {
        "kstore": each_in_turn(work.put_values, lists),
        "kstore, one put a record": each_in_turn(work.put_each, lists),
        LOOP: each_in_turn(by_bare_loop, joined),
        f"kstore{HOT}": partial(work.put_values, lists[0]),
    }
    bars: list[Bar] = [("kstore", LOOP, 0.6)]
    for name, module, wanted in (
        ("aiokafka", "aiokafka.record._crecords", 20),
        ("kafka-python", "kafka.record.default_records", 150),
    ):
        if (peer := optional(module, name)) is not None:
            if work.by_peer(peer, lists[0])[16:] != ours[16:]:
                raise AssertionError(f"kstore and {name} encode differently")
            calls[name] = each_in_turn(partial(work.by_peer, peer), lists)
            bars += [("kstore, one put a record", name, wanted), ("kstore", name, None)]
    return Contest(
        name=f"encode {RECORDS} records of {VALUE_SIZE} bytes into a batch",
        calls=calls,
        easier=hot(calls),
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
    fetched = copies(data, POOL // len(data))
    positions, lengths = np.empty(count, np.int64), np.empty(count, np.int32)

    def by_bare_loop(data: bytes) -> int:
        found, wrong = record_loops.decode(data, positions, lengths)
        if wrong:
            raise AssertionError(f"{wrong} checksums are wrong")
        return found

    calls: Calls = {
        "list of values": each_in_turn(decode_into_values, fetched),
        "Records, then read": each_in_turn(read_records, fetched),
        "value positions": each_in_turn(partial(decode_into_blocks, values_only=True), fetched),
        "full columns": each_in_turn(decode_into_blocks, fetched),
        LOOP: each_in_turn(by_bare_loop, fetched),
        f"list of values{HOT}": partial(decode_into_values, data),
    }
    has_bars = per_batch == 1000
    bars: list[Bar] = [("value positions", LOOP, 0.9 if has_bars else None)]
    if (peer := optional("aiokafka.record.memory_records", "aiokafka")) is not None:
        values, objects, columns = (6, 2.5, 10) if has_bars else (None,) * 3
        bars += [
            ("list of values", "aiokafka, list of values", values),
            ("Records, then read", "aiokafka, then read", objects),
            ("full columns", "aiokafka, columns", columns),
            ("value positions", "aiokafka iterates", None),
        ]
        for what, take in AIOKAFKA.items():
            calls[what] = each_in_turn(partial(decode_with_aiokafka, peer, take), fetched)
    batches = f"batches of {per_batch}" if per_batch > 1 else "one-record batches"
    return Contest(
        name=f"decode 100-byte records, {batches}, CRC checked",
        calls=calls,
        easier=hot(calls),
        amount=count,
        unit="records",
        bars=tuple(bars),
        ceiling=LOOP,
    )


def contests() -> Iterator[Contest]:
    yield encoding()
    yield decoding(1000)
    yield decoding(1)
