"""Encode and decode of record batches against kafka-python, aiokafka and a bare C loop."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kstore.bench.contest import Contest
from kstore.bench.peers import optional
from kstore.bench.records import TIME, Decoding, Encoding, read_all

Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


def peer_encode(peer: Any, work: Encoding) -> bytes:
    """A batch by the builder that aiokafka and kafka-python both have."""
    builder = peer.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for n, value in enumerate(work.values):
        builder.append(n, TIME, None, value, [])
    return bytes(builder.build())


def aiokafka_decode(peer: Any, work: Decoding) -> int:
    """Iterate with the CRC checked: what aiokafka's consumer does at the least."""
    total = 0
    records = peer.MemoryRecords(work.data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for _ in batch:
            total += 1
    return total


def aiokafka_read(peer: Any, work: Decoding) -> int:
    """The same, and four fields of each record read by the loop that reads ours."""
    total = 0
    records = peer.MemoryRecords(work.data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        total = read_all(batch)
    return total


def encoding() -> Contest:
    work = Encoding()
    ours = bytes(work.by_kstore())
    if work.by_bare_loop() != len(ours) - 61:
        raise AssertionError("the bare loop encodes something else")
    calls: Calls = {
        "kstore": work.by_kstore,
        "kstore, one put a record": work.by_puts,
        "bare C loop": work.by_bare_loop,
    }
    bars: Bars = [("kstore", "bare C loop", 0.6)]
    for name, module, wanted in (
        ("aiokafka", "aiokafka.record._crecords", 20),
        ("kafka-python", "kafka.record.default_records", 150),
    ):
        if (peer := optional(module, name)) is not None:
            if peer_encode(peer, work)[16:] != ours[16:]:
                raise AssertionError(f"kstore and {name} encode differently")
            calls[name] = partial(peer_encode, peer, work)
            bars.append(("kstore", name, wanted))
            bars.append(("kstore, one put a record", name, None))
    return Contest(
        name="encode 1000 records of 100 bytes into a batch",
        calls=calls,
        amount=work.count,
        unit="records",
        bars=tuple(bars),
        ceiling="bare C loop",
        unchecked=frozenset({"bare C loop", "aiokafka", "kafka-python"}),
    )


def decoding(per_batch: int) -> Contest:
    work = Decoding(per_batch=per_batch)
    ours = ("list of values", "Records, then read", "value places", "full columns")
    calls: Calls = {
        "list of values": work.into_values,
        "Records, then read": work.into_records,
        "value places": work.into_places,
        "full columns": work.into_columns,
        "bare C loop": work.by_bare_loop,
    }
    named = per_batch == 1000
    bars: Bars = [("value places", "bare C loop", 0.9 if named else None)]
    if (peer := optional("aiokafka.record.memory_records", "aiokafka")) is not None:
        calls["aiokafka iterates"] = partial(aiokafka_decode, peer, work)
        calls["aiokafka, then read"] = partial(aiokafka_read, peer, work)
        wanted = (6, 2.5, 18, 10) if named else (None,) * 4
        for name, bar in zip(ours, wanted, strict=True):
            reads = name == "Records, then read"
            bars.append((name, "aiokafka, then read" if reads else "aiokafka iterates", bar))
    batches = f"batches of {per_batch}" if per_batch > 1 else "one-record batches"
    return Contest(
        name=f"decode 100-byte records, {batches}, CRC checked",
        calls=calls,
        amount=work.count,
        unit="records",
        bars=tuple(bars),
        ceiling="bare C loop",
    )


def contests() -> Iterator[Contest]:
    yield encoding()
    yield decoding(1000)
    yield decoding(1)
    for per_batch in (1000, 150, 1):
        large = Decoding(per_batch=per_batch, total=256 << 20)
        yield Contest(
            name=f"scan {len(large.data):,} bytes of 100-byte records, {per_batch} a batch, "
            "CRC checked, one core",
            calls={"full columns": large.into_columns, "value places": large.into_places},
            amount=large.count,
            unit="records",
        )
