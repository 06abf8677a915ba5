"""Recovery of one segment, written as the rules are stated: the judge of the kernel's one pass."""

import struct
from typing import NamedTuple

from oracle.crc import crc32, crc32c

INT32_MAX = 2**31 - 1


class Recovered(NamedTuple):
    valid_size: int
    next_offset: int
    batches: int
    max_timestamp: int
    max_timestamp_offset: int
    index: list[tuple[int, int]]  # last offset of a batch, its position
    time_index: list[tuple[int, int]]  # timestamp, offset
    epochs: list[tuple[int, int]]


def recover(data: bytes, base_offset: int = 0, interval: int = 4096, epoch: int = -1) -> Recovered:
    position = last_indexed = batches = 0
    last_offset = base_offset - 1
    newest = (-1, base_offset)
    index: list[tuple[int, int]] = []
    time_index: list[tuple[int, int]] = []
    epochs: list[tuple[int, int]] = []

    def note_time() -> None:
        if newest[0] > (time_index[-1][0] if time_index else -1):
            time_index.append(newest)

    while (batch := _valid_batch(data[position:])) is not None:
        size, first, last, timestamp, leader_epoch = batch
        if first <= last_offset or last < first or last - base_offset > INT32_MAX:
            break
        if timestamp > newest[0]:
            newest = (timestamp, last)
        if position - last_indexed > interval:
            index.append((last, position))
            note_time()
            last_indexed = position
        if leader_epoch > epoch:
            epoch = leader_epoch
            epochs.append((epoch, first))
        last_offset = last
        batches += 1
        position += size
    note_time()
    return Recovered(position, last_offset + 1, batches, *newest, index, time_index, epochs)


def _valid_batch(data: bytes) -> tuple[int, int, int, int, int] | None:
    """Size, first and last offset, largest timestamp and epoch of the first batch."""
    if len(data) <= 17:
        return None
    first, size, _, magic = struct.unpack_from(">qiib", data)
    size += 12
    smallest = {0: 26, 1: 34, 2: 61}.get(magic)
    if smallest is None or not smallest <= size <= len(data):
        return None
    frame = data[:size]
    if magic == 2:
        crc, _, delta, _, timestamp = struct.unpack_from(">Ihiqq", frame, 17)
        if crc32c(frame[21:]) != crc:
            return None
        return size, first, first + delta, timestamp, struct.unpack_from(">i", frame, 12)[0]
    if crc32(frame[16:]) != struct.unpack_from(">I", frame, 12)[0]:
        return None
    timestamp = struct.unpack_from(">q", frame, 18)[0] if magic == 1 else -1
    return size, first, first, timestamp, -1
