"""Rewrites rolled segments with another codec or in another message format.

:func:`kstore.record.format_conversion.convert` converts each batch: offsets, timestamps, headers,
producer fields, transactions and control batches stay the same, and gaps stay gaps. A segment
becomes one segment, or several if it grows beyond ``segment.bytes``. As after a compaction, the new
segments replace the old one in the log (:mod:`kstore.log.replace_segments`). Processes may rewrite
segments in parallel: :func:`rewrite_segment` writes the files through the ``Files`` that it is
given.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.batch_scan import scan
from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentView
from kstore.config import LogConfig, magic_of
from kstore.errors import (
    CompactionAbandonedError,
    CorruptFileError,
    CorruptRecordError,
    InvalidConfigError,
    InvalidRecordError,
    InvalidTimestampError,
    KStoreError,
    MessageTooLargeError,
    StorageError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.integers import check_integer
from kstore.maintenance.reindex import HEADER_CHANGED, SegmentDamage
from kstore.record.codec import codec_id
from kstore.record.format_conversion import convert, merge, recompress
from kstore.segment import header_checksums, transaction_index
from kstore.segment.cleaned_segment import CleanedSegment, FinishedSegment
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

_CHUNK = 4 << 20  # bytes read at a time
_COMPRESSED_CHUNK = 1 << 16  # the same if batches are decompressed: they may grow a thousandfold
_INT32_MAX = 2**31 - 1
_LEVELS = {"gzip": (1, 9), "zstd": (1, 22)}
_CODEC_BITS, _CONTROL_BIT = 7, 32  # of a batch's attributes

Progress = Callable[[int, int], None]

# Errors after which one segment stays as it is, while the others are rewritten.
REWRITE_ERRORS = (
    CorruptFileError,
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)


@dataclass(frozen=True, slots=True)
class RewriteTarget:
    """The target of a rewrite: ``compression`` by Kafka's name (None keeps each batch's codec);
    ``magic`` 2 converts messages v0 and v1 to batches v2 (None keeps the format of each).

    A batch that the codec would make larger stays as it is, unless ``force``. ``merge`` merges
    small adjacent batches, up to ``max.message.bytes``
    (:func:`kstore.record.format_conversion.merge`).
    """

    compression: str | None = None
    level: int | None = None
    magic: int | None = None
    force: bool = False
    merge: bool = False

    @property
    def keeps_smaller(self) -> bool:
        """Whether a batch that would grow stays as it is; not for "none", which always grows."""
        return self.compression not in (None, "none") and not self.force

    def check(self) -> None:
        """Raise UnsupportedCompressionTypeError for a codec that Kafka does not know, and
        InvalidConfigError for a level that the codec does not have."""
        if self.compression is not None:
            codec_id(self.compression)
        if self.level is None:
            return
        low, high = _LEVELS.get(self.compression or "", (0, 0))
        if high == 0:
            known = ", ".join(f"{name} {low} to {high}" for name, (low, high) in _LEVELS.items())
            raise InvalidConfigError(f"a level goes with a codec that has one: {known}")
        check_integer("level", self.level, low, high)


def conversion(
    message_format_version: str, compression: str | None, level: int | None, *, force: bool = False
) -> RewriteTarget:
    """The target of a conversion to the message format of a Kafka version.

    Raises InvalidConfigError for what is no version, UnsupportedForMessageFormatError for one
    that writes messages v0 or v1.
    """
    if magic_of(message_format_version) < 2:
        raise UnsupportedForMessageFormatError(
            f"{message_format_version} writes messages v0 or v1, which cannot hold headers, "
            "producer ids, transactions and control batches: logs are converted to record batches "
            "v2 only (0.11.0 or later). For an old format, create a topic with that "
            "message.format.version and append the records to it"
        )
    return RewriteTarget(compression, level, magic=2, force=force)


@dataclass(frozen=True, slots=True)
class RewrittenSegment:
    """The result for one segment; ``new`` is empty if no batch had to change."""

    base_offset: int
    size: int
    new: tuple[FinishedSegment, ...]
    kept_batches: int = 0  # unchanged because they would grow
    merged_batches: int = 0  # merged into the batch before them

    @property
    def new_size(self) -> int:
        return sum(segment.size for segment in self.new) if self.new else self.size


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """What a rewrite would do to one log, planned from its batch headers. Immutable."""

    segments: int  # rolled ones
    bytes: int
    segments_to_rewrite: int  # with at least one batch to change
    bytes_to_rewrite: int


@dataclass(slots=True)
class RewriteReport:
    """The rewrite of a log's rolled segments. A damaged segment is only in ``damages``, with
    path, position and offset, and stays as it was."""

    segments: int = 0  # read to their end
    rewritten: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept_batches: int = 0  # unchanged because they would grow
    merged_batches: int = 0  # merged into the batch before them
    damages: list[SegmentDamage] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no segment is damaged."""
        return not self.damages

    def add(self, segment: RewrittenSegment) -> None:
        self.segments += 1
        self.rewritten += bool(segment.new)
        self.bytes_before += segment.size
        self.bytes_after += segment.new_size
        self.kept_batches += segment.kept_batches
        self.merged_batches += segment.merged_batches


def rewrite_segment(
    files: Files,
    directory: str,
    out_files: Files,
    out_directory: str,
    base_offset: int,
    next_offset: int,
    target: RewriteTarget,
    config: LogConfig,
    on_position: Callable[[int], None] = lambda position: None,
) -> RewrittenSegment:
    """Rewrite a rolled segment as ``.cleaned`` files of the out directory.

    Parameters
    ----------
    next_offset
        The base offset of the next segment.
    on_position
        Called with the position in the segment before each chunk; may raise to end the rewrite.

    Raises CorruptRecordError with path, position and offset if a batch is damaged, and what
    :func:`kstore.record.format_conversion.convert` raises; an error removes the files written so
    far.
    Memory: a chunk of 4 MiB or the largest batch, and its converted form.
    """
    path = os.path.join(directory, filenames.log_name(base_offset))
    size = files.size_of(path)
    output = _Output(out_files, out_directory, base_offset, max(config.segment_bytes, size))
    converter = _Conversion(target, path, config.max_message_bytes)
    try:
        chunk_size = _COMPRESSED_CHUNK if target.compression == "none" else _CHUNK
        with closing(_chunks(files, path, base_offset, size, chunk_size)) as chunks:
            for position, chunk, first in chunks:
                on_position(position)
                is_last = position + len(chunk) == size
                old, new = converter.convert(chunk, position, first, is_last)
                if output.has_begun or new != old:
                    if not output.has_begun:
                        _copy_beginning(files, path, converter.position - len(old), output)
                    output.write(new, converter.first)
        if not output.has_begun:
            return RewrittenSegment(base_offset, size, (), converter.kept)
        aborted = _load_aborted(files, directory, base_offset)
        modified_ns = files.modified_ns(path)
        finished = output.finish(aborted, next_offset, modified_ns, config)
        return RewrittenSegment(base_offset, size, finished, converter.kept, converter.merged)
    except BaseException:
        output.discard()
        raise


class _Output:
    """The new segments of one rewritten segment."""

    def __init__(self, files: Files, directory: str, base_offset: int, max_size: int) -> None:
        self._files = files
        self._directory = directory
        self._base = base_offset
        self._max_size = max_size
        self.segments: list[CleanedSegment] = []

    @property
    def has_begun(self) -> bool:
        return bool(self.segments)

    def write(self, data: bytes | memoryview, first: int) -> None:
        """Append batches; ``first`` is a lower bound of their offsets.

        Data that no longer fits one segment, since decompression made it grow, is split between
        batches.
        """
        size = self.segments[-1].size if self.segments else 0
        if size + len(data) <= self._max_size:
            self._put(data, first)
            return
        table = scan(data, check_crc=False)
        start = 0
        for n, position in enumerate(table.position):
            end = table.position[n + 1] if n + 1 < len(table) else len(data)
            if (size or position > start) and size + end - start > self._max_size:
                if position > start:
                    self._put(data[start:position], first)
                    first = max(first, table.last_offset[n - 1] + 1)
                start, size = position, 0
        self._put(data[start:], first)

    def _put(self, data: bytes | memoryview, first: int) -> None:
        segments = self.segments
        if not segments or (segments[-1].size and segments[-1].size + len(data) > self._max_size):
            base = first if segments else self._base
            segment = CleanedSegment(self._files, self._directory, base)
            segment.begin()
            segments.append(segment)
        if segments[-1].size + len(data) > _INT32_MAX:
            raise MessageTooLargeError("the segment would grow beyond 2 GiB", offset=first)
        segments[-1].write(data)

    def finish(
        self,
        aborted: list[AbortedTransaction],
        next_offset: int,
        modified_ns: int,
        config: LogConfig,
    ) -> tuple[FinishedSegment, ...]:
        bases = [segment.base_offset for segment in self.segments]
        ends = [*bases[1:], next_offset]
        return tuple(
            segment.finish(
                [entry for entry in aborted if segment.base_offset <= entry.last_offset < end],
                end,
                modified_ns,
                config,
            )
            for segment, end in zip(self.segments, ends, strict=True)
        )

    def discard(self) -> None:
        for segment in self.segments:
            segment.close()
            segment.discard()


def _chunks(
    files: Files, path: str, base_offset: int, size: int, chunk_size: int
) -> Generator[tuple[int, bytes, int]]:
    """The complete batches of a segment: (position, batches, lower bound of their offsets)."""
    position, first, step = 0, base_offset, chunk_size
    with OpenFile(files, path) as fd:
        found = header_checksums.load(files, os.path.dirname(path), base_offset, fd)
        checksums = None if found is None else found.check
        while position < size:
            data = files.pread(fd, min(step, size - position), position)
            table = scan(data, check_crc=False)
            if table.stop == 0:
                step = batch_fields.declared_size(data)
                if len(data) < step <= size - position:
                    continue
                raise CorruptRecordError(
                    reason(table.status), path=path, position=position, offset=first
                )
            chunk = data if table.stop == len(data) else data[: table.stop]
            if checksums is not None:
                _raise_for_mismatches(checksums.feed(chunk, position), path)
            yield position, chunk, first
            position += table.stop
            first = max(first, table.last_offset[len(table) - 1] + 1)
            step = chunk_size
        if checksums is not None:
            _raise_for_mismatches(checksums.finish(), path)


def _raise_for_mismatches(groups: list[tuple[int, int]], path: str) -> None:
    for start, _ in groups:
        raise CorruptRecordError(HEADER_CHANGED, path=path, position=start)


class _Conversion:
    """Converts the batches of a segment, chunk by chunk, to the target."""

    def __init__(self, target: RewriteTarget, path: str, max_batch_size: int) -> None:
        self._target = target
        self._path = path
        self._max_batch_size = max_batch_size
        self._rest = b""  # complete batches that may be merged with those of the next chunk
        self._rest_first = 0
        self.position = 0  # the end of the batches converted last
        self.first = 0  # lower bound of their offsets
        self.kept = 0
        self.merged = 0

    def convert(
        self, chunk: bytes, position: int, first: int, is_last: bool
    ) -> tuple[bytes, bytes]:
        """Batches before and after conversion: those left from the last chunk and this chunk's."""
        if not self._target.merge:
            self.position, self.first = position + len(chunk), first
            return chunk, self._convert(chunk, position, first)
        data, start = self._rest + chunk, position - len(self._rest)
        self.first = self._rest_first if self._rest else first
        target = self._target
        try:
            merged, used, count = merge(
                data,
                self._max_batch_size,
                compression=target.compression or "none",
                level=target.level,
                keep_smaller=target.keeps_smaller,
                final=is_last,
            )
        except KStoreError as error:
            error.position = start + (error.position or 0)
            raise error.at(path=self._path, offset=self.first) from None
        self.merged += count
        self.position, self._rest = start + used, data[used:]
        if self._rest:  # batches v2 begin with their offset
            self._rest_first = batch_fields.base_offset(self._rest)
        return data[:used], self._convert(merged, start, self.first)

    def _convert(self, chunk: bytes, position: int, first: int) -> bytes:
        """Convert each run of batches of the same format, since formats may differ in a log."""
        if not chunk:
            return chunk
        if self._target.magic is not None:
            return self._convert_run(chunk, self._target.magic, position, first)
        table = scan(chunk, check_crc=False)
        magics, positions = table.magic, table.position
        if len(set(magics)) == 1:
            return self._convert_run(chunk, magics[0], position, first)
        starts = [n for n in range(len(table)) if n == 0 or magics[n] != magics[n - 1]]
        ends = [*(positions[n] for n in starts[1:]), len(chunk)]
        return b"".join(
            self._convert_run(chunk[positions[n] : end], magics[n], position + positions[n], first)
            for n, end in zip(starts, ends, strict=True)
        )

    def _convert_run(self, data: bytes, magic: int, position: int, first: int) -> bytes:
        target = self._target
        try:
            if not target.keeps_smaller:
                return convert(data, magic, compression=target.compression, level=target.level)
            assert target.compression is not None
            new, kept = recompress(data, magic, target.compression, level=target.level)
        except KStoreError as error:
            error.position = position + (error.position or 0)
            raise error.at(path=self._path, offset=first) from None
        self.kept += kept
        return new


def _copy_beginning(files: Files, path: str, end: int, output: _Output) -> None:
    """Copy the batches before the first one that changes."""
    with OpenFile(files, path) as fd:
        output.write(b"", 0)
        for position in range(0, end, _CHUNK):
            output.segments[-1].write(files.pread(fd, min(_CHUNK, end - position), position))


def _load_aborted(files: Files, directory: str, base_offset: int) -> list[AbortedTransaction]:
    """The entries of the segment's transaction index; none if it is missing.

    A lost index is rebuilt when a reader asks the log for it.
    """
    path = os.path.join(directory, filenames.transaction_index_name(base_offset))
    if files.kind(path) is None:
        return []
    entries, fault = transaction_index.load(files, path)
    if fault is not None:  # opening a log rebuilds only a missing one: readers would see records
        # of aborted transactions
        fault.reason += "; `kstore reindex` rebuilds it"
        raise fault.at()
    return entries


def swap_in(
    files: Files,
    log: "Log",
    writer: "LogWriter",
    finished: Sequence[FinishedSegment],
    old: SegmentView,
    token: str | None = None,
) -> tuple[SegmentView, ...]:
    """Replace a segment by finished ones; an error undoes all that is not published yet.

    With a token the finished segments are staged files, else ``.cleaned`` files of the log.
    """
    new = [CleanedSegment(files, log.path, segment.base_offset) for segment in finished]
    try:
        for cleaned, segment in zip(new, finished, strict=True):
            cleaned.adopt(segment, token)
        return writer.replacer.replace_segments(new, [old])
    except BaseException:
        for cleaned in reversed(new):
            writer.replacer.abandon(cleaned)
        raise


def plan_rewrite(log: "Log", target: RewriteTarget, *, roll: bool = False) -> RewritePlan:
    """Plan a rewrite from the headers of all batches; changes nothing.

    The log may be open for reading only. The plan counts a batch that would grow as one to
    change; with ``target.merge`` it counts every segment. ``roll``: include the active segment.

    Raises UnsupportedCompressionTypeError if zstd is asked for messages v0 or v1, which Kafka
    does not allow.
    """
    target.check()
    views = [view for view in _views_of(log, roll=roll) if view.size > 0]
    due = [view for view in views if _has_batch_to_change(log, view, target)]
    return RewritePlan(
        len(views), sum(view.size for view in views), len(due), sum(view.size for view in due)
    )


def _views_of(log: "Log", *, roll: bool) -> Sequence[SegmentView]:
    views = log.segments.views
    return views if roll else views[:-1]


def _has_batch_to_change(log: "Log", view: SegmentView, target: RewriteTarget) -> bool:
    """Whether the rewrite changes a batch of the segment; an invalid header ends the search."""
    codec = None if target.compression is None else codec_id(target.compression)
    data, position, found = log._read_whole(view), 0, target.merge
    while position < len(data):
        table = scan(data, position, min(position + _CHUNK, len(data)), check_crc=False)
        if len(table) == 0:
            size = batch_fields.declared_size(data.memory(), position)
            if not 0 < size <= len(data) - position:
                break
            table = scan(data, position, position + size, check_crc=False)
            if len(table) == 0:
                break
        for magic, attributes in zip(table.magic, table.attributes, strict=True):
            is_old = target.magic is not None and magic < target.magic
            is_other = codec not in (None, attributes & _CODEC_BITS)
            if is_old or (is_other and not attributes & _CONTROL_BIT):
                if not is_old and magic < 2 and target.compression == "zstd":
                    raise UnsupportedCompressionTypeError(
                        "messages v0 and v1 cannot be compressed with zstd: convert the log to "
                        "record batches v2 (`kstore convert`, Log.convert), or choose another "
                        "codec",
                        path=view.path,
                        position=position,
                    )
                found = True
        position = table.stop
    return found


def rewrite_log(
    log: "Log",
    target: RewriteTarget,
    *,
    files: Files,
    roll: bool = False,
    check: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
) -> RewriteReport:
    """Rewrite the rolled segments of a log one by one; reads and appends continue meanwhile.

    A damaged segment stays as it is and goes into the report; the others are rewritten.

    Parameters
    ----------
    roll
        Roll the active segment first, so that every batch is rewritten.
    check
        Called before each chunk; may raise to end the rewrite. Segments swapped in so far stay.
    progress
        Called with bytes done and bytes in total.

    Raises
    ------
    InvalidConfigError, UnsupportedCompressionTypeError
        As :meth:`RewriteTarget.check` and :func:`plan_rewrite` raise them; nothing has changed.
    CompactionAbandonedError
        The log was truncated meanwhile, or is being moved to another directory.
    StorageError
        The disk is full or failed. Segments that were not swapped stay as they were.
    """
    target.check()
    writer = log._require_writer()
    report = RewriteReport()
    writer.state.check_lock_order()
    with writer.state.cleaning:
        writer.replacer.check_cleaning()
        if target.compression == "zstd" and target.magic is None:
            plan_rewrite(log, target, roll=roll)  # raises before anything is changed
        if roll:
            log.roll()
        views = log.segments.views[:-1]
        done, total = 0, sum(view.size for view in views)

        def on_position(position: int) -> None:
            writer.replacer.check_cleaning()
            check()
            if progress is not None:
                progress(done + position, total)

        for view in views:
            try:
                rewritten = rewrite_segment(
                    files, log.path, files, log.path, view.base_offset, view.next_offset, target,
                    log.config, on_position,
                )  # fmt: skip
            except StorageError as error:
                _check_still_in_log(log, view, error)
                raise
            except REWRITE_ERRORS as error:
                _check_still_in_log(log, view, error)
                report.damages.append(damage_of(error, view.path))
            else:
                report.add(rewritten)
                if rewritten.new:
                    for new in swap_in(files, log, writer, rewritten.new, view):
                        writer.flusher.write_checksums_of(new.base_offset)
            done += view.size
        if progress is not None:
            progress(total, total)
    return report


def _check_still_in_log(log: "Log", view: SegmentView, error: KStoreError) -> None:
    """Raise CompactionAbandonedError if the segment has left the log: the error is no damage."""
    if not any(view is current for current in log.segments.views):
        raise CompactionAbandonedError(
            "the log was truncated while it was rewritten", path=log.path
        ) from error


def damage_of(error: KStoreError, path: str) -> SegmentDamage:
    """An error as an entry of a report."""
    return SegmentDamage(
        error.path or path,
        -1 if error.position is None else error.position,
        -1 if error.offset is None else error.offset,
        error.reason,
    )
