"""Message formats converted into one another, and batches into other codecs, record by record.

The ceiling is a copy of the same bytes; for a codec, the codec alone on the batches' records.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kstore._native.bench import memory_loops
from kstore._native.format.batch_table import scan
from kstore._native.format.converter import Converter
from kstore.bench.contest import Calls, Contest, floor_contest, scaled
from kstore.bench.data.batches import OVERHEAD, Batches
from kstore.bench.peers.availability import optional
from kstore.record.codec import codec_id, compress, decompress

SIZE = 64 << 20
CODECS = ("lz4", "zstd")
AIOKAFKA = "aiokafka reads and builds"


def converter(data: bytes, magic: int, codec: int = -1) -> Converter:
    return Converter(data, magic, codec=codec, decompress=decompress, compress=compress)


def convert(data: bytes, magic: int, codec: int = -1) -> bytes:
    return converter(data, magic, codec).convert()


def to_batches(reader: Any, builder: Any, data: bytes) -> bytes:
    """aiokafka: messages to batches v2 of one record each."""
    out = bytearray()
    messages = reader.MemoryRecords(data)
    while messages.has_next():
        for record in messages.next_batch():
            batch = builder(2, 0, 0, -1, -1, -1, 1 << 30)
            batch.append(0, record.timestamp, record.key, record.value, [])
            built = batch.build()
            built[0:8] = record.offset.to_bytes(8, "big")
            built[12:16] = b"\xff\xff\xff\xff"  # no leader epoch is known
            out += built
    return bytes(out)


def to_messages(reader: Any, builder: Any, data: bytes) -> bytes:
    """aiokafka: batches v2 to messages v1."""
    out = builder(1, 0, 1 << 30)
    batches = reader.MemoryRecords(data)
    while batches.has_next():
        for record in batches.next_batch():
            out.append(record.offset, record.timestamp, record.key, record.value)
    return bytes(out.build())


def by_aiokafka(how: Callable[[Any, Any, bytes], bytes], builder: str, data: bytes) -> Calls:
    reader = optional("aiokafka.record.memory_records", "aiokafka")
    module, _, name = builder.partition(".")
    building = optional(f"aiokafka.record.{module}", "aiokafka")
    if reader is None or building is None:
        return {}
    return {AIOKAFKA: partial(how, reader, getattr(building, name), data)}


def conversion(name: str, calls: Calls, data: bytes, count: int, expected: bytes) -> Contest:
    copy = ("copy the bytes", partial(memory_loops.copy, bytearray(len(data)), data))
    return floor_contest(name, calls, copy, count, "records", expected=expected, rounds=5)


def formats() -> Iterator[Contest]:
    """v1 to v2 and back: offsets are kept, so the way back gives the original bytes."""
    work = Batches(150, scaled(SIZE))
    batches = work.data
    messages = convert(batches, 1)
    peer = by_aiokafka(to_batches, "default_records.DefaultRecordBatchBuilder", messages)
    yield conversion(
        f"convert {work.count:,} messages v1 to batches v2 of one record",
        {"kstore": partial(convert, messages, 2)} | peer,
        messages,
        work.count,
        convert(messages, 2),
    )
    peer = by_aiokafka(to_messages, "legacy_records.LegacyRecordBatchBuilder", batches)
    yield conversion(
        f"convert {work.count:,} batches v2 of 150 records to messages v1",
        {"kstore": partial(convert, batches, 1)} | peer,
        batches,
        work.count,
        messages,
    )
    first = batches[: len(work.one())]
    one = convert(first, 1)
    yield conversion(
        "rebuild 150 messages v1 as one batch v2",
        {"kstore": lambda: converter(one, 2, 0).rebuild(0, 0, None)},
        one,
        150,
        first,
    )


def payloads(data: bytes) -> list[bytes]:
    """The records of each batch v2."""
    table = scan(data)
    sizes = zip(table.position, table.size, strict=True)
    return [data[at + OVERHEAD : at + size] for at, size in sizes]


def codecs() -> Iterator[Contest]:
    """16 KB batches into a codec and out of it; half of each value is like another's."""
    work = Batches(150, scaled(SIZE // 4), equal_bytes=50)
    plain = convert(work.data, 2)
    for name in CODECS:
        number = codec_id(name)
        packed = convert(plain, 2, number)
        for what, data, target, alone, expected in (
            (f"16 KB batches v2 with {name}", plain, number, compress, packed),
            (f"batches v2 of {name} with none", packed, 0, decompress, plain),
        ):
            floor = partial(run_codec, alone, number, payloads(data))
            yield floor_contest(
                f"recompress {work.batches:,} {what}",
                {"kstore": partial(convert, data, 2, target)},
                ("the codec alone", floor),
                work.count,
                "records",
                expected=expected,
                rounds=5,
            )


def run_codec(codec: Callable[..., bytes], number: int, payloads: list[bytes]) -> int:
    return sum(len(codec(number, 2, each)) for each in payloads)


def contests() -> Iterator[Contest]:
    yield from formats()
    yield from codecs()
