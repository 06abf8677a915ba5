"""Sealed segments rewritten with another codec or in another message format.

Every batch goes through :func:`kstore.record.convert.convert`: offsets, timestamps, headers,
producers' fields, transactions and control batches stay, whatever the codec, and gaps stay gaps.
A segment becomes one segment, or several where it grows beyond ``segment.bytes``; it is put in
the old one's place as a compaction's are (:mod:`kstore.log.replace_segments`). The work on
segments may be done side by side, in any processes: :func:`rewrite_segment` makes the files,
wherever its ``files`` puts them.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.batch_table import scan
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
from kstore.integers import check_integer
from kstore.maintenance.reindex import SegmentDamage
from kstore.record.codec import codec_id
from kstore.record.convert import convert, merge, recompress
from kstore.segment import header_checksums, transaction_index
from kstore.segment.cleaned_segment import CleanedSegment, FinishedSegment
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

_PIECE = 4 << 20  # bytes read at a time
_COMPRESSED = 1 << 16  # where they lose their codec: they may grow a thousand times
_INT32_MAX = 2**31 - 1
_LEVELS = {"gzip": (1, 9), "zstd": (1, 22)}
_CODEC_BITS, _CONTROL_BIT = 7, 32  # of a batch's attributes

Progress = Callable[[int, int], None]

# What keeps a segment as it is, and lets the others go on.
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
    """What batches are to become: ``compression`` by Kafka's name, None keeps each batch's;
    ``magic`` 2 makes batches v2 of messages v0 and v1, None keeps the format of each.

    A batch that the codec would make larger stays as it is, unless ``force``. ``merge`` puts
    small neighbours together (:func:`kstore.record.convert.merge`), up to ``max.message.bytes``.
    """

    compression: str | None = None
    level: int | None = None
    magic: int | None = None
    force: bool = False
    merge: bool = False

    @property
    def keeps_smaller(self) -> bool:
        """Whether the aim is size: "none" is asked for in spite of it."""
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
    """What became of a segment; nothing was written where no batch had to change."""

    base_offset: int
    size: int
    new: tuple[FinishedSegment, ...]
    kept_batches: int = 0  # that stay as they are since they would grow
    merged_batches: int = 0  # that became part of the one before them

    @property
    def new_size(self) -> int:
        return sum(each.size for each in self.new) if self.new else self.size


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """What a rewrite would do to one log, by the headers of its batches. Immutable."""

    segments: int  # sealed ones
    bytes: int
    segments_to_rewrite: int  # that have a batch to change
    bytes_to_rewrite: int


@dataclass(slots=True)
class RewriteReport:
    """What was done to one log's sealed segments. A segment with damage is in ``damages`` only,
    with path, position and offset, and stays as it was."""

    segments: int = 0  # that were read to their end
    rewritten: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept_batches: int = 0  # that stay as they are since they would grow
    merged_batches: int = 0  # that became part of the one before them
    damages: list[SegmentDamage] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no segment stays as it was because of damage."""
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
    """Write a sealed segment anew, as ``.cleaned`` files of the out directory.

    Parameters
    ----------
    next_offset
        Where the next segment begins.
    on_position
        Called with the position in the segment before each chunk; may raise to end it.

    Raises CorruptRecordError with path, position and offset where a batch is damaged, and what
    :func:`kstore.record.convert.convert` raises; what was written is removed then. Memory: a
    piece of 4 MiB or the largest batch, and what becomes of it.
    """
    path = os.path.join(directory, filenames.log_name(base_offset))
    size = files.size_of(path)
    output = _Output(out_files, out_directory, base_offset, max(config.segment_bytes, size))
    work = _Conversion(target, path, config.max_message_bytes)
    try:
        piece_size = _COMPRESSED if target.compression == "none" else _PIECE
        with closing(_pieces(files, path, base_offset, size, piece_size)) as pieces:
            for position, piece, first in pieces:
                on_position(position)
                old, new = work.convert(piece, position, first, position + len(piece) == size)
                if output.began or new != old:
                    if not output.began:
                        _copy_beginning(files, path, work.position - len(old), output)
                    output.write(new, work.first)
        if not output.began:
            return RewrittenSegment(base_offset, size, (), work.kept)
        aborted = _aborted(files, directory, base_offset)
        modified_ns = files.modified_ns(path)
        finished = output.finish(aborted, next_offset, modified_ns, config)
        return RewrittenSegment(base_offset, size, finished, work.kept, work.merged)
    except BaseException:
        output.discard()
        raise


class _Output:
    """The segments that come out of one."""

    def __init__(self, files: Files, directory: str, base_offset: int, most: int) -> None:
        self._files = files
        self._directory = directory
        self._base = base_offset
        self._most = most
        self.made: list[CleanedSegment] = []

    @property
    def began(self) -> bool:
        return bool(self.made)

    def write(self, data: bytes | memoryview, first: int) -> None:
        """Append batches; ``first`` is an offset that none of them lies below.

        What grew as it lost its codec is cut between batches.
        """
        size = self.made[-1].size if self.made else 0
        if size + len(data) <= self._most:
            self._put(data, first)
            return
        table = scan(data, check_crc=False)
        start = 0
        for n, position in enumerate(table.position):
            end = table.position[n + 1] if n + 1 < len(table) else len(data)
            if (size or position > start) and size + end - start > self._most:
                if position > start:
                    self._put(data[start:position], first)
                    first = max(first, table.last_offset[n - 1] + 1)
                start, size = position, 0
        self._put(data[start:], first)

    def _put(self, data: bytes | memoryview, first: int) -> None:
        if not self.made or (self.made[-1].size and self.made[-1].size + len(data) > self._most):
            base = first if self.made else self._base
            made = CleanedSegment(self._files, self._directory, base)
            made.begin()
            self.made.append(made)
        if self.made[-1].size + len(data) > _INT32_MAX:
            raise MessageTooLargeError("a segment would pass 2 GiB", offset=first)
        self.made[-1].write(data)

    def finish(
        self,
        aborted: list[AbortedTransaction],
        next_offset: int,
        modified_ns: int,
        config: LogConfig,
    ) -> tuple[FinishedSegment, ...]:
        bases = [each.base_offset for each in self.made]
        ends = [*bases[1:], next_offset]
        return tuple(
            made.finish(
                [one for one in aborted if made.base_offset <= one.last_offset < end],
                end,
                modified_ns,
                config,
            )
            for made, end in zip(self.made, ends, strict=True)
        )

    def discard(self) -> None:
        for each in self.made:
            each.close()
            each.discard()


def _pieces(
    files: Files, path: str, base_offset: int, size: int, piece_size: int
) -> Generator[tuple[int, bytes, int]]:
    """(position, whole batches, an offset that none of them lies below) through a segment."""
    position, first, step = 0, base_offset, piece_size
    fd = files.open(path)
    try:
        found = header_checksums.load(files, os.path.dirname(path), base_offset, fd)
        guard = None if found is None else found.check
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
            piece = data if table.stop == len(data) else data[: table.stop]
            if guard is not None:
                _check_seal(guard.feed(piece, position), path)
            yield position, piece, first
            position += table.stop
            first = max(first, table.last_offset[len(table) - 1] + 1)
            step = piece_size
        if guard is not None:
            _check_seal(guard.finish(), path)
    finally:
        files.close(fd)


def _check_seal(groups: list[tuple[int, int]], path: str) -> None:
    for start, _ in groups:
        raise CorruptRecordError(
            "offset, size or leader epoch of a batch is not what it was when it was sealed",
            path=path,
            position=start,
        )


class _Conversion:
    """The batches of a segment, piece after piece, as the target wants them."""

    def __init__(self, target: RewriteTarget, path: str, most: int) -> None:
        self._target = target
        self._path = path
        self._most = most
        self._rest = b""  # whole batches that those of the next piece may be merged with
        self._rest_first = 0
        self.position = 0  # behind what was converted last
        self.first = 0  # an offset that none of what was converted last lies below
        self.kept = 0
        self.merged = 0

    def convert(
        self, piece: bytes, position: int, first: int, is_last: bool
    ) -> tuple[bytes, bytes]:
        """Whole batches of the piece, and of what the one before left, and what becomes of them."""
        if not self._target.merge:
            self.position, self.first = position + len(piece), first
            return piece, self._convert(piece, position, first)
        data, start = self._rest + piece, position - len(self._rest)
        self.first = self._rest_first if self._rest else first
        target = self._target
        try:
            merged, used, count = merge(
                data,
                self._most,
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

    def _convert(self, piece: bytes, position: int, first: int) -> bytes:
        """Formats differ within a log, so each run of one has a call of its own."""
        if not piece:
            return piece
        if self._target.magic is not None:
            return self._call(piece, self._target.magic, position, first)
        table = scan(piece, check_crc=False)
        magics, positions = table.magic, table.position
        if len(set(magics)) == 1:
            return self._call(piece, magics[0], position, first)
        cuts = [n for n in range(len(table)) if n == 0 or magics[n] != magics[n - 1]]
        ends = [*(positions[n] for n in cuts[1:]), len(piece)]
        return b"".join(
            self._call(piece[positions[n] : end], magics[n], position + positions[n], first)
            for n, end in zip(cuts, ends, strict=True)
        )

    def _call(self, data: bytes, magic: int, position: int, first: int) -> bytes:
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
    """Take what need not change over, up to the first batch that does."""
    fd = files.open(path)
    try:
        output.write(b"", 0)
        for position in range(0, end, _PIECE):
            output.made[-1].write(files.pread(fd, min(_PIECE, end - position), position))
    finally:
        files.close(fd)


def _aborted(files: Files, directory: str, base_offset: int) -> list[AbortedTransaction]:
    """What the segment's transaction index says; a lost one is made anew by who asks for it."""
    path = os.path.join(directory, filenames.transaction_index_name(base_offset))
    if files.kind(path) is None:
        return []
    entries, fault = transaction_index.load(files, path)
    if fault is not None:  # opening a log heals missing ones only: aborted records would show
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
    """Put finished segments in one's place; an error takes back what does not count yet.

    With a token they are staged; else they are ``.cleaned`` files of the log already.
    """
    new = [CleanedSegment(files, log.path, each.base_offset) for each in finished]
    try:
        for each, facts in zip(new, finished, strict=True):
            each.adopt(facts, token)
        return writer.replacer.replace_segments(new, [old])
    except BaseException:
        for each in reversed(new):
            writer.replacer.abandon(each)
        raise


def plan_rewrite(log: "Log", target: RewriteTarget, *, roll: bool = False) -> RewritePlan:
    """Read the headers of all batches that would be rewritten; changes nothing.

    The log may be open for reading. A batch that would grow counts as one to change, and with
    ``target.merge`` every segment does. ``roll``: as if the active segment were sealed.

    Raises UnsupportedCompressionTypeError where messages v0 or v1 would have to be compressed
    with zstd, which Kafka does not allow.
    """
    target.check()
    views = [view for view in _views_of(log, roll=roll) if view.size > 0]
    due = [view for view in views if _has_work(log, view, target)]
    return RewritePlan(
        len(views), sum(each.size for each in views), len(due), sum(each.size for each in due)
    )


def _views_of(log: "Log", *, roll: bool) -> Sequence[SegmentView]:
    views = log.segments.views
    return views if roll else views[:-1]


def _has_work(log: "Log", view: SegmentView, target: RewriteTarget) -> bool:
    """Whether a batch of a segment is to change; headers that cannot be read end the search."""
    codec = None if target.compression is None else codec_id(target.compression)
    data, position, found = log._read_whole(view), 0, target.merge
    while position < len(data):
        table = scan(data, position, min(position + _PIECE, len(data)), check_crc=False)
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
    """Rewrite the sealed segments of a log one by one, while it is read and appended to.

    A segment with damage stays as it is, and is in the report; the others are rewritten.

    Parameters
    ----------
    roll
        Roll the active segment first, so that every batch is rewritten.
    check
        Called before each chunk; may raise to end it. What was swapped in by then stays.
    progress
        Called with bytes done and bytes in all.

    Raises
    ------
    InvalidConfigError, UnsupportedCompressionTypeError
        What :meth:`RewriteTarget.check` and :func:`plan_rewrite` raise; nothing was changed.
    CompactionAbandonedError
        The log was truncated meanwhile, or is being moved to another directory.
    StorageError
        The disk is full or failed. Segments that were not swapped stay as they were.
    """
    target.check()
    writer = log._require_writer()
    report = RewriteReport()
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
                made = rewrite_segment(
                    files, log.path, files, log.path, view.base_offset, view.next_offset, target,
                    log.config, on_position,
                )  # fmt: skip
            except StorageError as error:
                _check_it_is_there(log, view, error)
                raise
            except REWRITE_ERRORS as error:
                _check_it_is_there(log, view, error)
                report.damages.append(damage_of(error, view.path))
            else:
                report.add(made)
                if made.new:
                    for new in swap_in(files, log, writer, made.new, view):
                        header_checksums.write(files, log.path, new.base_offset)
            done += view.size
        if progress is not None:
            progress(total, total)
    return report


def _check_it_is_there(log: "Log", view: SegmentView, error: KStoreError) -> None:
    """A file that is gone, or another, is no damage where its segment left the log."""
    if not any(view is each for each in log.segments.views):
        raise CompactionAbandonedError(
            "the log was shortened while it was rewritten", path=log.path
        ) from error


def damage_of(error: KStoreError, path: str) -> SegmentDamage:
    """An error as a report says it."""
    return SegmentDamage(
        error.path or path,
        -1 if error.position is None else error.position,
        -1 if error.offset is None else error.offset,
        error.reason,
    )
