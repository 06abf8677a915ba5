"""What runs in a task of Spark, batch or streaming: ranges in, Arrow batches out."""

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.errors import StorageError
from kstore.partition_files import DISK
from kstore.spark.source.data_loss import LostOffsets
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.range_reader import Damage, RangeReader

if TYPE_CHECKING:
    from kstore.record.columns import Columns


def run_task(
    options: SourceOptions, columns: tuple[str, ...], ranges: Sequence[OffsetRange]
) -> Iterator[Any]:
    """Arrow batches of the ranges; the first error names file, position and offset.

    Memory: a buffer of 1 MiB (or the largest batch), what is decompressed at a time (8 MiB or
    one batch), and a copy of the keys and values of up to 16,384 records of it.
    """
    from kstore.spark.source.arrow_batches import BatchMaker  # pyarrow, after Spark's fork

    made: OffsetRange | None = None
    maker: BatchMaker | None = None
    for of, found in read_ranges(options, ranges):
        if maker is None or of is not made:
            maker, made = BatchMaker(columns, of.topic, of.partition), of
        yield maker.make(found)


def read_ranges(
    options: SourceOptions, ranges: Sequence[OffsetRange], lost: list[LostOffsets] | None = None
) -> "Iterator[tuple[OffsetRange, Columns]]":
    """Columns of each range, good until the next are asked for; what was left out is written.

    ``lost`` takes the offsets that were gone, where ``failOnDataLoss`` is false.
    """
    reader = RangeReader(
        options.paths, options.isolation, options.fail_on_data_loss, options.skips_damage
    )
    reader.lost = reader.lost if lost is None else lost
    yield from reader.read(ranges)
    if reader.found and options.bad_records_path is not None:
        write_bad_records(options.bad_records_path, reader.found)


def write_bad_records(directory: str, found: Sequence[Damage]) -> None:
    """A JSON line for each batch that was left out, each in a file that is named by its content.

    So a task that is tried again, a copy of it and another query over the same frame leave the
    same files, and a count over the directory counts each batch once.
    """
    try:
        if DISK.kind(directory) is None:
            DISK.make_directory(directory)
    except StorageError:  # another task was faster
        if DISK.kind(directory) != "directory":
            raise
    for each in found:
        data = json.dumps(asdict(each)).encode() + b"\n"
        name = f"part-{hashlib.sha256(data).hexdigest()[:32]}.json"
        own = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")  # two attempts may run at once
        DISK.write_atomically(own, data)
        DISK.rename(own, os.path.join(directory, name))
