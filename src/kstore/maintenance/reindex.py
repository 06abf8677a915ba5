"""Everything beside the log files of a partition made anew: indexes, producer state, seals.

What comes out is what recovery makes of a directory that has lost all of it. The work on segments
may be done side by side, in any processes: :func:`index_segment` stages the files of one,
:func:`replay_producers` those that need the partition in order, and :func:`put_in_place`, for the
holder of the store's lock, renames them over what is there. Each file on its own tells only what
the log tells, so a crash in between leaves some old and some new ones, and the log as it was.
"""

import itertools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.config import LogConfig
from kstore.errors import StorageError
from kstore.files import filenames
from kstore.files.filenames import LOG, SNAPSHOT, TRANSACTION_INDEX
from kstore.files.files import Files
from kstore.files.staging_area import StagingArea, remove_staged, staged_path
from kstore.producer_state.state import ProducerState, UncleanStop
from kstore.recovery.loader import base_offsets, load_active
from kstore.segment import header_checksums, segment
from kstore.segment.scan import OnProgress, scan_segment

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter

_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class SegmentDamage:
    """Why a segment's files stay as they are."""

    path: str
    position: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Staging:
    """Files that were staged under one token, by the names that they will have."""

    token: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexedSegment:
    """What reading a segment gave. Staged are only files that differ from those that are there."""

    base_offset: int
    size: int
    next_offset: int
    producer_batches: int  # of idempotent and transactional producers
    staging: Staging
    damage: SegmentDamage | None


@dataclass(frozen=True, slots=True)
class ReplayedProducers:
    """Snapshots and transaction indexes; ``unwanted`` are files that the log does not ask for."""

    staging: Staging
    unwanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What was done to one partition. Names are those of files in its folder."""

    segments: int
    bytes: int
    written: tuple[str, ...]
    removed: tuple[str, ...]
    damages: tuple[SegmentDamage, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged, so that every file says what the log says."""
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
    """Check a segment and stage its offset index, time index and seal (``last``: no seal).

    A segment that is damaged, or that the seal it has contradicts, gets none of them: its
    ``damage`` says where. Memory: both indexes; the log is mapped 32 MiB at a time.
    """
    staged = StagingArea(files, directory)
    path = os.path.join(directory, filenames.log_name(base_offset))
    scan = scan_segment(files, path, base_offset, config, on_progress)
    damage = None
    sealed = None
    if scan.status != 0:
        damage = SegmentDamage(path, scan.valid_size, scan.next_offset, reason(scan.status))
    elif not last:
        sealed, broken = header_checksums.renew(files, directory, base_offset)
        if broken is not None:
            damage = SegmentDamage(
                path,
                broken,
                base_offset,
                "offset, size or leader epoch of a batch is not what it was when it was sealed",
            )
    names = []
    if damage is None:
        wanted = {
            filenames.index_name(base_offset): scan.index,
            filenames.time_index_name(base_offset): scan.time_index,
            filenames.seal_name(base_offset): sealed,
        }
        for name, data in wanted.items():
            if data is not None and not _is(files, os.path.join(directory, name), data):
                _write(staged, os.path.join(staged.directory, name), data)
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
    """Two segments of which the first goes on beyond where the second begins, if there are such."""
    for one, other in itertools.pairwise(segments):
        if one.next_offset > other.base_offset:
            path = os.path.join(directory, filenames.log_name(one.base_offset))
            return SegmentDamage(
                path,
                one.size,
                one.next_offset,
                f"the segment goes on to offset {one.next_offset}, but the next one begins at "
                f"{other.base_offset}",
            )
    return None


def replay_producers(
    files: Files,
    directory: str,
    segments: Sequence[IndexedSegment],
    log_start_offset: int,
    config: LogConfig,
) -> ReplayedProducers:
    """Stage what the log tells of its producers: all of its segments, sound and in order.

    Segments without a producer's batch are not read again, and of the others the headers and
    markers alone.
    """
    staged = StagingArea(files, directory)
    views = [
        SegmentView(
            each.base_offset,
            os.path.join(directory, filenames.log_name(each.base_offset)),
            size=each.size,
            next_offset=each.next_offset,
        )
        for each in segments
    ]
    start = max(log_start_offset, views[0].base_offset)
    if start > views[-1].next_offset:
        views[-1].publish(views[-1].size, start)
    log = SegmentList(tuple(views), start)
    state = ProducerState(staged, staged.directory, config.producer_id_expiration_ms)
    quiet = frozenset(each.base_offset for each in segments if each.producer_batches == 0)
    now_ms = time.time_ns() // 1_000_000  # producers that are idle for too long are forgotten
    state.load(log, now_ms, unclean=UncleanStop(0, 0, log_start_offset), quiet=quiet)
    state.take_snapshot(log.end_offset)
    made = staged.listdir(staged.directory)
    unwanted = [name for name in files.listdir(directory) if _derived(name, log, made)]
    kept = []
    for name in made:
        data = staged.read(os.path.join(staged.directory, name), _LARGEST)
        if _is(files, os.path.join(directory, name), data):
            staged.remove(os.path.join(staged.directory, name))
        else:
            _sync(staged, os.path.join(staged.directory, name))
            kept.append(name)
    return ReplayedProducers(Staging(staged.token, tuple(kept)), tuple(unwanted))


def put_in_place(
    files: Files, directory: str, stagings: Sequence[Staging], unwanted: Sequence[str] = ()
) -> tuple[str, ...]:
    """Rename staged files over those that are there, and remove others; returns the names written.

    For the holder of the store's lock, with the log closed. All of it is on disk afterwards.
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


def reindex_partition(
    files: Files, directory: str, config: LogConfig, *, log_start_offset: int = 0
) -> ReindexReport:
    """All of it, one segment after the other; the log is closed and its store's lock held.

    Of a partition with damage the sound segments get new indexes, and its producer state stays.
    """
    bases = base_offsets(files, directory)
    segments = [
        index_segment(files, directory, base, config, last=base == bases[-1]) for base in bases
    ]
    return finish_partition(files, directory, segments, log_start_offset, config)


def finish_partition(
    files: Files,
    directory: str,
    segments: Sequence[IndexedSegment],
    log_start_offset: int,
    config: LogConfig,
    replayed: ReplayedProducers | None = None,
) -> ReindexReport:
    """Put in place what was staged for all segments of a partition, and its producers' state.

    Without ``replayed`` the log is replayed here, where no segment is damaged.
    """
    damages = [each.damage for each in segments if each.damage is not None]
    overlap = find_overlap(directory, segments)
    if overlap is not None:
        damages.append(overlap)
    if replayed is None and segments and not damages:
        replayed = replay_producers(files, directory, segments, log_start_offset, config)
    stagings = [each.staging for each in segments]
    unwanted: tuple[str, ...] = ()
    if replayed is not None:
        stagings.append(replayed.staging)
        unwanted = replayed.unwanted
    return ReindexReport(
        segments=len(segments),
        bytes=sum(each.size for each in segments),
        written=put_in_place(files, directory, stagings, unwanted),
        removed=unwanted,
        damages=tuple(damages),
    )


# --- of a log that is open for writing ------------------------------------------------------------


def reindex_log(log: "Log", progress: Callable[[int, int], None] | None = None) -> ReindexReport:
    """See :meth:`kstore.Log.reindex`. Nothing is compacted meanwhile.

    Sealed segments are read while appends continue; then appends wait, and what was rolled since,
    the active segment and the producers follow.
    """
    writer = log._require_writer()
    state = writer.state
    with state.cleaning:
        writer.replacer.check_cleaning()
        remove_staged(state.files, log.path)  # of a run that was killed
        work = _OpenLog(log, writer, progress)
        try:
            for view in log.segments.views[:-1]:
                work.index(view)
            with writer.relocator.standstill():
                writer.active_segment.cut_unpublished()
                return work.finish()
        finally:
            with suppress(StorageError):
                remove_staged(state.files, log.path)


class _OpenLog:
    """The segments of an open log that were read so far, and how its writer takes them over."""

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
        """Read a segment and stage its files; not one that leaves the log meanwhile."""
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
            if any(view is each for each in self._log.segments.views):
                raise

    def _count(self, size: int) -> None:
        self._writer.replacer.check_cleaning()
        self._done += size
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._log.size))

    def finish(self) -> ReindexReport:
        """Read what is left, replay the producers, put all in place. Nothing is appended now."""
        files, directory, state = self._files, self._log.path, self._writer.state
        views = state.segments.views
        for view in views:
            if view not in self._indexed:  # rolled or cut since, or the active one
                self.index(view, last=view is views[-1])
        segments = [self._indexed[view] for view in views]
        start, config = state.segments.start_offset, self._log.config
        is_sound = not any(each.damage for each in segments)
        changed = {name for each in segments for name in each.staging.names}
        replayed = None
        if is_sound and find_overlap(directory, segments) is None:
            replayed = replay_producers(files, directory, segments, start, config)
            changed |= {*replayed.staging.names, *replayed.unwanted}
        with state.names_lock:
            try:
                return finish_partition(files, directory, segments, start, config, replayed)
            finally:  # where the disk fails, some files are new already
                self._take_over_or_fail(changed)

    def _take_over_or_fail(self, changed: set[str]) -> None:
        try:
            self._take_over(changed)
        except BaseException as error:
            self._writer.state.fail(error)
            raise

    def _take_over(self, changed: set[str]) -> None:
        """Let the log use the new files: segments with other indexes become views of their own."""
        state, views = self._writer.state, self._writer.state.segments.views
        new = {
            view: self._view_again(view, view is views[-1])
            for view in views
            if filenames.index_name(view.base_offset) in changed
            or filenames.time_index_name(view.base_offset) in changed
        }
        for view in new:
            state.maps.forget(view)
        state.unsynced_segments = [new.get(view, view) for view in state.unsynced_segments]
        now = tuple(new.get(view, view) for view in views)
        state.segments = SegmentList(now, state.segments.start_offset)
        if now[-1] is not views[-1]:
            state.appender.reset(now[-1])
        if any(name.endswith((SNAPSHOT, TRANSACTION_INDEX)) for name in changed):
            state.producers.stale = True
            state.producers.refresh(state.segments, state.now_ms())

    def _view_again(self, old: SegmentView, is_active: bool) -> SegmentView:
        files, directory = self._files, self._log.path
        if is_active:
            view = load_active(files, directory, old.base_offset)
        else:
            view = segment.sealed(files, directory, old.base_offset, old.next_offset)
        view.publish(old.size, old.next_offset)
        view.opener = self._writer.access.map
        return view


def _derived(name: str, log: SegmentList, made: Sequence[str]) -> bool:
    """Whether a file tells of producers, or of a segment that is not there, without being asked."""
    found = filenames.parse(name)
    if found is None or found.suffix or found.kind == LOG or name in made:
        return False
    if found.kind in (SNAPSHOT, TRANSACTION_INDEX):
        return True
    return all(view.base_offset != found.base_offset for view in log.views)


def _is(files: Files, path: str, data: bytes) -> bool:
    return (
        files.kind(path) is not None
        and files.size_of(path) == len(data)
        and files.read(path, _LARGEST) == data
    )


def _write(files: Files, path: str, data: bytes) -> None:
    fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        files.write(fd, data)
        files.fsync(fd)
    finally:
        files.close(fd)


def _sync(files: Files, path: str) -> None:
    fd = files.open(path, os.O_WRONLY)
    try:
        files.fsync(fd)
    finally:
        files.close(fd)
