"""Loads a partition directory for a writer: segments, epochs, recovery point.

The order is Kafka's LogLoader: finish interrupted changes, open the segments,
recover what may be torn, create the first segment where none exists. For the differences
see :mod:`kstore.recovery.recover_partition`: nothing is cut below the recovery point, and cut
bytes are kept.
"""

import itertools
import logging
import os
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.checkpoint.known_gaps import truncate_gaps
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.clock import now_ms
from kstore.config import LogConfig
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.producer_state.state import ProducerState, UncleanStop
from kstore.recovery.epoch_after_loss import epoch_after_loss
from kstore.recovery.failed_sync import has_failed_sync, write_again
from kstore.recovery.lost_segments import LostRange
from kstore.recovery.recover_partition import recover_partition, unflushed_from
from kstore.recovery.report import Recovered, RecoveredSegment, RecoveryReport
from kstore.segment import segment as segments_on_disk
from kstore.segment.scan import OnProgress

if TYPE_CHECKING:
    from kstore.recovery.removed_ends import RemovedEnds

_LOGGER = logging.getLogger("kstore")


@lazy_dataclass()
class LoadedLog:
    """A loaded partition, ready for a writer."""

    segments: SegmentList
    epochs: LeaderEpochs
    recovery_point: int
    recovery: RecoveryReport
    producers: ProducerState
    data_end: int  # the offset after the last batch; the log start may lie beyond
    lost: tuple[LostRange, ...]  # records that were lost before it was opened
    removed_ends: "RemovedEnds | None"  # of transactions; a kill followed the truncation
    epochs_changed: bool  # their file is to be written before the first append


def load(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: Callable[[], int] = lambda: 0,
    high_watermark: Callable[[], int] = lambda: 0,
    log_start_offset: int = 0,
    mode: str = "careful",
    on_progress: OnProgress | None = None,
    clock: Callable[[], int] | None = None,
    cleaned_below: Callable[[], int] = lambda: 0,
) -> LoadedLog:
    """Load a partition for writing; the caller holds the log directory's lock.

    Parameters
    ----------
    clean
        Whether the directory was stopped cleanly. If not, segments from the one that
        holds the recovery point on are scanned and their indexes rebuilt.
    recovery_point, high_watermark, log_start_offset
        From the directory's checkpoints; 0 without an entry. After a clean stop the recovery
        point only shows whether the log has lost its end since.
    mode, on_progress, cleaned_below
        See :func:`kstore.recovery.recover_partition.recover_partition`.
    clock
        The log's clock, in ms since 1970, by which producers expire. None: the system's.

    Raises
    ------
    RecoveryNeededError
        Corruption below the recovery point, or before intact segments. Nothing was changed.
    """
    durable = scanned_from = recovery_point()
    clean = (is_synced := not has_failed_sync(files, directory)) and clean
    recover = partial(
        recover_partition,
        files,
        directory,
        config=config,
        mode=mode,
        on_progress=on_progress,
        cleaned_below=cleaned_below,
        log_start=log_start_offset,
    )
    recovered = recover(None if clean else durable)
    last_epoch = recovered.epoch_before
    bases = [segment.base_offset for segment in recovered.segments]
    active, is_torn = _load_last(files, directory, recovered)
    if clean and is_torn:
        # A clean stop does not leave this: the marker is wrong, or the files were changed. No
        # evidence contradicts the marker for the other segments.
        clean = False
        scanned_from = max(durable, bases[-1])
        recovered = recover(scanned_from)
        active, _ = _load_last(files, directory, recovered)
    if not is_synced:
        write_again(files, directory, unflushed_from(bases, durable))
    segments, data_end = _open_segments(
        files, directory, recovered.segments, active, log_start_offset
    )
    names = recovered.names or frozenset(files.listdir(directory))
    if filenames.KNOWN_GAPS in names:  # a kill may have followed the cut
        truncate_gaps(files, directory, segments.end_offset)
    epochs = recovered.epochs
    # An epoch that begins at the log end was begun, and has no batch yet: Kafka drops it here.
    shorter = epochs.truncate_from_end(segments.end_offset + 1)
    shorter = epochs.truncate_from_start(segments.start_offset) or shorter
    known = min(data_end if clean else durable, data_end)
    stop = UncleanStop(unflushed_from(bases, scanned_from), known, log_start_offset)
    producers = ProducerState(files, directory, config.producer_id_expiration_ms)
    quiet = _without_producers(recovered)
    unclean = None if clean else stop
    producers.load(segments, (clock or now_ms)(), unclean=unclean, quiet=quiet, names=names)
    producers.restore_indexes(segments)
    report = _and_end(recovered.report, segments, data_end, durable, log_start_offset)
    known_end = max(durable, high_watermark())
    next_epoch = epoch_after_loss(recovered, last_epoch, known_end, segments.end_offset)
    logged = replace(report, next_epoch=next_epoch)
    report = logged.and_producers(producers.removed, producers.rewritten)
    if report is not logged:
        _LOGGER.info("%s", report)
    removed = _removed_ends(files, directory, segments, names)
    return LoadedLog(
        segments, epochs, known, report, producers, data_end, recovered.lost, removed, shorter
    )


def _removed_ends(
    files: Files, directory: str, segments: SegmentList, names: Container[str]
) -> "RemovedEnds | None":
    if filenames.REMOVED_ENDS not in names:
        return None
    from kstore.recovery.removed_ends import load_removed_ends  # few openings need it

    return load_removed_ends(files, directory, segments.end_offset)


def _and_end(
    report: RecoveryReport, segments: SegmentList, data_end: int, durable: int, log_start: int
) -> RecoveryReport:
    """The report, with what the checkpoints say against the log's end; warns of that."""
    ended = report.and_end(segments.end_offset, durable)
    ended = ended.and_hidden(segments.views[0].base_offset, data_end, log_start)
    if ended is not report:
        _LOGGER.warning("%s", ended)
    return ended


def _without_producers(recovered: Recovered) -> frozenset[int]:
    """Base offsets of the segments in which recovery found no batch of a producer id."""
    return frozenset(
        segment.base_offset for segment in recovered.segments if segment.producer_batches == 0
    )


def _load_last(
    files: Files, directory: str, recovered: Recovered
) -> tuple[SegmentView | None, bool]:
    """The last segment of a recovered directory, and whether its file ends in bytes that are not a
    complete batch; None where no segment exists."""
    if not recovered.segments:
        return None, False
    last = recovered.segments[-1]
    return _load_active(files, directory, last.base_offset, last)


def _open_segments(
    files: Files,
    directory: str,
    recovered: Sequence[RecoveredSegment],
    active: SegmentView | None,
    log_start_offset: int,
) -> tuple[SegmentList, int]:
    """The segments of a recovered directory, with a new one where none exists; the offset
    after the last batch."""
    bases = [segment.base_offset for segment in recovered]
    if active is None:
        bases = [log_start_offset]
        active = segments_on_disk.create(files, directory, log_start_offset)
        files.sync_directory(directory)
    views = [
        segments_on_disk.sealed(files, directory, base, following)
        for base, following in itertools.pairwise(bases)
    ]
    data_end = active.next_offset
    start = max(log_start_offset, bases[0])
    if start > active.next_offset:
        active.publish(active.size, start)
    return SegmentList((*views, active), start), data_end


def base_offsets(files: Files, directory: str) -> list[int]:
    """Base offsets of the live segments, ascending."""
    return sorted(
        parsed.base_offset
        for parsed in map(filenames.parse, files.listdir(directory))
        if parsed is not None and parsed.kind == filenames.LOG and not parsed.suffix
    )


def load_active(files: Files, directory: str, base_offset: int) -> SegmentView:
    """The last segment, with its entries; its end is found by walking from the last entry, its
    largest timestamp by reading headers."""
    return _load_active(files, directory, base_offset)[0]


def _load_active(
    files: Files, directory: str, base_offset: int, recovered: RecoveredSegment | None = None
) -> tuple[SegmentView, bool]:
    """As :func:`load_active`, and whether bytes follow the last complete batch.

    The largest timestamp is known where recovery scanned the segment.
    """
    path = os.path.join(directory, filenames.log_name(base_offset))
    size = files.size_of(path)
    view = SegmentView(base_offset, path)
    if size == 0:
        view.is_largest_known = True
        return view, False
    segments_on_disk.load_indexes(files, directory, view)
    position, next_offset = segments_on_disk.walk_end(files, view, size)
    view.publish(position, next_offset)
    if recovered is not None and recovered.next_offset == next_offset:
        assert recovered.max_timestamp is not None
        assert recovered.max_timestamp_offset is not None
        view.note_timestamp(recovered.max_timestamp, recovered.max_timestamp_offset)
        view.is_largest_known = True
        return view, position != size
    with OpenFile(files, path) as fd:
        segments_on_disk.learn_active_times(
            view, lambda position, count: files.pread(fd, count, position)
        )
    return view, position != size


def is_empty(files: Files, path: str) -> bool:
    """Whether no segment of a partition has a byte, valid or not."""
    return not any(
        files.size_of(os.path.join(path, filenames.log_name(base)))
        for base in base_offsets(files, path)
    )
