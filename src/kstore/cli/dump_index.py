"""The other files of ``kstore dump-log``: indexes, transaction indexes, producer snapshots."""

import argparse
import os

from kstore.cli.common import Output, complain
from kstore.cli.dump_errors import DumpErrors, Pairs, base_offset
from kstore.errors import CorruptFileError, CorruptRecordError, StorageError
from kstore.partition_files import (
    DISK,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetIndex,
    OpenFile,
    Scanner,
    TimeIndex,
    batch_fields,
    filenames,
    offset_entry,
    read_entries,
    snapshot,
    time_entry,
    transaction_index,
)

_HEADER_SIZE = batch_fields.V2_BASE_TIMESTAMP_POSITION  # through the last offset delta
_LEAST_SIZE = batch_fields.LOG_OVERHEAD + batch_fields.V0_OVERHEAD


class Batches:
    """The log of an index: looks up the batch at a position."""

    def __init__(self, index_name: str) -> None:
        self.name = f"{os.path.splitext(index_name)[0]}.{filenames.LOG}"
        self._fd = DISK.open(self.name)
        self.size = DISK.size(self._fd)

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: object) -> None:
        DISK.close(self._fd)

    def header(self, position: int) -> tuple[int, int] | None:
        """Last offset and size of the complete batch at a position; None if there is none."""
        head = DISK.pread(self._fd, _HEADER_SIZE, position)
        if len(head) < _HEADER_SIZE:
            return None
        size = batch_fields.frame_size(head)
        if size < _LEAST_SIZE or position + size > self.size:
            return None
        if batch_fields.magic(head) == 2:
            return batch_fields.last_offset(head), size
        return batch_fields.base_offset(head), size

    def largest_timestamp(self, position: int, size: int) -> int:
        """The largest timestamp of a batch's records; -1 if it has no records left."""
        from kstore.record.codec import decompress

        data = DISK.pread(self._fd, size, position)
        scanner = Scanner(
            data,
            check_crc=False,
            control=True,
            decompress=decompress,
            path=self.name,
            position_base=position,
        )
        largest = -1
        for block in scanner:
            _, start = block.layout["timestamps"]
            column = memoryview(block)[start : start + 8 * len(block)].cast("q")
            largest = max(largest, *column)
        return largest


def dump_offset_index(
    name: str, arguments: argparse.Namespace, output: Output, errors: DumpErrors
) -> None:
    start = base_offset(name)
    data, size = read_entries(DISK, name, OFFSET_ENTRY_SIZE)
    with Batches(name) as batches:
        if size < OFFSET_ENTRY_SIZE:
            output.line(f"{name} is empty.")
            return
        if arguments.index_sanity_check:
            check_offset_index(name, size, last_entry(name, size, OFFSET_ENTRY_SIZE), start)
            output.line(f"{name} passed sanity check.")
            return
        complete = len(data) - len(data) % OFFSET_ENTRY_SIZE
        index = OffsetIndex(data[:complete], start)
        if not len(index):
            index = OffsetIndex(data[:complete], start, 1)  # preallocated: Kafka shows one entry
        mismatches = []
        for slot in range(len(index)):
            offset, position = index[slot]
            header = batches.header(position)
            if header is not None and header[1] > arguments.max_message_size:
                header = None
            last_offset = -1 if header is None else header[0]
            if last_offset != offset:
                mismatches.append((offset, last_offset))
            if not arguments.verify_index_only:
                output.line(f"offset: {offset} position: {position}")
    if mismatches:
        errors.index_mismatches[name] = mismatches[::-1]  # Kafka prints the last one first


def dump_time_index(
    name: str, arguments: argparse.Namespace, output: Output, errors: DumpErrors
) -> None:
    start = base_offset(name)
    data, size = read_entries(DISK, name, TIME_ENTRY_SIZE)
    if arguments.index_sanity_check:
        last = last_entry(name, size, TIME_ENTRY_SIZE)
        check_time_index(name, size, data[:TIME_ENTRY_SIZE], last, start)
        output.line(f"{name} passed sanity check.")
        return
    try:
        index = f"{os.path.splitext(name)[0]}.{filenames.INDEX}"
        positions, _ = read_entries(DISK, index, OFFSET_ENTRY_SIZE)
    except StorageError:
        positions = b""  # the search begins at the log's start then
    complete = len(positions) - len(positions) % OFFSET_ENTRY_SIZE
    offsets = OffsetIndex(positions[:complete], start)
    data = data[: len(data) - len(data) % TIME_ENTRY_SIZE]
    times = TimeIndex(data, start)
    if data and not len(times):
        times = TimeIndex(data, start, 1)
    before = -1
    with Batches(name) as batches:
        for slot in range(len(times)):
            timestamp, offset = times[slot]
            position = offsets.lookup(offset) if len(offsets) else 0
            _check_time_entry(name, batches, position, (timestamp, offset, before), errors)
            if not arguments.verify_index_only:
                output.line(f"timestamp: {timestamp} offset: {offset}")
            before = timestamp


def _check_time_entry(
    name: str,
    batches: Batches,
    position: int,
    entry: tuple[int, int, int],
    errors: DumpErrors,
) -> None:
    """Whether the batch that ends at the entry's offset has the entry's timestamp."""
    timestamp, offset, before = entry
    header = batches.header(max(position, 0))
    position = max(position, 0)
    while header is not None and header[0] < offset:
        position += header[1]
        header = batches.header(position)
    if header is None or header[0] != offset:
        found = -1 if header is None else header[0]
        _note(errors.offsets_not_found, name, (offset, found))
        return
    try:
        largest = batches.largest_timestamp(position, header[1])
    except CorruptRecordError as error:
        errors.damage.append(str(error))
        return
    if largest != timestamp:
        _note(errors.time_mismatches, name, (timestamp, largest))
    if before >= timestamp:
        _note(errors.time_out_of_order, name, (timestamp, before))


def _note(pairs: Pairs, name: str, pair: tuple[int, int]) -> None:
    pairs.setdefault(name, []).insert(0, pair)


def last_entry(name: str, size: int, entry_size: int) -> bytes:
    with OpenFile(DISK, name) as fd:
        return DISK.pread(fd, entry_size, max(size - entry_size, 0))


def check_offset_index(name: str, size: int, entry: bytes, start: int) -> None:
    """Kafka's OffsetIndex.sanityCheck, by the last entry. Raises CorruptFileError."""
    if size % OFFSET_ENTRY_SIZE:
        raise CorruptFileError(
            f"Index file {name} is corrupt, found {size} bytes which is neither positive "
            f"nor a multiple of {OFFSET_ENTRY_SIZE}"
        )
    last = start + (offset_entry(entry)[0] if len(entry) == OFFSET_ENTRY_SIZE else 0)
    if last < start:
        raise CorruptFileError(
            f"Corrupt index found, index file {name} has non-zero size but the last offset is "
            f"{last} which is less than the base offset {start}"
        )


def check_time_index(name: str, size: int, head: bytes, entry: bytes, start: int) -> None:
    """Kafka's TimeIndex.sanityCheck, by the first entry and the last. Raises CorruptFileError."""
    if size % TIME_ENTRY_SIZE:
        raise CorruptFileError(
            f"Time index file {name} is corrupt, found {size} bytes which is neither "
            f"positive nor a multiple of {TIME_ENTRY_SIZE}"
        )
    if not size:
        return
    first, _ = time_entry(head.ljust(TIME_ENTRY_SIZE, b"\0"))  # the file may have been truncated
    latest, relative = time_entry(entry.ljust(TIME_ENTRY_SIZE, b"\0"))
    last = start + relative
    if latest < first:
        raise CorruptFileError(
            f"Corrupt time index found, time index file {name} has non-zero size but the last "
            f"timestamp is {latest} which is less than the first timestamp {first}"
        )
    if last < start:
        raise CorruptFileError(
            f"Corrupt time index found, time index file {name} has non-zero size but the last "
            f"offset is {last} which is less than the first offset {start}"
        )


def dump_transaction_index(name: str, output: Output) -> None:
    """Dump entries up to the first impossible one, unlike Kafka, since a hole has millions of
    them."""
    entries, fault = transaction_index.load(DISK, name)
    for entry in entries:
        output.line(
            f"version: {entry.version} producerId: {entry.producer_id} "
            f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
            f"lastStableOffset: {entry.last_stable_offset}"
        )
    if fault is not None:
        raise fault


def dump_snapshot(name: str, output: Output) -> None:
    try:
        entries = snapshot.parse(DISK.read(name), path=name)
    except CorruptFileError as error:
        output.flush()
        complain(str(error))
        return
    for entry in entries:
        first = entry.current_transaction_first_offset
        transaction = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {transaction} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            line += (
                f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
                f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
                f"timestamp: {entry.timestamp}"
            )
        output.line(line)
