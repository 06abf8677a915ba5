"""Batches made elsewhere appended to several partitions as one: all of them show, or none.

A *publication* is a rollback journal with one switch:

1. its manifest, ``kstore.publishing.<token>``, is on disk in the first log directory;
2. each partition gets a fence, ``kstore.fence``: where it ended, and which manifest counts;
3. the batches are appended and flushed; large files of them become segments by a rename
   (:mod:`kstore.log.import_segment`);
4. the manifest is renamed to ``kstore.published.<id>`` (or removed): now everything shows.

A reader in another process, of either isolation, shows nothing beyond a barrier while the manifest
that it names exists (:mod:`kstore.files.publish_barrier`, honoured by :mod:`kstore.log.reader`). A
publication that did not come to its switch is undone before the next writer's store can be used:
its batches, which nobody has seen, are truncated. What cannot be proven to be one of them is never
cut.
"""

import errno
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from kstore._native.format.checksum import crc32
from kstore._native.spark.arrow_batches import place_batches
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    KStoreError,
    RecoveryNeededError,
    StorageError,
    UnknownTopicOrPartitionError,
    UnsyncedError,
)
from kstore.files import filenames
from kstore.files.filenames import FENCE, PUBLISHING_PREFIX, TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.publish_barrier import FORMAT, LARGEST_MANIFEST, parse, unreadable
from kstore.log.import_segment import can_stand_beside, least_size, place_file
from kstore.log.log import Log

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_LOGGER = logging.getLogger("kstore")

_HEAD = 61
_ADOPTING = 2  # format of a manifest whose files may have become segments
_CHUNK = 1 << 20  # bytes appended at a time
_UNFLUSHED = 16 << 20  # bytes of a partition that wait for the disk, before it is told to begin
_THREADS = 4  # partitions that are appended side by side

FindLog = Callable[[str, int], Log]


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole batches of one partition in a staged file of the manifest's directory."""

    file: str
    position: int
    size: int
    crc: int  # CRC-32 of these bytes (zlib's), as they were staged
    alone: bool = False  # the file holds nothing but this partition's batches, in order


@dataclass(slots=True)
class Part:
    """What one partition gets."""

    topic: str
    partition: int
    pieces: list[Piece]
    count: int  # of records
    base_offset: int = -1
    segment: int = -1
    position: int = -1
    log_dir: str | None = None  # of the partition, relative to the manifest's; None: not told

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def crc(self) -> int:
        """CRC-32 of its pieces' CRC-32s, four bytes each, big-endian."""
        return crc32(b"".join(piece.crc.to_bytes(4, "big") for piece in self.pieces))


@dataclass(slots=True)
class Publication:
    """One publication, from its manifest to its switch; the store's writer holds it."""

    files: Files
    directory: str
    token: str
    identity: str | None  # of whom; None: nobody comes back for it
    batch: int
    at_ms: int
    parts: list[Part] = field(default_factory=list)
    retention_ms: int | None = None  # how long what is published under an identity is remembered
    binding: Mapping[str, object] = field(default_factory=dict)  # more of the identity, to keep
    keep_timestamps: bool = False  # also where the topic's are LogAppendTime

    @property
    def path(self) -> str:
        return os.path.join(self.directory, PUBLISHING_PREFIX + self.token)

    def begin(self, find: FindLog) -> None:
        """Write the manifest, then a fence into every partition; nothing is appended yet."""
        for part in self.parts:
            log = find(part.topic, part.partition)
            if log.config.message_magic != 2:
                raise InvalidConfigError(
                    f"{part.topic} has message.format.version "
                    f"{log.config.message_format_version}, but record batches v2 are to be "
                    "appended: set it to 0.11.0 or later"
                )
            active = log.segments.views[-1]
            part.base_offset = log.end_offset
            part.segment, part.position = active.base_offset, active.size
            part.log_dir = os.path.relpath(os.path.dirname(log.path), self.directory)
        manifest = self._document()
        if len(manifest) > LARGEST_MANIFEST:  # else nobody could undo or finish it
            raise KStoreError(
                f"too much to publish at once: the manifest would have {len(manifest)} bytes, and "
                f"at most {LARGEST_MANIFEST} are read; write it in several jobs",
                path=self.path,
            )
        contents: list[tuple[str | os.PathLike[str], bytes]] = [(self.path, manifest)]
        for part in self.parts:
            log = find(part.topic, part.partition)
            document = {
                "format": FORMAT,
                "segment": part.segment,
                "position": part.position,
                "offset": part.base_offset,
                "manifest": os.path.relpath(self.path, log.path),
            }
            contents.append((os.path.join(log.path, FENCE), json.dumps(document).encode() + b"\n"))
        # What is copied has to be on disk before it can be on disk in a log: undoing compares
        # them. Files of one partition are: who staged them has seen to that.
        shared = {piece.file for part in self.parts for piece in part.pieces if not piece.alone}
        staged: list[int] = []
        try:
            for name in sorted(shared):
                staged.append(self.files.open(os.path.join(self.directory, name)))
            # A fence alone counts for nothing.
            self.files.write_all_atomically(contents, beside=staged)
        finally:
            for fd in staged:
                self.files.close(fd)

    def append(self, find: FindLog) -> None:
        """Append every part, and return when all of it is on disk.

        Raises CorruptRecordError where a staged file is not what was staged.
        """
        logs = [find(part.topic, part.partition) for part in self.parts]
        if len(logs) < 2 and sum(part.size for part in self.parts) <= _UNFLUSHED:
            for part, log in zip(self.parts, logs, strict=True):
                self._append_part(part, log, None)
            return
        from concurrent.futures import ThreadPoolExecutor

        flushing = ThreadPoolExecutor(_THREADS, "kstore-flush")
        with flushing, ThreadPoolExecutor(_THREADS, "kstore-publish") as appending:
            work = [
                appending.submit(self._append_part, part, log, flushing)
                for part, log in zip(self.parts, logs, strict=True)
            ]
        for each in work:
            each.result()

    def _append_part(self, part: Part, log: Log, flushing: "Executor | None") -> None:
        """Append what one partition gets; the disk writes while the next piece is copied."""
        stamped = log.config.message_timestamp_type == "LogAppendTime" and not self.keep_timestamps
        append_time = self.at_ms if stamped else -1
        unflushed = 0
        under_way: Future[None] | None = None
        for name, group in groupby(part.pieces, key=lambda piece: piece.file):
            pieces = list(group)
            if self._adopt(pieces, log):
                continue
            for piece in pieces:
                _append(log, self._read(piece), os.path.join(self.directory, name), append_time)
                unflushed += piece.size
                idle = under_way is None or under_way.done()
                if flushing is not None and unflushed > _UNFLUSHED and idle:
                    under_way, unflushed = flushing.submit(log.flush), 0
        if log.end_offset != part.base_offset + part.count:
            raise CorruptRecordError(
                f"{part.count} records were staged for {part.topic}-{part.partition}, but "
                f"{log.end_offset - part.base_offset} came",
                path=log.path,
                offset=part.base_offset,
            )
        log.flush()

    def _adopt(self, pieces: list[Piece], log: Log) -> bool:
        """Whether a file with all of these pieces became a segment; else they are to be copied."""
        config, size = log.config, sum(piece.size for piece in pieces)
        path = os.path.join(self.directory, pieces[0].file)
        if (
            not pieces[0].alone
            or not least_size(config) <= size == self.files.size_of(path)
            or config.message_timestamp_type == "LogAppendTime"
        ):
            return False
        writer = log._require_writer()
        with writer.state.lock:
            writer.state.appender.make_ready()
            if not can_stand_beside(self.files, path, writer.state.active.path):
                return False
            offset, epoch = writer.state.appender.next_offset, writer.state.appender.leader_epoch
        placed = place_file(self.files, path, offset, epoch, config)
        if not placed.fits(config):
            return False
        log.flush()  # after a power cut no segment is there without what comes before it
        return writer.importer.import_file(placed)

    def _read(self, piece: Piece, segment: str | None = None) -> bytearray:
        """The bytes of a piece as they were staged; segment is what its file may have become."""
        path = os.path.join(self.directory, piece.file)
        if segment is not None and self.files.kind(path) is None:
            path = segment
        data = bytearray(piece.size)
        fd = self.files.open(path)
        try:
            size = self.files.preadv_into(fd, data, piece.position)
        finally:
            self.files.close(fd)
        if piece.alone:
            _unplace(data)
        if size != piece.size or crc32(data) != piece.crc:
            raise CorruptRecordError(
                f"{piece.size} bytes were staged here, and are cut or damaged: run the job again",
                path=path,
                position=piece.position,
            )
        return data

    def show(self, published: str | None) -> None:
        """The switch: from here on everything shows. ``published`` is the manifest's new path.

        Raises UnsyncedError where it shows, and a power cut may take it back. Then what was staged
        stays, for that would be undone by it.
        """
        if published is None:
            self.files.remove(self.path)
        else:
            self.files.rename(self.path, published)
        sync_progress(self.files, self.directory, self.identity)

    def undo(self, find: FindLog, log_dirs: Sequence[str]) -> None:
        """Take back what was appended; nothing where the switch has come, or never began.

        ``log_dirs`` are the store's that are not offline. Raises RecoveryNeededError, and leaves
        all as it is, where a partition lies in another one, or what was staged is not there to be
        compared with.
        """
        if self.files.kind(self.path) is None:
            return
        begun = list(self._begun(find, log_dirs))
        own = [self._is_own(log, part) for log, part in begun]
        for (log, part), proven in zip(begun, own, strict=True):
            if not proven:
                _LOGGER.warning(
                    "%s-%d: an unfinished publication is not undone from offset %d on, for "
                    "another program has appended behind it: records of it stay",
                    part.topic,
                    part.partition,
                    part.base_offset,
                )
                continue
            # Where nothing counts yet, too: an append or a roll that failed may have left files.
            log.truncate_to(part.base_offset)
        self.files.remove(self.path)
        self.files.sync_directory(self.directory)
        self.clear(find)

    def _begun(self, find: FindLog, log_dirs: Sequence[str]) -> Iterator[tuple[Log, Part]]:
        """The partitions that may have got something, without those of topics that are gone."""
        for part in self.parts:
            try:
                log = find(part.topic, part.partition)
            except UnknownTopicOrPartitionError:
                self._check_gone(part, log_dirs)
                continue
            if part.base_offset >= 0:
                yield log, part

    def _check_gone(self, part: Part, log_dirs: Sequence[str]) -> None:
        """RecoveryNeededError where a partition may well be there, in a directory not opened."""
        if part.log_dir is None:  # an older kstore did not write it down
            return
        place = os.path.normpath(os.path.join(self.directory, part.log_dir))
        if place not in log_dirs:
            raise RecoveryNeededError(
                f"a publication that was cut short has to be undone in {part.topic}-"
                f"{part.partition}, too: open the store with all of its log directories, {place} "
                "among them, and none of them offline",
                path=self.path,
            )

    def clear(self, find: FindLog) -> None:
        """Remove the fences, which count no more, and what was staged.

        What cannot be removed is left: all is decided, and the next writer takes it away.
        """
        for part in self.parts:
            try:
                fence = os.path.join(find(part.topic, part.partition).path, FENCE)
            except UnknownTopicOrPartitionError:
                continue
            _remove(self.files, fence)
        for name in sorted({piece.file for part in self.parts for piece in part.pieces}):
            _remove(self.files, os.path.join(self.directory, name))

    def _is_own(self, log: Log, part: Part) -> bool:
        """Whether every batch behind the fence is one that was staged, in order.

        Raises RecoveryNeededError where that cannot be told.
        """
        stamped = log.config.message_timestamp_type == "LogAppendTime"
        staged = self._staged_heads(part, log)
        stored = _stored(log, part.base_offset)
        while True:
            try:
                head = next(stored, None)
            except CorruptRecordError:  # no record batch of ours
                return False
            if head is None:
                return True
            try:
                own = next(staged, b"")
            except (CorruptRecordError, StorageError) as error:
                if isinstance(error, StorageError) and error.errno != errno.ENOENT:
                    raise  # nobody knows: the manifest stays, and the next writer looks again
                raise RecoveryNeededError(
                    f"what a publication that was cut short left in {part.topic}-{part.partition} "
                    f"cannot be told from what others appended, for {error.path} is gone or "
                    "damaged. Put it back, and it is undone. Or remove the manifest: what is "
                    "there then shows, a part of the publication",
                    path=self.path,
                    offset=part.base_offset,
                ) from error
            if _mark(head, stamped) != _mark(own, stamped):
                return False

    def _staged_heads(self, part: Part, log: Log) -> Iterator[bytes]:
        """The headers of what was staged, in order; of adopted files from the log's segments."""
        offset = part.base_offset
        for _, group in groupby(part.pieces, key=lambda piece: piece.file):
            segment = os.path.join(log.path, filenames.log_name(offset))
            for piece in group:
                for head in _heads(self._read(piece, segment if piece.alone else None)):
                    yield bytes(head)
                    offset += int.from_bytes(head[23:27], "big") + 1

    # --- the manifest ---------------------------------------------------------------------

    def _document(self) -> bytes:
        return json.dumps(
            {
                "format": _ADOPTING
                if any(p.alone for part in self.parts for p in part.pieces)
                else FORMAT,
                "id": self.identity,
                "batch": self.batch,
                "at_ms": self.at_ms,
                "retention_ms": self.retention_ms,
                **self.binding,
                "partitions": [
                    {**asdict(part), "size": part.size, "crc": part.crc} for part in self.parts
                ],
            }
        ).encode()


def read_manifest(files: Files, directory: str, name: str) -> Publication:
    """A publication as its manifest tells; CorruptFileError, NewerFormatError."""
    path = os.path.join(directory, name)
    document = parse(files, path)
    try:
        parts = [
            Part(
                str(each["topic"]),
                int(each["partition"]),
                [
                    Piece(os.path.basename(piece["file"]), piece["position"], piece["size"],
                          piece["crc"], bool(piece.get("alone")))
                    for piece in each["pieces"]
                ],
                int(each["count"]),
                int(each["base_offset"]),
                int(each["segment"]),
                int(each["position"]),
                None if each.get("log_dir") is None else str(each["log_dir"]),
            )
            for each in document["partitions"]
        ]  # fmt: skip
        identity = document["id"]
        return Publication(
            files,
            directory,
            name.removeprefix(PUBLISHING_PREFIX),
            None if identity is None else str(identity),
            int(document["batch"]),
            int(document["at_ms"]),
            parts,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise unreadable(path) from None


def undo_unfinished(
    files: Files, loose: Iterable[str], find: FindLog, log_dirs: Sequence[str]
) -> int:
    """Undo what a crash left between manifest and switch; returns how many there were.

    ``loose`` are the paths of plain files in the store's log directories, ``log_dirs``
    (those that are not offline). For a writer, before anybody else may use its store. Raises
    RecoveryNeededError where it cannot be undone as things are.
    """
    count = 0
    for path in loose:
        directory, name = os.path.split(path)
        if name.startswith(PUBLISHING_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
            _remove(files, path)  # a manifest that was not yet one
        elif name.startswith(PUBLISHING_PREFIX):
            _LOGGER.info("%s is of a publication that was cut short: it is undone", path)
            read_manifest(files, directory, name).undo(find, log_dirs)
            count += 1
    return count


def sync_progress(files: Files, directory: str, identity: str | None) -> None:
    """Bring the switch of a publication to the disk; UnsyncedError where that fails."""
    try:
        files.sync_directory(directory)
    except StorageError as error:
        then = (
            "Run again it would come twice: open the store once for writing instead, and close it"
            if identity is None
            else f"Run it again, as batch of {identity}: nothing is written twice by that"
        )
        raise UnsyncedError(
            "everything is published and shows, but its directory could not be brought to the "
            f"disk ({error.reason}): a power cut may take it back, as a whole. {then}",
            errno=error.errno,
            path=directory,
        ) from error


# --- helpers --------------------------------------------------------------------------------


def _append(log: Log, data: bytearray, path: str, append_time: int) -> None:
    """Append staged batches whole, in pieces that fit a segment; -1 keeps their timestamps."""
    writer = log._require_writer()
    most = min(_CHUNK, log.config.segment_bytes)
    position = 0
    with writer.state.lock:
        writer.state.appender.make_ready()
        while position < len(data):
            offset, epoch = writer.state.appender.next_offset, writer.state.appender.leader_epoch
            try:
                end, _ = place_batches(data, position, most, offset, epoch, append_time)
            except CorruptRecordError as error:
                raise error.at(path=path) from None
            with memoryview(data) as view, view[position:end] as batches:
                log.append_as_follower(batches)
            position = end


def _unplace(data: bytearray) -> None:
    """Take offsets and leader epoch away again: batches as a task stages them."""
    position = 0
    while position + _HEAD <= len(data):
        data[position : position + 8] = bytes(8)
        data[position + 12 : position + 16] = b"\xff" * 4
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")


def _heads(data: bytearray) -> Iterator[bytearray]:
    position = 0
    while position + _HEAD <= len(data):
        yield data[position : position + _HEAD]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")


def _stored(log: Log, offset: int) -> Iterator[bytes]:
    """The headers of the log's batches from an offset on; CorruptRecordError for what is none."""
    while offset < log.end_offset:
        found = log.read(offset, _CHUNK)
        if found is None:
            return
        data = bytes(found)
        position, before = 0, offset
        while position + _HEAD <= len(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            if data[position + 16] != 2:
                raise CorruptRecordError("not a record batch v2", position=position)
            yield data[position : position + _HEAD]
            last = int.from_bytes(data[position : position + 8], "big")
            offset = last + int.from_bytes(data[position + 23 : position + 27], "big") + 1
            position += size
        if offset <= before:
            raise CorruptRecordError("the batches do not go on", path=log.path, offset=before)


def _mark(head: bytes, stamped: bool) -> bytes:
    """What tells a batch: size, checksum and count; with LogAppendTime it has another checksum."""
    return head[8:12] + (b"" if stamped else head[17:21]) + head[23:27] + head[57:61]


def _remove(files: Files, path: str) -> None:
    try:
        if files.kind(path) is not None:
            files.remove(path)
    except StorageError as error:
        _LOGGER.warning("left behind by a publication that is over: %s", error)
