"""Requests as bytes, and the positions of fields in their responses for the generator.

It uses Produce 8 and Fetch 11, the newest non-flexible versions, which every broker since Kafka 2.4
supports. Positions depend on the length of the topic's name. A frame has one partition.
"""

import struct
from dataclasses import dataclass

from engine.data.batches import client_batch

FETCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A request, and positions in its response, relative to the response's correlation id."""

    data: bytes
    error_at: int
    records_at: int = -1
    offset_at: int = -1  # of the fetch offset, in the request


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhi", api_key, version, 0) + _string("load") + body
    return struct.pack(">i", len(request)) + request


def produce(topic: str, partition: int, batch: bytes) -> Frame:
    """One batch with acks=1."""
    body = struct.pack(">hhi", -1, 1, 30_000) + struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return Frame(_frame(0, 8, body), error_at=18 + len(topic))


def fetch(topic: str, partition: int, max_bytes: int = FETCH_BYTES) -> Frame:
    """Fetch one partition without a session; wait up to 30 s for the first byte."""
    body = struct.pack(">iiiibii", -1, 30_000, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + _string(topic) + struct.pack(">iii", 1, partition, -1)
    offset_at = 4 + 8 + 2 + len("load") + len(body)
    body += struct.pack(">qqi", 0, -1, max_bytes) + struct.pack(">i", 0) + _string("")
    size = len(topic)
    return Frame(_frame(1, 11, body), 28 + size, 62 + size, offset_at)


def batch(size: int) -> bytes:
    """A batch of about ``size`` bytes of 100-byte values with the current time."""
    return client_batch(max(1, round((size - 61) / 109)))


def record_count(data: bytes) -> int:
    """The number of records that a batch declares."""
    return int.from_bytes(data[57:61], "big")
