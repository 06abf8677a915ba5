"""Read the small files beside a log: indexes, producer snapshots, checkpoints, metadata."""

import re
import struct
from typing import NamedTuple

from oracle.crc import crc32c


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def _trimmed(data: bytes, layout: str, relative: int) -> list[tuple[int, ...]]:
    """Complete entries up to the zeros of a preallocated tail: slot 0 alone may name offset 0."""
    size = struct.calcsize(layout)
    entries: list[tuple[int, ...]] = []
    for slot in range(len(data) // size):
        entry = struct.unpack_from(layout, data, slot * size)
        if entry[relative] == 0 and (slot > 0 or not any(entry)):
            break
        entries.append(entry)
    return entries


def read_offset_index(data: bytes, base_offset: int = 0) -> list[tuple[int, int]]:
    """(offset, position of a batch) of each entry."""
    return [(base_offset + offset, at) for offset, at in _trimmed(data, ">ii", 0)]


def read_time_index(data: bytes, base_offset: int = 0) -> list[tuple[int, int]]:
    """(timestamp, offset) of each entry."""
    return [(time, base_offset + offset) for time, offset in _trimmed(data, ">qi", 1)]


def floor(entries: list[tuple[int, int]], target: int) -> tuple[int, int] | None:
    """The last entry whose first field is at or below the target."""
    found = None
    for entry in entries:
        if entry[0] <= target:
            found = entry
    return found


def read_transaction_index(data: bytes) -> list[AbortedTransaction]:
    entries = []
    for position in range(0, len(data) - 33, 34):
        version, *fields = struct.unpack_from(">hqqqq", data, position)
        if version != 0:
            raise ValueError(f"version {version} at {position}")
        entries.append(AbortedTransaction(*fields))
    return entries


def read_producer_snapshot(data: bytes) -> list[ProducerEntry]:
    version, crc, count = struct.unpack_from(">hIi", data)
    if version != 1:
        raise ValueError(f"version {version}")
    if crc != crc32c(data[6:]):
        raise ValueError("checksum")
    if len(data) != 10 + 46 * count:
        raise ValueError(f"{count} producers in {len(data)} bytes")
    return [
        ProducerEntry(*struct.unpack_from(">qhiqiqiq", data, 10 + 46 * slot))
        for slot in range(count)
    ]


def _read_checkpoint(text: str, fields: int) -> list[list[str]]:
    lines = text.splitlines()
    if len(lines) < 2:
        return []  # a file of nothing, or of its version alone, names no producer
    if int(lines[0]) != 0:
        raise ValueError(f"version {lines[0]}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != int(lines[1]) or any(len(entry) != fields for entry in entries):
        raise ValueError("the entries do not match their count")
    return entries


def read_offset_checkpoint(text: str) -> dict[tuple[str, int], int]:
    return {(topic, int(n)): int(offset) for topic, n, offset in _read_checkpoint(text, 3)}


def read_leader_epochs(text: str) -> list[tuple[int, int]]:
    return [(int(epoch), int(start)) for epoch, start in _read_checkpoint(text, 2)]


def read_partition_metadata(text: str) -> str:
    """The topic id, 22 characters of URL-safe base64."""
    fields = dict(re.split(r":\s+", line, maxsplit=1) for line in text.splitlines())
    if int(fields["version"]) < 0:
        raise ValueError(f"version {fields['version']}")
    return fields["topic_id"]


def read_properties(text: str) -> dict[str, str]:
    """A Java properties file as Kafka writes it: no escapes but those of `:` and `=`."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    pairs = (line.partition("=") for line in lines)
    return {name: value.replace("\\:", ":").replace("\\=", "=") for name, _, value in pairs}
