"""The body of a Spark task, batch or streaming: reads offset ranges as Arrow batches."""

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.errors import StorageError
from kstore.spark.local_disk import local_disk
from kstore.spark.source.data_loss import LostOffsets
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.range_reader import Damage, RangeReader

if TYPE_CHECKING:
    from kstore.record.columns import Columns


def run_task(
    options: SourceOptions, columns: tuple[str, ...], ranges: Sequence[OffsetRange]
) -> Iterator[Any]:
    """The Arrow batches of the ranges; an error names file, position and offset.

    Memory: a buffer of 1 MiB (or the largest batch), 8 MiB or one batch of decompressed bytes, and
    a copy of the keys and values of up to 16,384 records.
    """
    from kstore.spark.source.arrow_batches import BatchMaker  # pyarrow, after Spark's fork

    current: OffsetRange | None = None
    maker: BatchMaker | None = None
    for offset_range, found in read_ranges(options, ranges):
        if maker is None or offset_range is not current:
            current = offset_range
            maker = BatchMaker(columns, offset_range.topic, offset_range.partition)
        yield maker.make(found)


def read_ranges(
    options: SourceOptions, ranges: Sequence[OffsetRange], lost: list[LostOffsets] | None = None
) -> "Iterator[tuple[OffsetRange, Columns]]":
    """The columns of each range, valid until the next ones are requested.

    Writes the skipped batches to ``badRecordsPath``, if that is set. ``lost`` collects the lost
    offsets if ``failOnDataLoss`` is false.
    """
    reader = RangeReader(
        options.paths, options.isolation, options.fail_on_data_loss, options.skips_damage
    )
    reader.lost = reader.lost if lost is None else lost
    yield from reader.read(ranges)
    if reader.found and options.bad_records_path is not None:
        write_bad_records(options.bad_records_path, reader.found)


def write_bad_records(directory: str, found: Sequence[Damage]) -> None:
    """Write a JSON line for each skipped batch, each into a file named by the hash of its content.

    So a retried task, a speculative copy and another query over the same frame write the same
    files, and the directory has each batch once.
    """
    files = local_disk()
    try:
        if files.kind(directory) is None:
            files.make_directory(directory)
    except StorageError:  # another task was faster
        if files.kind(directory) != "directory":
            raise
    for damage in found:
        data = json.dumps(asdict(damage)).encode() + b"\n"
        name = f"part-{hashlib.sha256(data).hexdigest()[:32]}.json"
        # A name of its own, because two attempts of the task may run at once.
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")
        files.write_atomically(temporary, data)
        files.rename(temporary, os.path.join(directory, name))
