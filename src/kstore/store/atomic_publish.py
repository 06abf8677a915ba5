"""Atomic publication: staged batches of several partitions become visible together, or none do.

A *publication* is a rollback journal with one switch:

1. its manifest, ``kstore.publishing.<token>``, is written and synced in the first log directory;
2. each partition gets a barrier, ``kstore.fence``: its end offset and the manifest's name;
3. the batches are appended and flushed; large staged files become segments by a rename
   (:mod:`kstore.log.import_segment`);
4. the manifest is renamed to ``kstore.published.<id>`` (or removed): all batches are visible.

A reader in another process, of either isolation level, returns nothing beyond a barrier while the
manifest that it names exists (:mod:`kstore.files.publish_barrier`, applied by
:mod:`kstore.log.reader`). The next writer undoes an interrupted publication before its store can be
used: it truncates the batches, which no reader has seen. Batches that cannot be proven to belong to
the publication are never truncated.
"""

import errno
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from itertools import groupby
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.crc import crc32
from kstore._native.spark.encode_arrow import assign_offsets
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
from kstore.files.open_file import OpenFile
from kstore.files.publish_barrier import FORMAT, LARGEST_MANIFEST, parse, unreadable
from kstore.integers import count_of
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.import_segment import assign_file_offsets, can_stand_beside, least_size
from kstore.log.log import Log

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_LOGGER = logging.getLogger("kstore")

_HEAD = batch_fields.V2_HEADER_SIZE
_IMPORTING = 2  # format of a manifest whose files may have become segments
_CHUNK = 1 << 20  # bytes appended at a time
_UNFLUSHED = 16 << 20  # start a flush from this many unsynced bytes of a partition on
_THREADS = 4  # partitions appended to in parallel

FindLog = Callable[[str, int], Log]


@lazy_dataclass(frozen=True)
class StagedRange:
    """Complete batches of one partition in a staged file of the manifest's directory."""

    file: str
    position: int
    size: int
    crc: int  # zlib's CRC-32 of the staged bytes
    alone: bool = False  # the file contains only this partition's batches, in order


@lazy_dataclass()
class PartitionPublication:
    """The batches for one partition, and its end before them."""

    topic: str
    partition: int
    ranges: list[StagedRange]
    count: int  # of records
    base_offset: int = -1
    segment: int = -1
    position: int = -1
    log_dir: str | None = None  # of the partition, relative to the manifest's; None: unknown

    @property
    def size(self) -> int:
        return sum(staged.size for staged in self.ranges)

    @property
    def crc(self) -> int:
        """CRC-32 of the ranges' CRC-32s, four bytes each, big-endian."""
        return crc32(b"".join(staged.crc.to_bytes(4, "big") for staged in self.ranges))


@lazy_dataclass()
class Publication:
    """One publication, from its manifest to its switch; the store's writer holds it."""

    files: Files
    directory: str
    token: str
    identity: str | None  # of the job; None: the job is never repeated
    batch: int
    at_ms: int
    entries: list[PartitionPublication] = field(default_factory=list)
    retention_ms: int | None = None  # how long the identity is remembered
    binding: Mapping[str, object] = field(
        default_factory=dict
    )  # more properties of the identity, stored in the manifest
    keep_timestamps: bool = False  # also in topics with LogAppendTime

    @property
    def path(self) -> str:
        return os.path.join(self.directory, PUBLISHING_PREFIX + self.token)

    def begin(self, find: FindLog) -> None:
        """Write the manifest, then a barrier into every partition; nothing is appended yet."""
        for entry in self.entries:
            log = find(entry.topic, entry.partition)
            if log.config.message_magic != 2:
                raise InvalidConfigError(
                    f"{entry.topic} has message.format.version "
                    f"{log.config.message_format_version}, but record batches v2 are to be "
                    "appended: set it to 0.11.0 or later"
                )
            active = log.segments.views[-1]
            entry.base_offset = log.end_offset
            entry.segment, entry.position = active.base_offset, active.size
            entry.log_dir = os.path.relpath(os.path.dirname(log.path), self.directory)
        manifest = self._document()
        if len(manifest) > LARGEST_MANIFEST:  # no process could undo or finish it
            raise KStoreError(
                f"too much to publish at once: the manifest would have {len(manifest)} bytes, and "
                f"at most {LARGEST_MANIFEST} are read; write it in several jobs",
                path=self.path,
            )
        contents: list[tuple[str | os.PathLike[str], bytes]] = [(self.path, manifest)]
        for entry in self.entries:
            log = find(entry.topic, entry.partition)
            document = {
                "format": FORMAT,
                "segment": entry.segment,
                "position": entry.position,
                "offset": entry.base_offset,
                "manifest": os.path.relpath(self.path, log.path),
            }
            contents.append((os.path.join(log.path, FENCE), json.dumps(document).encode() + b"\n"))
        # Staged bytes must be on disk before their copies are on disk in a log, because undoing
        # compares the two. Files with a single partition were synced when they were staged.
        shared = {
            staged.file for entry in self.entries for staged in entry.ranges if not staged.alone
        }
        staged_fds: list[int] = []
        try:
            for name in sorted(shared):
                staged_fds.append(self.files.open(os.path.join(self.directory, name)))
            # A barrier without its manifest has no effect.
            self.files.write_all_atomically(contents, beside=staged_fds)
        finally:
            for fd in staged_fds:
                self.files.close(fd)

    def append(self, find: FindLog) -> None:
        """Append to every partition; return when all appended batches are on disk.

        Raises CorruptRecordError if a staged file has changed.
        """
        logs = [find(entry.topic, entry.partition) for entry in self.entries]
        if len(logs) < 2 and sum(entry.size for entry in self.entries) <= _UNFLUSHED:
            for entry, log in zip(self.entries, logs, strict=True):
                self._append_entry(entry, log, None)
            return
        from concurrent.futures import ThreadPoolExecutor

        flushing = ThreadPoolExecutor(_THREADS, "kstore-flush")
        with flushing, ThreadPoolExecutor(_THREADS, "kstore-publish") as appending:
            futures = [
                appending.submit(self._append_entry, entry, log, flushing)
                for entry, log in zip(self.entries, logs, strict=True)
            ]
        for future in futures:
            future.result()

    def _append_entry(
        self, entry: PartitionPublication, log: Log, flushing: "Executor | None"
    ) -> None:
        """Append to one partition; the disk writes while the next range is copied."""
        stamped = log.config.message_timestamp_type == "LogAppendTime" and not self.keep_timestamps
        append_time = self.at_ms if stamped else -1
        unflushed = 0
        flush: Future[None] | None = None
        for name, group in groupby(entry.ranges, key=lambda staged: staged.file):
            ranges = list(group)
            if self._import_as_segment(ranges, log):
                continue
            for staged in ranges:
                _append(log, self._read(staged), os.path.join(self.directory, name), append_time)
                unflushed += staged.size
                idle = flush is None or flush.done()
                if flushing is not None and unflushed > _UNFLUSHED and idle:
                    flush, unflushed = flushing.submit(log.flush), 0
        if log.end_offset != entry.base_offset + entry.count:
            raise CorruptRecordError(
                f"{count_of(entry.count, 'record')} staged for {entry.topic}-{entry.partition}, "
                f"but {log.end_offset - entry.base_offset} appended",
                path=log.path,
                offset=entry.base_offset,
            )
        log.flush()

    def _import_as_segment(self, ranges: list[StagedRange], log: Log) -> bool:
        """Whether a file with all of these ranges became a segment; else they must be copied."""
        config, size = log.config, sum(staged.size for staged in ranges)
        path = os.path.join(self.directory, ranges[0].file)
        if (
            not ranges[0].alone
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
        placed = assign_file_offsets(self.files, path, offset, epoch, config)
        if not placed.fits(config):
            return False
        log.flush()  # a power cut must not leave a segment without its predecessors
        return writer.importer.import_file(placed)

    def _read(self, staged: StagedRange, segment: str | None = None) -> bytearray:
        """The staged bytes of a range; ``segment``: the path that its file may have now."""
        path = os.path.join(self.directory, staged.file)
        if segment is not None and self.files.kind(path) is None:
            path = segment
        data = bytearray(staged.size)
        with OpenFile(self.files, path) as fd:
            size = self.files.preadv_into(fd, data, staged.position)
        if staged.alone:
            _clear_placement(data)
        if size != staged.size or crc32(data) != staged.crc:
            raise CorruptRecordError(
                f"{staged.size} staged bytes are truncated or corrupt: run the job again",
                path=path,
                position=staged.position,
            )
        return data

    def show(self, published: str | None) -> None:
        """Make all batches visible. ``published`` is the manifest's new path, None removes it.

        Raises UnsyncedError if the batches are visible but a power cut may undo that. The staged
        files are then kept, because undoing needs them.
        """
        if published is None:
            self.files.remove(self.path)
        else:
            self.files.rename(self.path, published)
        sync_progress(self.files, self.directory, self.identity)

    def undo(self, find: FindLog, log_dirs: Sequence[str]) -> None:
        """Truncate the appended batches; no effect if they are visible or were never appended.

        ``log_dirs`` are the store's directories that are not offline. Raises RecoveryNeededError
        and changes nothing if a partition is in another directory, or if staged files that the
        log must be compared with are missing.
        """
        if self.files.kind(self.path) is None:
            return
        begun_entries = list(self._begun_entries(find, log_dirs))
        own = [self._is_own(log, entry) for log, entry in begun_entries]
        for (log, entry), proven in zip(begun_entries, own, strict=True):
            if not proven:
                _LOGGER.warning(
                    "%s-%d: an interrupted publication is not undone from offset %d on, because "
                    "another program has appended behind it: its records stay",
                    entry.topic,
                    entry.partition,
                    entry.base_offset,
                )
                continue
            # Also without appended batches: a failed append or roll may have left files.
            log.truncate_to(entry.base_offset)
        self.files.remove(self.path)
        self.files.sync_directory(self.directory)
        self.clear(find)

    def _begun_entries(
        self, find: FindLog, log_dirs: Sequence[str]
    ) -> Iterator[tuple[Log, PartitionPublication]]:
        """The partitions that may have been appended to, without those of deleted topics."""
        for entry in self.entries:
            try:
                log = find(entry.topic, entry.partition)
            except UnknownTopicOrPartitionError:
                self._check_not_deleted(entry, log_dirs)
                continue
            if entry.base_offset >= 0:
                yield log, entry

    def _check_not_deleted(self, entry: PartitionPublication, log_dirs: Sequence[str]) -> None:
        """Raise RecoveryNeededError if the partition may exist in a directory that is not open."""
        if entry.log_dir is None:  # written by an older kstore
            return
        log_dir = os.path.normpath(os.path.join(self.directory, entry.log_dir))
        if log_dir not in log_dirs:
            raise RecoveryNeededError(
                f"an interrupted publication must be undone in {entry.topic}-{entry.partition}, "
                f"too: open the store with all of its log directories, including {log_dir}, and "
                "none of them offline",
                path=self.path,
            )

    def clear(self, find: FindLog) -> None:
        """Remove the barriers, which have no effect any more, and the staged files.

        Files that cannot be removed are harmless; the next writer removes them.
        """
        for entry in self.entries:
            try:
                fence = os.path.join(find(entry.topic, entry.partition).path, FENCE)
            except UnknownTopicOrPartitionError:
                continue
            _remove(self.files, fence)
        for name in sorted({staged.file for entry in self.entries for staged in entry.ranges}):
            _remove(self.files, os.path.join(self.directory, name))

    def _is_own(self, log: Log, entry: PartitionPublication) -> bool:
        """Whether the batches behind the barrier are the staged ones, in order.

        Raises RecoveryNeededError if that cannot be determined.
        """
        stamped = log.config.message_timestamp_type == "LogAppendTime"
        staged = self._staged_headers(entry, log)
        stored = _stored(log, entry.base_offset)
        while True:
            try:
                head = next(stored, None)
            except CorruptRecordError:  # not a staged record batch
                return False
            if head is None:
                return True
            try:
                own = next(staged, b"")
            except (CorruptRecordError, StorageError) as error:
                if isinstance(error, StorageError) and error.errno != errno.ENOENT:
                    raise  # undetermined: the manifest stays, and the next writer tries again
                raise RecoveryNeededError(
                    f"the batches of an interrupted publication in {entry.topic}-{entry.partition} "
                    f"cannot be distinguished from others, because {error.path} is missing or "
                    "corrupt. Restore the file, and the publication is undone. Or remove the "
                    "manifest: the batches appended so far then become visible",
                    path=self.path,
                    offset=entry.base_offset,
                ) from error
            if _identity_fields(head, stamped) != _identity_fields(own, stamped):
                return False

    def _staged_headers(self, entry: PartitionPublication, log: Log) -> Iterator[bytes]:
        """The headers of the staged batches, in order; of imported files from the segments."""
        offset = entry.base_offset
        for _, group in groupby(entry.ranges, key=lambda staged: staged.file):
            segment = os.path.join(log.path, filenames.log_name(offset))
            for staged in group:
                for head in _headers(self._read(staged, segment if staged.alone else None)):
                    yield bytes(head)
                    offset += batch_fields.last_offset_delta(head) + 1

    # --- the manifest ---------------------------------------------------------------------

    def _document(self) -> bytes:
        return json.dumps(
            {
                "format": _IMPORTING
                if any(staged.alone for entry in self.entries for staged in entry.ranges)
                else FORMAT,
                "id": self.identity,
                "batch": self.batch,
                "at_ms": self.at_ms,
                "retention_ms": self.retention_ms,
                **self.binding,
                "partitions": [_partition_document(entry) for entry in self.entries],
            }
        ).encode()


def read_manifest(files: Files, directory: str, name: str) -> Publication:
    """Read a publication from its manifest. Raises CorruptFileError, NewerFormatError."""
    path = os.path.join(directory, name)
    document = parse(files, path)
    try:
        entries = [
            PartitionPublication(
                str(document_entry["topic"]),
                int(document_entry["partition"]),
                [
                    StagedRange(os.path.basename(staged["file"]), staged["position"],
                                staged["size"], staged["crc"], bool(staged.get("alone")))
                    for staged in document_entry["pieces"]
                ],
                int(document_entry["count"]),
                int(document_entry["base_offset"]),
                int(document_entry["segment"]),
                int(document_entry["position"]),
                None if document_entry.get("log_dir") is None else str(document_entry["log_dir"]),
            )
            for document_entry in document["partitions"]
        ]  # fmt: skip
        identity = document["id"]
        return Publication(
            files,
            directory,
            name.removeprefix(PUBLISHING_PREFIX),
            None if identity is None else str(identity),
            int(document["batch"]),
            int(document["at_ms"]),
            entries,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise unreadable(path) from None


def undo_unfinished(
    files: Files, loose: Iterable[str], find: FindLog, log_dirs: Sequence[str]
) -> int:
    """Undo the publications that a crash interrupted; returns how many there were.

    ``loose`` are the paths of plain files in the store's log directories, ``log_dirs``
    (those that are not offline). For a writer, before its store is used. Raises
    RecoveryNeededError if a publication cannot be undone now.
    """
    count = 0
    for path in loose:
        directory, name = os.path.split(path)
        if name.startswith(PUBLISHING_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
            _remove(files, path)  # not yet a manifest
        elif name.startswith(PUBLISHING_PREFIX):
            _LOGGER.info("undoing the interrupted publication %s", path)
            read_manifest(files, directory, name).undo(find, log_dirs)
            count += 1
    return count


def sync_progress(files: Files, directory: str, identity: str | None) -> None:
    """Sync the visibility of a publication to disk; UnsyncedError if that fails."""
    try:
        files.sync_directory(directory)
    except StorageError as error:
        advice = (
            "Do not run it again, that would write it twice: open the store for writing, close it"
            if identity is None
            else f"Run it again, as batch of {identity}: nothing is written twice"
        )
        raise UnsyncedError(
            "everything is published and visible, but its directory could not be synced "
            f"({error.reason}): a power cut may undo the entire publication. {advice}",
            errno=error.errno,
            path=directory,
        ) from error


# --- helpers --------------------------------------------------------------------------------


def _partition_document(entry: PartitionPublication) -> dict[str, object]:
    """A partition's entry in the manifest."""
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "pieces": [asdict(staged) for staged in entry.ranges],
        "count": entry.count,
        "base_offset": entry.base_offset,
        "segment": entry.segment,
        "position": entry.position,
        "log_dir": entry.log_dir,
        "size": entry.size,
        "crc": entry.crc,
    }


def _append(log: Log, data: bytearray, path: str, append_time: int) -> None:
    """Append staged batches in chunks of complete batches that fit a segment.

    An ``append_time`` of -1 keeps their timestamps.
    """
    writer = log._require_writer()
    max_size = min(_CHUNK, log.config.segment_bytes)
    position = 0
    with writer.state.lock:
        writer.state.appender.make_ready()
        while position < len(data):
            offset, epoch = writer.state.appender.next_offset, writer.state.appender.leader_epoch
            try:
                end, _ = assign_offsets(data, position, max_size, offset, epoch, append_time)
            except CorruptRecordError as error:
                raise error.at(path=path) from None
            with memoryview(data) as view, view[position:end] as batches:
                log.append_as_follower(batches)
            position = end


def _clear_placement(data: bytearray) -> None:
    """Clear offsets and leader epoch: batches as a task stages them."""
    position = 0
    while position + _HEAD <= len(data):
        batch_fields.stamp(data, position, 0, -1)
        position = batch_fields.next_position(data, position)


def _headers(data: bytearray) -> Iterator[bytearray]:
    position = 0
    while position + _HEAD <= len(data):
        yield data[position : position + _HEAD]
        position = batch_fields.next_position(data, position)


def _stored(log: Log, offset: int) -> Iterator[bytes]:
    """The headers of the log's batches from an offset on; CorruptRecordError for anything else."""
    while offset < log.end_offset:
        found = log.read(offset, _CHUNK)
        if found is None:
            return
        data = bytes(found)
        position, before = 0, offset
        while position + _HEAD <= len(data):
            if batch_fields.magic(data, position) != 2:
                raise CorruptRecordError("not a record batch v2", position=position)
            yield data[position : position + _HEAD]
            offset = batch_fields.last_offset(data, position) + 1
            position = batch_fields.next_position(data, position)
        if offset <= before:
            raise CorruptRecordError("a batch is missing", path=log.path, offset=before)


def _identity_fields(head: bytes, stamped: bool) -> tuple[int, int | None, int, int] | None:
    """The fields that identify a batch: size, count, and the CRC unless LogAppendTime changes it.

    None if ``head`` is empty.
    """
    if not head:
        return None
    return (
        batch_fields.frame_size(head),
        None if stamped else batch_fields.stored_crc(head),
        batch_fields.last_offset_delta(head),
        batch_fields.record_count(head),
    )


def _remove(files: Files, path: str) -> None:
    try:
        if files.kind(path) is not None:
            files.remove(path)
    except StorageError as error:
        _LOGGER.warning("a file of a finished publication could not be removed: %s", error)
