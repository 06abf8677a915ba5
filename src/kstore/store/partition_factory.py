"""From a partition in a log directory to a :class:`kstore.Log`, for writing or for reading."""

from collections.abc import Callable
from os.path import join

from kstore.checkpoint.cleaner_offsets import lower_cleaner_offset
from kstore.checkpoint.log_dir import LogDir
from kstore.config import LogConfig
from kstore.files import filenames, marker
from kstore.files.filenames import partition_directory
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.files.publish_barrier import read_barrier
from kstore.log.active_segment import draw_jitter
from kstore.log.read_only_log import ReadOnlyLog
from kstore.log.reader import LogReader
from kstore.log.writable_log import WritableLog
from kstore.log.writer import LogWriter
from kstore.recovery.loader import base_offsets, load
from kstore.segment import segment
from kstore.segment.scan import Tell


def open_for_writing(
    maps: MapBudget,
    place: LogDir,
    topic: str,
    partition: int,
    config: LogConfig,
    mode: str,
    tell: Tell | None = None,
) -> tuple[WritableLog, LogWriter]:
    """Load a log, recovering it where its directory was not left by a clean stop."""
    key, files = (topic, partition), place.files
    path = place.join(partition_directory(topic, partition))
    place.begin()
    moved = join(path, filenames.MOVED)
    if marker.is_there(files, moved):  # of a move that has long been over
        files.remove(moved)
    loaded = load(
        files,
        path,
        config,
        clean=place.clean,
        recovery_point=lambda: place.recovery_point(key),
        log_start_offset=place.log_start(key),
        mode=mode,
        tell=tell,
        cleaned_below=lambda: place.first_dirty_offset(key),
    )
    if loaded.recovery.cut_offset is not None:
        lower_cleaner_offset(files, path, key, loaded.recovery.cut_offset)
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
    places: Callable[[], LogDir],
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    own: bool,
) -> tuple[ReadOnlyLog, LogReader]:
    """A log as its owner, in another process, writes it. ``own``: kstore made the topic.

    ``places`` says in which directory the partition is, whenever it has to be looked for.
    """
    key, files = (topic, partition), places().files
    folder = partition_directory(topic, partition)

    def moved() -> str:
        log.path = places().join(folder)
        return log.path

    path = places().join(folder)
    reader = LogReader(
        path,
        files=files,
        maps=maps,
        own=own,
        log_start_offset=lambda: places().current_log_start(key),
        recovery_point=lambda: places().current_recovery_point(key),
        condition=lambda: places().condition,
        moved=moved,
    )
    log = ReadOnlyLog(topic, partition, path=path, config=config, files=files, reader=reader)
    return log, reader


def peek_end_offset(files: Files, path: str, log_start: int) -> int:
    """The end offset of a partition that nobody has open here; no file stays open.

    Walks from the last index entry to the last whole batch, as a log does that is opened.
    """
    return try_to_peek_end_offset(files, path, log_start, check=True)[0]


def try_to_peek_end_offset(
    files: Files, path: str, log_start: int, *, check: bool
) -> tuple[int, bool]:
    """The same, and whether the walk came to the end of the file.

    If it did not, half a batch, zeros written ahead or damage follow: of a partition that nobody
    appends to, the end is what the log says when it is opened. ``check``: as for ``walk_end``.
    """
    end, is_whole = _peek_end(files, path, check)
    fence = read_barrier(files, path)  # after the end was seen: it is there before what it hides
    return max(log_start, end if fence is None else min(end, fence.offset)), is_whole


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
