"""The directory that a restore appends to: how its batches are made, and how they get there."""

import os
import zlib
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from kstore.errors import CorruptRecordError, InvalidConfigError, StorageError
from kstore.log.log import Log
from kstore.partition_files import Files, StagedRange, batch_fields, batch_table, filenames
from kstore.spark.jobs.restore_types import Encoding, Written


def encoding_for(log: Log, encoding: Encoding, *, exact: bool = True) -> Encoding:
    """How batches for a log are made."""
    if log.config.message_magic != 2:
        raise InvalidConfigError(
            f"{log.topic} has message.format.version {log.config.message_format_version}; record "
            "batches v2 are restored: set it to 0.11.0 or later"
        )
    epoch = -1
    if exact:
        writer = log._require_writer()
        with writer.state.lock:
            writer.state.appender.make_ready()
            epoch = max(writer.state.appender.leader_epoch, 0)
    most = min(log.config.max_message_bytes, log.config.segment_bytes)
    size = min(encoding.batch_size, most)
    return replace(encoding, batch_size=size, most=most, leader_epoch=epoch)


def append_staged(files: Files, log: Log, encoding: Encoding, written: Written) -> None:
    """Append a chunk's batches with the offsets they have; on disk when it returns."""
    directory = encoding.log_dirs[0]
    most = min(1 << 20, log.config.segment_bytes)
    for piece in written.pieces:
        data = _read(files, directory, piece)
        starts = [*memoryview(batch_table.walk_frames(data)).tolist(), len(data)]
        first = batch_fields.base_offset(data)
        if log.end_offset == log.start_offset and log.end_offset < first:
            log._require_writer().truncator.skip_to(first)
        begin = 0
        for start, end in pairwise(starts):
            if end - begin > most and start > begin:
                log.append_as_follower(data[begin:start])
                begin = start
        log.append_as_follower(data[begin:])
    if written.pieces:
        log.flush()
        files.remove(os.path.join(directory, written.file))


def _read(files: Files, directory: str, piece: StagedRange) -> bytes:
    path = os.path.join(directory, piece.file)
    fd = files.open(path)
    try:
        data = files.pread(fd, piece.size, piece.position)
    finally:
        files.close(fd)
    if len(data) != piece.size or zlib.crc32(data) != piece.crc:
        raise CorruptRecordError(
            f"{piece.size} bytes were staged here, and are cut or damaged: run the job again",
            path=path,
            position=piece.position,
        )
    return data


def remove_staged_of(files: Files, directory: str, job: str) -> None:
    """Remove what a job staged, or an earlier run of it.

    What an unfinished publication names is kept: undoing compares with it. So the store is to be
    opened first, which undoes.
    """
    with suppress(StorageError):
        names = files.listdir(directory)
        for name in names if filenames.PUBLISHING_PREFIX + job not in names else ():
            if name.startswith(f"{filenames.STAGED_PREFIX}{job}."):
                files.remove(os.path.join(directory, name))
