"""Records of ``__cluster_metadata``, encoded by hand according to Kafka's message definitions."""

from pathlib import Path

import kstore
from kstore.kafka_uuid import uuid_from_text
from support.stores import QUIET


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def _ints(values) -> bytes:
    return _varint(len(values) + 1) + b"".join(each.to_bytes(4, "big") for each in values)


def _record(kind: int, version: int, *fields: bytes) -> bytes:
    return bytes([1, kind, version]) + b"".join(fields) + b"\0"  # no tagged fields


def topic(name: str, topic_id: str) -> bytes:
    return _record(2, 0, _varint(len(name) + 1), name.encode(), uuid_from_text(topic_id))


def partition(topic_id: str, number: int, nodes=(1,), directories=()) -> bytes:
    ids = b"".join(uuid_from_text(each) for each in directories)
    return _record(
        3,
        1,
        number.to_bytes(4, "big"),
        uuid_from_text(topic_id),
        _ints(nodes),
        _ints(nodes),
        _ints(()),
        _ints(()),
        b"\0\0\0\1" * 3,
        _varint(len(directories) + 1),
        ids,
    )


def setting(topic: str, name: str, value: str | None) -> bytes:
    """A topic's setting; None resets it to the broker's default."""
    return _setting(b"\2", topic, name, value)


def broker_setting(node: str, name: str, value: str | None) -> bytes:
    """A dynamic broker setting; ``node`` "" means all brokers."""
    return _setting(b"\4", node, name, value)


def _setting(kind: bytes, *texts: str | None) -> bytes:
    found = [b"\0" if t is None else _varint(len(t) + 1) + t.encode() for t in texts]
    return _record(4, 0, kind, *found)


def remove(topic_id: str) -> bytes:
    return _record(9, 0, uuid_from_text(topic_id))


BEGIN, END, ABORT = (bytes([1, 23, 0, 0]), bytes([1, 24, 0, 0]), bytes([1, 25, 0, 0]))


def write(log_dir: Path, *values: bytes) -> Path:
    """Write a metadata log with these records in ``log_dir``."""
    with kstore.open(log_dir.parent / f"{log_dir.name}-made", config=QUIET) as store:
        log = store.create_topic("m", exist_ok=True)[0]
        log.extend(list(values))
        folder = log_dir / "__cluster_metadata-0"
        folder.mkdir(exist_ok=True)
        for path in Path(log.path).glob("*.log"):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder
