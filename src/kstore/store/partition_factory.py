"""Opens a partition of a log directory as a :class:`kstore.Log`, for writing or for reading."""

from collections.abc import Callable
from os.path import join
from typing import TypeVar

from kstore.checkpoint.cleaner_offsets import lower_cleaner_offset
from kstore.checkpoint.log_dir import LogDir
from kstore.config import LogConfig
from kstore.errors import StorageError
from kstore.files import filenames, marker_file
from kstore.files.filenames import partition_directory
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.files.publish_barrier import read_barrier
from kstore.log.read_only_log import ReadOnlyLog
from kstore.log.reader import LogReader
from kstore.log.roll_jitter import draw_jitter
from kstore.log.writable_log import WritableLog
from kstore.log.writer import LogWriter
from kstore.recovery.loader import base_offsets, load
from kstore.segment import segment
from kstore.segment.scan import OnProgress

Result = TypeVar("Result")
_TRIES = 10  # to read a partition's checkpoints between two moves


def open_for_writing(
    maps: MapBudget,
    log_dir: LogDir,
    topic: str,
    partition: int,
    config: LogConfig,
    mode: str,
    on_progress: OnProgress | None = None,
) -> tuple[WritableLog, LogWriter]:
    """Load a log; recover it if its directory was not closed cleanly."""
    key, files = (topic, partition), log_dir.files
    path = log_dir.join(partition_directory(topic, partition))
    log_dir.begin()
    moved = join(path, filenames.MOVED)
    if marker_file.exists(files, moved):  # left over from a finished move
        files.remove(moved)
    loaded = load(
        files,
        path,
        config,
        clean=log_dir.clean,
        recovery_point=lambda: log_dir.offsets.recovery_point(key),
        high_watermark=lambda: log_dir.offsets.high_watermark(key),
        log_start_offset=log_dir.offsets.log_start(key),
        mode=mode,
        on_progress=on_progress,
        cleaned_below=lambda: log_dir.offsets.first_dirty_offset(key),
    )
    last = loaded.segments.views[-1].base_offset  # which no cleaner compacts
    if log_dir.offsets.first_dirty_offset(key) > last:  # of records that were truncated
        lower_cleaner_offset(files, path, key, last)
    jitter = draw_jitter(config)
    writer = LogWriter(path, loaded, config=config, files=files, maps=maps, jitter=jitter)
    log = WritableLog(
        topic,
        partition,
        path=path,
        config=config,
        files=files,
        writer=writer,
        recovery=loaded.recovery,
    )
    return log, writer


def open_for_reading(
    maps: MapBudget,
    resolve_log_dir: Callable[[], LogDir],
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    own: bool,
) -> tuple[ReadOnlyLog, LogReader]:
    """A log beside its writer, another process. ``own``: kstore created the topic.

    ``resolve_log_dir`` returns the partition's current directory.
    """
    key, files = (topic, partition), resolve_log_dir().files
    folder = partition_directory(topic, partition)

    def find_directory() -> str:
        log.path = resolve_log_dir().join(folder)
        return log.path

    def read_there(read: Callable[[LogDir], Result]) -> Result:
        """Read a checkpoint of the directory that has the partition; again after a move."""
        log_dir = resolve_log_dir()
        for _ in range(_TRIES):
            found = read(log_dir)
            before, log_dir = log_dir, resolve_log_dir()
            if log_dir is before:
                break
        return found

    path = resolve_log_dir().join(folder)
    reader = LogReader(
        path,
        files=files,
        maps=maps,
        own=own,
        log_start_offset=lambda: read_there(lambda each: each.offsets.current_log_start(key)),
        recovery_point=lambda: read_there(lambda each: each.offsets.current_recovery_point(key)),
        condition=lambda: read_there(lambda each: each.condition),
        was_compacted=lambda: (
            "compact" in log.config.cleanup_policy
            or resolve_log_dir().offsets.first_dirty_offset(key) > 0
        ),
        find_directory=find_directory,
    )
    log = ReadOnlyLog(topic, partition, path=path, config=config, files=files, reader=reader)
    return log, reader


def peek_end_offset(files: Files, path: str, log_start: int) -> int:
    """The end offset of a partition that is not open in this store; no file stays open.

    Walks from the last index entry to the last complete batch, as the opening of a log does.
    """
    return try_to_peek_end_offset(files, path, log_start, check=True)[0]


def peek_if_certain(log_dir: LogDir, key: tuple[str, int], *, writable: bool) -> int | None:
    """The end offset of a partition that is not open; None where only its log knows it."""
    path, start = log_dir.join(partition_directory(*key)), log_dir.offsets.log_start(key)
    check = not writable  # a writer knows its own batches to be complete
    before = log_dir.files.identity_of(path)
    try:
        end, is_complete = try_to_peek_end_offset(log_dir.files, path, start, check=check)
    except StorageError:
        if writable:
            raise
        return None  # its owner has moved the partition, or the log raises the error
    now = log_dir.files.identity_of(path)
    if not writable and (before is None or now is None or before[0] != now[0]):
        return None
    if is_complete:
        return end
    return None if writable or end < log_dir.offsets.current_recovery_point(key) else end


def try_to_peek_end_offset(
    files: Files, path: str, log_start: int, *, check: bool
) -> tuple[int, bool]:
    """As :func:`peek_end_offset`, and whether the walk reached the end of the file.

    If not, an incomplete batch, preallocated zeros or corruption follow; without a concurrent
    writer, opening the log determines the end. ``check``: as for ``walk_end``.
    """
    end, is_complete = _peek_end(files, path, check)
    fence = read_barrier(
        files, path
    )  # read after the end, because it is written before the records that it hides
    return max(log_start, end if fence is None else min(end, fence.offset)), is_complete


def _peek_end(files: Files, path: str, check: bool) -> tuple[int, bool]:
    bases = base_offsets(files, path)
    if not bases:
        return 0, True
    view = segment.bare(path, bases[-1])
    size = files.size_of(view.path)
    if size == 0:
        return bases[-1], True
    segment.load_indexes(files, path, view)
    position, end = segment.walk_end(files, view, size, check=check)
    return end, position == size
