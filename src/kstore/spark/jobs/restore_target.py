"""The target log of a restore: how batches are encoded for it, and how staged ones are appended."""

import os
import zlib
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from kstore.errors import CorruptRecordError, InvalidConfigError, StorageError
from kstore.log.log import Log
from kstore.partition_files import (
    Files,
    OpenFile,
    StagedRange,
    batch_fields,
    batch_scan,
    filenames,
)
from kstore.spark.jobs.restore_types import Encoding, Written


def encoding_for(log: Log, encoding: Encoding, *, exact: bool = True) -> Encoding:
    """The encoding of batches for a log; ``exact``: with the source's offsets."""
    if log.config.message_magic != 2:
        raise InvalidConfigError(
            f"{log.topic} has message.format.version {log.config.message_format_version}, but a "
            "restore writes record batches v2: set it to 0.11.0 or later"
        )
    epoch = -1
    if exact:
        writer = log._require_writer()
        with writer.state.lock:
            writer.state.appender.make_ready()
            epoch = max(writer.state.appender.leader_epoch, 0)
    limit = min(log.config.max_message_bytes, log.config.segment_bytes)
    size = min(encoding.batch_size, limit)
    return replace(encoding, batch_size=size, max_batch_size=limit, leader_epoch=epoch)


def append_staged(files: Files, log: Log, encoding: Encoding, written: Written) -> None:
    """Append a chunk's staged batches with their offsets; they are on disk when it returns."""
    directory = encoding.log_dirs[0]
    max_size = min(1 << 20, log.config.segment_bytes)
    for staged in written.ranges:
        data = _read(files, directory, staged)
        starts = [*memoryview(batch_scan.walk_frames(data)).tolist(), len(data)]
        first = batch_fields.base_offset(data)
        if log.end_offset == log.start_offset and log.end_offset < first:
            log._require_writer().truncator.skip_to(first)
        begin = 0
        for start, end in pairwise(starts):
            if end - begin > max_size and start > begin:
                log.append_as_follower(data[begin:start])
                begin = start
        log.append_as_follower(data[begin:])
    if written.ranges:
        log.flush()
        files.remove(os.path.join(directory, written.file))


def _read(files: Files, directory: str, staged: StagedRange) -> bytes:
    path = os.path.join(directory, staged.file)
    with OpenFile(files, path) as fd:
        data = files.pread(fd, staged.size, staged.position)
    if len(data) != staged.size or zlib.crc32(data) != staged.crc:
        raise CorruptRecordError(
            f"{staged.size} staged bytes are truncated or corrupt: run the job again",
            path=path,
            position=staged.position,
        )
    return data


def remove_staged_of(files: Files, directory: str, job: str) -> None:
    """Remove the files that this run of a job, or an earlier one, has staged.

    While a publication of the job is unfinished, its staged files are kept, because undoing the
    publication compares with them. Opening the store undoes it, so open the store first.
    """
    with suppress(StorageError):
        names = files.listdir(directory)
        for name in names if filenames.PUBLISHING_PREFIX + job not in names else ():
            if name.startswith(f"{filenames.STAGED_PREFIX}{job}."):
                files.remove(os.path.join(directory, name))
