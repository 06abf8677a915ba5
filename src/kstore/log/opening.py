"""From a partition in a log directory to a :class:`kstore.Log`, for writing or for reading."""

from collections.abc import Callable
from os.path import join

from kstore.config import LogConfig
from kstore.log import filenames, segment, sign
from kstore.log.fence import read_fence
from kstore.log.filenames import partition_directory
from kstore.log.files import Files
from kstore.log.loader import base_offsets, load
from kstore.log.log import Log
from kstore.log.log_dir import LogDir
from kstore.log.maps import MapBudget
from kstore.log.segment_scan import Tell
from kstore.log.shared import SharedReader
from kstore.log.writer import LogWriter
from kstore.log.writer_base import draw_jitter


def open_for_writing(
    maps: MapBudget,
    place: LogDir,
    topic: str,
    partition: int,
    config: LogConfig,
    mode: str,
    tell: Tell | None = None,
) -> tuple[Log, LogWriter]:
    """Load a log, recovering it where its directory was not left by a clean stop."""
    key, files = (topic, partition), place.files
    path = place.join(partition_directory(topic, partition))
    place.begin()
    moved = join(path, filenames.MOVED)
    if sign.is_there(files, moved):  # of a move that has long been over
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
    )
    jitter = draw_jitter(config)
    writer = LogWriter(path, loaded, config=config, files=files, maps=maps, jitter=jitter)
    log = Log(
        topic,
        partition,
        path=path,
        config=config,
        files=files,
        writer=writer,
        reader=None,
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
) -> tuple[Log, SharedReader]:
    """A log as its owner, in another process, writes it. ``own``: kstore made the topic.

    ``places`` says in which directory the partition is, whenever it has to be looked for.
    """
    key, files = (topic, partition), places().files
    folder = partition_directory(topic, partition)

    def moved() -> str:
        log.path = places().join(folder)
        return log.path

    path = places().join(folder)
    reader = SharedReader(
        path,
        files=files,
        maps=maps,
        own=own,
        log_start_offset=lambda: places().current_log_start(key),
        recovery_point=lambda: places().current_recovery_point(key),
        condition=lambda: places().condition,
        moved=moved,
    )
    log = Log(topic, partition, path=path, config=config, files=files, writer=None, reader=reader)
    return log, reader


def peek_end_offset(files: Files, path: str, log_start: int) -> int:
    """The end offset of a partition that nobody has open here; no file stays open.

    Walks from the last index entry to the last whole batch, as a log does that is opened.
    """
    end = _peek_end(files, path)
    fence = read_fence(files, path)  # after the end was seen: it is there before what it hides
    return max(log_start, end if fence is None else min(end, fence.offset))


def _peek_end(files: Files, path: str) -> int:
    bases = base_offsets(files, path)
    if not bases:
        return 0
    view = segment.bare(path, bases[-1])
    size = files.size_of(view.path)
    if size == 0:
        return bases[-1]
    segment.load_indexes(files, path, view)
    return segment.walk_end(files, view, size, check=True)[1]
