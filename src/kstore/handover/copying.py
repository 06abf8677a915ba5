"""Partitions on their way into a broker's folders."""

import os
from collections.abc import Callable, Iterable, Mapping

from kstore.errors import HandoverError, StorageError
from kstore.handover.plan import plan_handover
from kstore.handover.report import HANDOVER, REFUSED, HandoverReport, PartitionPlan
from kstore.log import filenames
from kstore.log.filenames import CLEANED_SUFFIX
from kstore.log.files import DISK, Files
from kstore.log.identity import write_topic_id
from kstore.log.log_dir import LogDir, LogState, absolute_paths
from kstore.log.sign import CONTENT
from kstore.log.verify import verify_partition
from kstore.store import Paths
from kstore.store import open as open_store

_CHUNK = 1 << 20

Progress = Callable[[int, int, str], None]


def hand_over(
    source: Paths,
    broker: Paths,
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    metadata_log_dir: str | None = None,
    progress: Progress | None = None,
    files: Files = DISK,
) -> HandoverReport:
    """Copy partitions into a stopped broker's directories; the source stays as it is.

    Everything is verified before it is copied and compared byte by byte after. A source that was
    not closed cleanly is recovered first. Interrupted it is done again by the same call: until a
    partition is whole a file says so, and its directory counts as not closed cleanly.

    Raises HandoverError, before anything is changed, where :func:`plan_handover` refuses;
    CorruptRecordError for a damaged source; StoreLockedError, StorageError.
    """
    open_store(source).close()  # recovers what is due, and sees that nobody writes here
    names = None if topics is None else list(topics)
    report = plan_handover(
        source,
        broker,
        topics=names,
        topic_ids=topic_ids,
        metadata_log_dir=metadata_log_dir,
        files=files,
    )
    if not report.ok:
        first = next(each for each in report.findings if each.level == REFUSED)
        raise HandoverError(first.sentence, path=first.where)
    locked: list[LogDir] = []
    try:
        for path in (*absolute_paths(source), *absolute_paths(broker)):
            locked.append(LogDir(files, path, writable=True))
        by_path = {place.path: place for place in locked}
        total, done = sum(plan.size for plan in report.partitions), 0
        for plan in report.partitions:
            verify_partition(files, plan.source).raise_if_corrupt()
        targets = {os.path.dirname(plan.target) for plan in report.partitions}
        for path in targets:
            by_path[path].scan()
            by_path[path].begin()  # a crash from here on counts as unclean
        for plan in report.partitions:
            if progress is not None:
                progress(done, total, f"{plan.topic}-{plan.partition}")
            _copy_partition(files, plan)
            _take_over(by_path, plan)
            done += plan.size
        for path in targets:
            by_path[path].finish(clean=True)
        report.executed = True
    finally:
        for place in locked:
            place.release()
    return report


def _take_over(by_path: Mapping[str, LogDir], plan: PartitionPlan) -> None:
    """What the checkpoints of the broker's directory say of the partition from now on."""
    key = (plan.topic, plan.partition)
    ours = by_path[os.path.dirname(plan.source)]
    bases = [
        found.base_offset
        for name in ours.files.listdir(plan.source)
        if (found := filenames.parse(name)) is not None
        and found.kind == filenames.LOG
        and not found.suffix
    ]
    start = plan.start_offset if plan.start_offset > min(bases, default=0) else None
    state = LogState(plan.end_offset, start, plan.end_offset)
    theirs = by_path[os.path.dirname(plan.target)]
    theirs.take_over(key, state, ours.cleaner_offset(key))
    theirs.files.remove(os.path.join(plan.target, HANDOVER))
    theirs.files.sync_directory(plan.target)


def _copy_partition(files: Files, plan: PartitionPlan) -> None:
    """Put a partition's files into the broker's folder in place of its empty segment."""
    target = plan.target
    if files.kind(target) is None:
        files.make_directory(target)
    if plan.topic_id is not None:
        write_topic_id(files, target, plan.topic_id)
    files.write_atomically(os.path.join(target, HANDOVER), CONTENT)
    names = [name for name in files.listdir(plan.source) if _goes_over(name)]
    for name in names:
        made = os.path.join(target, name + CLEANED_SUFFIX)  # left behind it is worthless to all
        size = files.size_of(os.path.join(plan.source, name))
        files.copy(os.path.join(plan.source, name), made, size)
        _compare(files, os.path.join(plan.source, name), made)
    for name in files.listdir(target):
        if not name.endswith(CLEANED_SUFFIX) and _goes_over(name):
            files.remove(os.path.join(target, name))
    for name in names:
        made = os.path.join(target, name)
        files.rename(made + CLEANED_SUFFIX, made)
        files.set_modified_ns(made, files.modified_ns(os.path.join(plan.source, name)))
    files.sync_directory(target)
    files.sync_directory(os.path.dirname(target))


def _goes_over(name: str) -> bool:
    """Segments, their indexes, snapshots and leader epochs; neither ids nor kstore's own."""
    found = filenames.parse(name)
    return name == filenames.LEADER_EPOCHS or (found is not None and not found.suffix)


def _compare(files: Files, source: str, copy: str) -> None:
    ours = files.open(source)
    try:
        theirs = files.open(copy)
        try:
            position = 0
            while data := files.pread(ours, _CHUNK, position):
                if files.pread(theirs, _CHUNK, position) != data:
                    raise StorageError("the copy is not what was copied", path=copy)
                position += len(data)
            if files.size(theirs) != position:
                raise StorageError("the copy is longer than what was copied", path=copy)
        finally:
            files.close(theirs)
    finally:
        files.close(ours)
