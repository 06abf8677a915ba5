"""Partitions on their way into a broker's folders."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kstore.checkpoint.identity import write_topic_id
from kstore.checkpoint.log_dir import LogDir, LogState, absolute_paths
from kstore.errors import HandoverError, StorageError
from kstore.files import filenames
from kstore.files.filenames import CLEANED_SUFFIX, HANDOVER
from kstore.files.files import DISK, Files
from kstore.files.marker import CONTENT
from kstore.handover.plan import plan_handover
from kstore.handover.report import REFUSED, HandoverReport, PartitionPlan
from kstore.handover.source import end_open_transactions
from kstore.handover.there import goes_over, have_same_bytes
from kstore.store.open_store import open as open_store
from kstore.store.store import Paths
from kstore.verify.partition import verify_partition

Progress = Callable[[int, int, str], None]


def hand_over(
    source: Paths,
    broker: Paths,
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    metadata_log_dir: str | None = None,
    abort_open_transactions: bool = False,
    progress: Progress | None = None,
    files: Files = DISK,
) -> HandoverReport:
    """Copy partitions into a stopped broker's directories; the source stays as it is.

    Everything is verified before it is copied and compared byte by byte after. A source that was
    not closed cleanly is recovered first. Wherever it is interrupted, the same call goes on,
    also where a broker ran in between: a partition is put in place when all of its files are
    there and on disk, and until the last one is, a file in each folder says so.

    Parameters
    ----------
    abort_open_transactions
        Abort them, in the source, before anything is copied. Without it they are refused: no
        coordinator of the broker would end them.

    Raises
    ------
    HandoverError
        Before anything is changed in the broker's directories, where :func:`plan_handover`
        refuses.
    CorruptRecordError
        The source is damaged.
    StoreLockedError, StorageError
        Somebody else has a directory open; a disk fails.
    """
    make_plan = partial(
        plan_handover,
        source,
        broker,
        topics=None if topics is None else list(topics),
        topic_ids=topic_ids,
        metadata_log_dir=metadata_log_dir,
        files=files,
    )
    open_store(source).close()  # recovers what is due, and sees that nobody writes here
    report = _unless_refused(make_plan(abort_open_transactions=abort_open_transactions))
    if abort_open_transactions:
        with open_store(source) as store:
            for each in report.partitions:
                end_open_transactions(store[each.topic][each.partition])
        report = _unless_refused(make_plan())
    locked: list[LogDir] = []
    try:
        for path in (*absolute_paths(source), *absolute_paths(broker)):
            locked.append(LogDir(files, path, writable=True))
        by_path = {place.path: place for place in locked}
        total, done = sum(plan.size for plan in report.partitions), 0
        for plan in report.partitions:
            if not plan.is_there:
                verify_partition(files, plan.source).raise_if_corrupt()
        for plan in report.partitions:
            if progress is not None:
                progress(done, total, f"{plan.topic}-{plan.partition}")
            if not plan.is_there:
                _copy_partition(files, plan)
            _take_over(by_path, plan)
            done += plan.size
        for plan in report.partitions:  # not before all are there
            _finish(files, plan)
        report.executed = True
    finally:
        for place in locked:
            place.release()
    return report


def _unless_refused(report: HandoverReport) -> HandoverReport:
    for each in report.findings:
        if each.level == REFUSED:
            raise HandoverError(each.sentence, path=each.where)
    return report


def _take_over(by_path: Mapping[str, LogDir], plan: PartitionPlan) -> None:
    """What the checkpoints of the broker's directory say of the partition from now on."""
    key = (plan.topic, plan.partition)
    ours = by_path[os.path.dirname(plan.source)]
    theirs = by_path[os.path.dirname(plan.target)]
    if plan.is_there and theirs.recovery_point(key) >= plan.end_offset:
        return  # the broker's own, or written before
    bases = [
        found.base_offset
        for name in ours.files.listdir(plan.source)
        if (found := filenames.parse(name)) is not None
        and found.kind == filenames.LOG
        and not found.suffix
    ]
    start = plan.start_offset if plan.start_offset > min(bases, default=0) else None
    state = LogState(plan.end_offset, start, plan.end_offset)
    theirs.take_over(key, state, ours.cleaner_offset(key))


def _finish(files: Files, plan: PartitionPlan) -> None:
    """Remove the sign, and what an interrupted copy left under its first name."""
    left = [name for name in files.listdir(plan.target) if _is_left_over(name)]
    for name in left:
        files.remove(os.path.join(plan.target, name))
    if left:
        files.sync_directory(plan.target)


def _is_left_over(name: str) -> bool:
    made = name.removesuffix(CLEANED_SUFFIX)
    return name == HANDOVER or (made != name and goes_over(made))


def _copy_partition(files: Files, plan: PartitionPlan) -> None:
    """Put a partition's files into the broker's folder in place of its empty segment.

    A log file comes after its indexes, and an older segment before a newer one: a broker that
    starts in between finds the log up to some segment, and nothing that it takes for a lost index.
    """
    target = plan.target
    if files.kind(target) is None:
        files.make_directory(target)
        files.sync_directory(os.path.dirname(target))
    if plan.topic_id is not None:
        write_topic_id(files, target, plan.topic_id)
    files.write_atomically(os.path.join(target, HANDOVER), CONTENT)
    names = [name for name in files.listdir(plan.source) if goes_over(name)]
    for name in names:
        made = os.path.join(target, name + CLEANED_SUFFIX)  # left behind it is worthless to all
        ours = os.path.join(plan.source, name)
        size = files.size_of(ours)
        files.copy(ours, made, size)
        if files.size_of(made) != size or not have_same_bytes(files, ours, made, size):
            raise StorageError("the copy is not what was copied", path=made)
    coming = {name + CLEANED_SUFFIX for name in names}
    for name in files.listdir(target):
        if name not in coming and goes_over(name.removesuffix(CLEANED_SUFFIX)):
            files.remove(os.path.join(target, name))
    for name in sorted(names, key=_place_of):
        made = os.path.join(target, name)
        files.rename(made + CLEANED_SUFFIX, made)
        files.set_modified_ns(made, files.modified_ns(os.path.join(plan.source, name)))
    files.sync_directory(target)


def _place_of(name: str) -> tuple[int, bool]:
    """Leader epochs and snapshots first, then segment by segment, each log behind its indexes."""
    found = filenames.parse(name)
    if found is None or found.kind == filenames.SNAPSHOT:
        return -1, False
    return found.base_offset, found.kind == filenames.LOG
