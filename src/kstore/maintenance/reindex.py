"""Rebuilds all derived files of a partition: indexes, producer state, header checksums.

The result equals what recovery writes for a directory that has only its ``.log`` files. Processes
may index the segments in parallel: :func:`index_segment` stages the files of one segment,
:func:`replay_producers` stages those that need the segments in order, and
:func:`publish_staged_files`, called by the holder of the store's lock, renames them over the old
files. Each file follows from the log alone, so a crash in between leaves a mix of old and new
files that is consistent with the log.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.clock import now_ms
from kstore.config import LogConfig
from kstore.errors import StorageError
from kstore.files import filenames
from kstore.files.filenames import LOG, SNAPSHOT, TRANSACTION_INDEX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.files.staging_area import StagingArea, remove_staged, staged_path
from kstore.producer_state.state import ProducerState, UncleanStop
from kstore.recovery.loader import load_active
from kstore.segment import header_checksums, segment
from kstore.segment.scan import OnProgress, scan_segment

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

_LARGEST = 1 << 30  # bytes of a derived file
HEADER_CHANGED = (
    "the header checksums of the segment do not match: the offset, size or leader epoch of a "
    "batch has changed since it was sealed"
)


@dataclass(frozen=True, slots=True)
class SegmentDamage:
    """Why a segment's files stay as they are."""

    path: str
    position: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Staging:
    """Files staged under one token, by their final names."""

    token: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexedSegment:
    """The result of reading a segment. Only files that differ from the existing ones are staged."""

    base_offset: int
    size: int
    next_offset: int
    producer_batches: int  # of idempotent and transactional producers
    staging: Staging
    damage: SegmentDamage | None


@dataclass(frozen=True, slots=True)
class ReplayedProducers:
    """Staged snapshots and transaction indexes; ``unwanted``: files that do not match the log."""

    staging: Staging
    unwanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """The changes to one partition. Names are those of files in its directory."""

    segments: int
    bytes: int
    written: tuple[str, ...]
    removed: tuple[str, ...]
    damages: tuple[SegmentDamage, ...]

    @property
    def ok(self) -> bool:
        """Whether no segment is damaged, so that every derived file matches the log."""
        return not self.damages


def index_segment(
    files: Files,
    directory: str,
    base_offset: int,
    config: LogConfig,
    *,
    last: bool,
    on_progress: OnProgress | None = None,
) -> IndexedSegment:
    """Check a segment and stage its offset index, time index and header checksums.

    ``last``: the active segment, which has no header checksums. For a damaged segment, or one that
    contradicts its header checksums, nothing is staged: its ``damage`` gives the position. Memory:
    both indexes; the log is mapped 32 MiB at a time.
    """
    staged = StagingArea(files, directory)
    path = os.path.join(directory, filenames.log_name(base_offset))
    scan = scan_segment(files, path, base_offset, config, on_progress)
    damage = None
    checksums = None
    if scan.status != 0:
        damage = SegmentDamage(path, scan.valid_size, scan.next_offset, reason(scan.status))
    elif not last:
        checksums, mismatch = header_checksums.renew(files, directory, base_offset)
        if mismatch is not None:
            damage = SegmentDamage(path, mismatch, base_offset, HEADER_CHANGED)
    names = []
    if damage is None:
        wanted = {
            filenames.index_name(base_offset): scan.index,
            filenames.time_index_name(base_offset): scan.time_index,
            filenames.header_checksums_name(base_offset): checksums,
        }
        for name, data in wanted.items():
            if data is not None and not _has_content(files, os.path.join(directory, name), data):
                _write_and_sync(staged, os.path.join(staged.directory, name), data)
                names.append(name)
    return IndexedSegment(
        base_offset=base_offset,
        size=scan.file_size,
        next_offset=scan.next_offset,
        producer_batches=scan.producer_batches,
        staging=Staging(staged.token, tuple(names)),
        damage=damage,
    )


def find_overlap(directory: str, segments: Sequence[IndexedSegment]) -> SegmentDamage | None:
    """The first segment with offsets beyond the next segment's base offset, or None."""
    for segment_before, segment_after in itertools.pairwise(segments):
        if segment_before.next_offset > segment_after.base_offset:
            path = os.path.join(directory, filenames.log_name(segment_before.base_offset))
            return SegmentDamage(
                path,
                segment_before.size,
                segment_before.next_offset,
                f"the segment extends to offset {segment_before.next_offset}, but the next one "
                f"begins at {segment_after.base_offset}",
            )
    return None


def replay_producers(
    files: Files,
    directory: str,
    segments: Sequence[IndexedSegment],
    log_start_offset: int,
    config: LogConfig,
    *,
    clock: Callable[[], int] | None = None,
) -> ReplayedProducers:
    """Stage the producer snapshots and transaction indexes that follow from the log.

    ``segments`` are all segments of the log in order, none of them damaged. Segments without an
    idempotent or transactional batch are not read again; of the others only headers and markers
    are read. ``clock`` returns ms since 1970, by which idle producers expire; None: the system's.
    """
    staged = StagingArea(files, directory)
    views = [
        SegmentView(
            indexed.base_offset,
            os.path.join(directory, filenames.log_name(indexed.base_offset)),
            size=indexed.size,
            next_offset=indexed.next_offset,
        )
        for indexed in segments
    ]
    start = max(log_start_offset, views[0].base_offset)
    if start > views[-1].next_offset:
        views[-1].publish(views[-1].size, start)
    log = SegmentList(tuple(views), start)
    state = ProducerState(staged, staged.directory, config.producer_id_expiration_ms)
    quiet = frozenset(indexed.base_offset for indexed in segments if indexed.producer_batches == 0)
    now = now_ms() if clock is None else clock()
    state.load(log, now, unclean=UncleanStop(0, 0, log_start_offset), quiet=quiet)
    state.take_snapshot(log.end_offset)
    staged_names = staged.listdir(staged.directory)
    unwanted = [name for name in files.listdir(directory) if _is_unwanted(name, log, staged_names)]
    changed = []
    for name in staged_names:
        data = staged.read(os.path.join(staged.directory, name), _LARGEST)
        if _has_content(files, os.path.join(directory, name), data):
            staged.remove(os.path.join(staged.directory, name))
        else:
            _sync(staged, os.path.join(staged.directory, name))
            changed.append(name)
    return ReplayedProducers(Staging(staged.token, tuple(changed)), tuple(unwanted))


def publish_staged_files(
    files: Files, directory: str, stagings: Sequence[Staging], unwanted: Sequence[str] = ()
) -> tuple[str, ...]:
    """Rename staged files to their final names and remove the unwanted; returns the names written.

    The caller holds the store's lock, and the log is closed. The changes are synced on return.
    """
    written = []
    for staging in stagings:
        for name in staging.names:
            staged = staged_path(directory, staging.token, name)
            files.rename(staged, os.path.join(directory, name))
            written.append(name)
    for name in unwanted:
        files.remove(os.path.join(directory, name))
    if written or unwanted:
        files.sync_directory(directory)
    return tuple(sorted(written))


def finish_partition(
    files: Files,
    directory: str,
    segments: Sequence[IndexedSegment],
    log_start_offset: int,
    config: LogConfig,
    replayed: ReplayedProducers | None = None,
) -> ReindexReport:
    """Publish the staged files of all segments of a partition, and its producer state.

    Without ``replayed`` this function replays the log, unless a segment is damaged.
    """
    damages = [indexed.damage for indexed in segments if indexed.damage is not None]
    overlap = find_overlap(directory, segments)
    if overlap is not None:
        damages.append(overlap)
    if replayed is None and segments and not damages:
        replayed = replay_producers(files, directory, segments, log_start_offset, config)
    stagings = [indexed.staging for indexed in segments]
    unwanted: tuple[str, ...] = ()
    if replayed is not None:
        stagings.append(replayed.staging)
        unwanted = replayed.unwanted
    return ReindexReport(
        segments=len(segments),
        bytes=sum(indexed.size for indexed in segments),
        written=publish_staged_files(files, directory, stagings, unwanted),
        removed=unwanted,
        damages=tuple(damages),
    )


# --- a log that is open for writing ---------------------------------------------------------------


def reindex_log(log: "Log", progress: Callable[[int, int], None] | None = None) -> ReindexReport:
    """See :meth:`kstore.Log.reindex`. Compaction of the log waits meanwhile.

    Appends continue while the rolled segments are read. They wait while the segments rolled since
    then, the active segment and the producers are processed.
    """
    writer = log._require_writer()
    state = writer.state
    state.check_lock_order()
    with state.cleaning:
        writer.replacer.check_cleaning()
        remove_staged(state.files, log.path)  # of a run that was killed
        reindexing = _OpenLog(log, writer, progress)
        try:
            for view in log.segments.views[:-1]:
                reindexing.index(view)
            with writer.relocator.standstill():
                writer.active_segment.cut_unpublished()
                return reindexing.finish()
        finally:
            with suppress(StorageError):
                remove_staged(state.files, log.path)


class _OpenLog:
    """The segments of an open log that have been read, and the switch of its writer to them."""

    def __init__(
        self,
        log: "Log",
        writer: "LogWriter",
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._log, self._writer = log, writer
        self._files = writer.state.files
        self._progress = progress
        self._done = 0
        self._indexed: dict[SegmentView, IndexedSegment] = {}

    def index(self, view: SegmentView, *, last: bool = False) -> None:
        """Read a segment and stage its files, unless it leaves the log meanwhile."""
        try:
            self._indexed[view] = index_segment(
                self._files,
                self._log.path,
                view.base_offset,
                self._log.config,
                last=last,
                on_progress=self._count,
            )
        except StorageError:
            if any(view is current for current in self._log.segments.views):
                raise

    def _count(self, size: int) -> None:
        self._writer.replacer.check_cleaning()
        self._done += size
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._log.size))

    def finish(self) -> ReindexReport:
        """Read the remaining segments, replay the producers and publish; appends are blocked."""
        files, directory, state = self._files, self._log.path, self._writer.state
        views = state.segments.views
        for view in views:
            if view not in self._indexed:  # rolled or truncated since, or the active one
                self.index(view, last=view is views[-1])
        segments = [self._indexed[view] for view in views]
        start, config = state.segments.start_offset, self._log.config
        is_sound = not any(indexed.damage for indexed in segments)
        changed = {name for indexed in segments for name in indexed.staging.names}
        replayed = None
        if is_sound and find_overlap(directory, segments) is None:
            replayed = replay_producers(
                files, directory, segments, start, config, clock=state.now_ms
            )
            changed |= {*replayed.staging.names, *replayed.unwanted}
        with state.names_lock:
            try:
                return finish_partition(files, directory, segments, start, config, replayed)
            finally:  # after an I/O error some files are new already
                self._take_over_or_fail(changed)

    def _take_over_or_fail(self, changed: set[str]) -> None:
        try:
            self._take_over(changed)
        except BaseException as error:
            self._writer.state.fail(error)
            raise

    def _take_over(self, changed: set[str]) -> None:
        """Let the log use the new files: segments with changed indexes get new views."""
        state, views = self._writer.state, self._writer.state.segments.views
        new = {
            view: self._open_again(view, view is views[-1])
            for view in views
            if filenames.index_name(view.base_offset) in changed
            or filenames.time_index_name(view.base_offset) in changed
        }
        for view in new:
            state.maps.forget(view)
        state.unsynced_segments = [new.get(view, view) for view in state.unsynced_segments]
        updated = tuple(new.get(view, view) for view in views)
        state.segments = SegmentList(updated, state.segments.start_offset)
        if updated[-1] is not views[-1]:
            state.appender.reset(updated[-1])
        if any(name.endswith((SNAPSHOT, TRANSACTION_INDEX)) for name in changed):
            state.producers.stale = True
            state.producers.refresh(state.segments, state.now_ms())

    def _open_again(self, old: SegmentView, is_active: bool) -> SegmentView:
        files, directory = self._files, self._log.path
        if is_active:
            view = load_active(files, directory, old.base_offset)
        else:
            view = segment.sealed(files, directory, old.base_offset, old.next_offset)
        view.publish(old.size, old.next_offset)
        view.opener = self._writer.access.map
        return view


def _is_unwanted(name: str, log: SegmentList, staged_names: Sequence[str]) -> bool:
    """Whether it is a stale snapshot or transaction index, or belongs to no segment of the log."""
    found = filenames.parse(name)
    if found is None or found.suffix or found.kind == LOG or name in staged_names:
        return False
    if found.kind in (SNAPSHOT, TRANSACTION_INDEX):
        return True
    return all(view.base_offset != found.base_offset for view in log.views)


def _has_content(files: Files, path: str, data: bytes) -> bool:
    return (
        files.kind(path) is not None
        and files.size_of(path) == len(data)
        and files.read(path, _LARGEST) == data
    )


def _write_and_sync(files: Files, path: str, data: bytes) -> None:
    with OpenFile(files, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        files.write(fd, data)
        files.fsync(fd)


def _sync(files: Files, path: str) -> None:
    with OpenFile(files, path, os.O_WRONLY) as fd:
        files.fsync(fd)
