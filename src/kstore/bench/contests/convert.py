"""Message formats turned into one another, and batches into other codecs, record by record.

Below all of it is a copy of the same bytes; below a codec, the codec itself on what is in the
batches. kafka-python and aiokafka read one format and build the other.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kstore._native import limits
from kstore._native.convert import Converter
from kstore._native.frames import scan
from kstore.bench.contest import Contest, scaled
from kstore.bench.kernels_rows import Batches
from kstore.bench.peers import optional
from kstore.record.codec import codec_id, compress, decompress

SIZE = 64 << 20
OVERHEAD = 61  # bytes of a batch v2 in front of its records
COPY = "copy the bytes"
CODECS = ("lz4", "zstd")
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


def convert(data: bytes, magic: int, codec: int = -1) -> bytes:
    made = Converter(data, magic, codec=codec, decompress=decompress, compress=compress)
    return made.convert()


def rebuild(data: bytes, magic: int) -> bytes:
    """All records as one batch with offsets from 0 on."""
    made = Converter(data, magic, codec=0, decompress=decompress, compress=compress)
    return made.rebuild(0, 0, None)


def to_batches(peer: Any, builder: Any, data: bytes) -> bytes:
    """Messages to batches v2 of one record each."""
    out = bytearray()
    messages = peer.MemoryRecords(data)
    while messages.has_next():
        for record in messages.next_batch():
            batch = builder(2, 0, 0, -1, -1, -1, 1 << 30)
            batch.append(0, record.timestamp, record.key, record.value, [])
            made = batch.build()
            made[0:8] = record.offset.to_bytes(8, "big")
            made[12:16] = b"\xff\xff\xff\xff"  # no leader epoch is known
            out += made
    return bytes(out)


def to_messages(peer: Any, builder: Any, data: bytes) -> bytes:
    """Batches v2 to plain messages v1."""
    out = builder(1, 0, 1 << 30)
    batches = peer.MemoryRecords(data)
    while batches.has_next():
        for record in batches.next_batch():
            out.append(record.offset, record.timestamp, record.key, record.value)
    return bytes(out.build())


def by_peer(
    how: Callable[[Any, Any, bytes], bytes], records: str, builders: str, name: str, data: bytes
) -> Callable[[], bytes] | None:
    """A package's reader and builder; None where it is not installed."""
    reader, building = optional(records, "aiokafka"), optional(builders, "aiokafka")
    if reader is None or building is None:
        return None
    return partial(how, reader, getattr(building, name), data)


def formats() -> Iterator[Contest]:
    """v1 to v2, and back; as offsets are kept, the way back gives what was there."""
    work = Batches(150, scaled(SIZE))
    batches = work.data
    messages = convert(batches, 1)
    singles = convert(messages, 2)
    for what, data, magic, expected, peer in (
        (
            "messages v1 to batches v2 of one record",
            messages,
            2,
            singles,
            by_peer(
                to_batches,
                "aiokafka.record.memory_records",
                "aiokafka.record.default_records",
                "DefaultRecordBatchBuilder",
                messages,
            ),
        ),
        (
            "batches v2 of 150 records to messages v1",
            batches,
            1,
            messages,
            by_peer(
                to_messages,
                "aiokafka.record.memory_records",
                "aiokafka.record.legacy_records",
                "LegacyRecordBatchBuilder",
                batches,
            ),
        ),
    ):
        calls: Calls = {"kstore": partial(convert, data, magic)}
        bars: Bars = [("kstore", COPY, None)]
        if peer is not None:
            calls["aiokafka reads and builds"] = peer
            bars.append(("kstore", "aiokafka reads and builds", None))
        yield contest(f"convert {work.count:,} {what}", calls, bars, data, work.count, expected)
    first = batches[: len(work.one())]
    one = convert(first, 1)
    yield contest(
        "rebuild 150 messages v1 as one batch v2",
        {"kstore": partial(rebuild, one, 2)},
        [("kstore", COPY, None)],
        one,
        150,
        first,
    )


def contest(
    name: str, calls: Calls, bars: Bars, data: bytes, count: int, expected: bytes
) -> Contest:
    """With a copy of the bytes that go in as ceiling; what comes out is compared whole."""
    out = bytearray(len(data))
    return Contest(
        name=name,
        calls=calls | {COPY: partial(limits.copy, out, data)},
        amount=count,
        unit="records",
        bars=tuple(bars),
        expected=expected,
        unchecked=frozenset([COPY]),
        ceiling=COPY,
        rounds=5,
    )


def payloads(data: bytes) -> list[bytes]:
    """The records of each batch v2, as they lie there."""
    table = scan(data)
    return [
        data[at + OVERHEAD : at + size] for at, size in zip(table.position, table.size, strict=True)
    ]


def codecs() -> Iterator[Contest]:
    """16 KB batches into a codec and out of it; half of each value is like another's."""
    work = Batches(150, scaled(SIZE // 4), alike=50)
    plain = convert(work.data, 2)
    for name in CODECS:
        number = codec_id(name)
        packed = convert(plain, 2, number)
        into, out = payloads(plain), payloads(packed)
        for what, data, target, alone, expected in (
            (f"16 KB batches v2 with {name}", plain, number, partial(pack, number, into), packed),
            (f"batches v2 of {name} with none", packed, 0, partial(unpack, number, out), plain),
        ):
            floor = "the codec alone"
            yield Contest(
                name=f"recompress {work.batches:,} {what}",
                calls={"kstore": partial(convert, data, 2, target), floor: alone},
                amount=work.count,
                unit="records",
                bars=(("kstore", floor, None),),
                expected=expected,
                unchecked=frozenset([floor]),
                ceiling=floor,
                rounds=5,
            )


def pack(codec: int, payloads: list[bytes]) -> int:
    return sum(len(compress(codec, 2, each)) for each in payloads)


def unpack(codec: int, payloads: list[bytes]) -> int:
    return sum(len(decompress(codec, 2, each)) for each in payloads)


def contests() -> Iterator[Contest]:
    yield from formats()
    yield from codecs()
