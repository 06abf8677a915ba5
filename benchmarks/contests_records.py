"""Encode and decode of record batches against kafka-python, aiokafka and a bare C loop."""

import warnings
from collections.abc import Iterator

from aiokafka.record._crecords import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from kstore.bench.contest import Contest
from kstore.bench.records import TIME, Decoding, Encoding, read_all

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its way of loading its own files
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder


def aiokafka_encode(work: Encoding) -> bytes:
    builder = AiokafkaBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for n, value in enumerate(work.values):
        builder.append(n, TIME, None, value, [])
    return bytes(builder.build())


def kafka_python_encode(work: Encoding) -> bytes:
    builder = KafkaPythonBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for n, value in enumerate(work.values):
        builder.append(n, TIME, None, value, [])
    return bytes(builder.build())


def aiokafka_decode(work: Decoding) -> int:
    """Iterate with the CRC checked: what aiokafka's consumer does at the least."""
    total = 0
    records = AiokafkaRecords(work.data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for _ in batch:
            total += 1
    return total


def aiokafka_read(work: Decoding) -> int:
    """The same, and four fields of each record read by the loop that reads ours."""
    total = 0
    records = AiokafkaRecords(work.data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        total = read_all(batch)
    return total


def contests() -> Iterator[Contest]:
    encoding = Encoding()
    ours = bytes(encoding.by_kstore())
    theirs = aiokafka_encode(encoding)
    assert ours[16:] == theirs[16:], "two encoders differ"
    assert encoding.by_bare_loop() == len(ours) - 61, "the bare loop encodes something else"
    yield Contest(
        name="encode 1000 records of 100 bytes into a batch",
        calls={
            "kstore": encoding.by_kstore,
            "kstore, one put a record": encoding.by_puts,
            "bare C loop": encoding.by_bare_loop,
            "aiokafka": lambda: aiokafka_encode(encoding),
            "kafka-python": lambda: kafka_python_encode(encoding),
        },
        amount=encoding.count,
        unit="records",
        bars=(
            ("kstore", "aiokafka", 20),
            ("kstore", "kafka-python", 150),
            ("kstore", "bare C loop", 0.6),
            ("kstore, one put a record", "aiokafka", None),
        ),
        unchecked=frozenset({"bare C loop", "aiokafka", "kafka-python"}),
    )
    for decoding in (Decoding(), Decoding(per_batch=1)):
        batches = "batches of 1000" if decoding.per_batch == 1000 else "one-record batches"
        bar = (6, 2.5, 18, 10) if decoding.per_batch == 1000 else (None,) * 4
        yield Contest(
            name=f"decode 100-byte records, {batches}, CRC checked",
            calls={
                "list of values": decoding.into_values,
                "Records, then read": decoding.into_records,
                "value places": decoding.into_places,
                "full columns": decoding.into_columns,
                "aiokafka iterates": lambda decoding=decoding: aiokafka_decode(decoding),
                "aiokafka, then read": lambda decoding=decoding: aiokafka_read(decoding),
            },
            amount=decoding.count,
            unit="records",
            bars=(
                ("list of values", "aiokafka iterates", bar[0]),
                ("Records, then read", "aiokafka, then read", bar[1]),
                ("value places", "aiokafka iterates", bar[2]),
                ("full columns", "aiokafka iterates", bar[3]),
            ),
        )
    for per_batch in (1000, 150, 1):
        large = Decoding(per_batch=per_batch, total=256 << 20)
        yield Contest(
            name=f"scan 256 MiB of 100-byte records, {per_batch} a batch, CRC checked, one core",
            calls={"full columns": large.into_columns, "value places": large.into_places},
            amount=large.count,
            unit="records",
        )
