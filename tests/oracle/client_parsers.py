"""Record parsers that other people wrote: kafka-python's and aiokafka's."""

import warnings
from collections.abc import Callable

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its way of loading its own files
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

Seen = tuple[int, int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def _read(parser: type, data: bytes) -> list[Seen]:
    found = []
    records = parser(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    return found


def read_by_kafka_python(data: bytes) -> list[Seen]:
    """(offset, timestamp, key, value, headers) of every record; every checksum is checked."""
    return _read(KafkaPythonRecords, data)


def read_by_aiokafka(data: bytes) -> list[Seen]:
    """As read_by_kafka_python. It cannot read one buffer that mixes formats."""
    return _read(AiokafkaRecords, data)


READERS: tuple[Callable[[bytes], list[Seen]], ...] = (read_by_kafka_python, read_by_aiokafka)
