"""Copies partitions into a broker's folders."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kstore.errors import HandoverError, StorageError
from kstore.handover.compare_folder import have_same_bytes, is_copied
from kstore.handover.plan import plan_handover
from kstore.handover.report import REFUSED, HandoverReport, PartitionPlan
from kstore.handover.same_directory import is_same_directory
from kstore.handover.source import end_open_transactions
from kstore.partition_files import (
    DISK,
    Files,
    LogDir,
    LogState,
    Paths,
    absolute_paths,
    filenames,
    marker_file,
    verify_partition,
    write_topic_id,
)
from kstore.store.open_store import open as open_store

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
    """Copy partitions into a stopped broker's directories; the source is not changed.

    Every partition is verified before the copy and compared byte by byte after it. A source that
    was not closed cleanly is recovered first. After an interruption the same call continues, even
    if a broker ran in between: a copy gets its final names when all of its files are on disk, and
    a marker file in each folder stays until all partitions are copied. If source and broker are
    the same directories, nothing is changed; the report is that of :func:`plan_handover`.

    Parameters
    ----------
    abort_open_transactions
        Abort open transactions in the source first. By default a partition with one is refused: no
        coordinator of the broker would end it.

    Raises
    ------
    HandoverError
        If :func:`plan_handover` refuses; the broker's directories are unchanged.
    CorruptRecordError
        The source is corrupt.
    StoreLockedError, StorageError
        Another process has a directory open; a disk fails.
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
    if is_same_directory(source, broker):
        return _raise_if_refused(make_plan(abort_open_transactions=abort_open_transactions))
    open_store(source).close()  # recovers if necessary; raises if another process writes
    report = _raise_if_refused(make_plan(abort_open_transactions=abort_open_transactions))
    if abort_open_transactions:
        with open_store(source) as store:
            for each in report.partitions:
                end_open_transactions(store[each.topic][each.partition])
        report = _raise_if_refused(make_plan())
    locked: list[LogDir] = []
    try:
        for path in (*absolute_paths(source), *absolute_paths(broker)):
            locked.append(LogDir(files, path, writable=True))
        by_path = {log_dir.path: log_dir for log_dir in locked}
        total, done = sum(plan.size for plan in report.partitions), 0
        for plan in report.partitions:
            if not plan.is_already_copied:
                verify_partition(files, plan.source).raise_if_corrupt()
        for plan in report.partitions:
            if progress is not None:
                progress(done, total, f"{plan.topic}-{plan.partition}")
            if not plan.is_already_copied:
                _copy_partition(files, plan)
            _take_over(by_path, plan)
            done += plan.size
        for plan in report.partitions:  # only after all are copied
            _finish(files, plan)
        report.executed = True
    finally:
        for log_dir in locked:
            log_dir.release()
    return report


def _raise_if_refused(report: HandoverReport) -> HandoverReport:
    for each in report.findings:
        if each.level == REFUSED:
            raise HandoverError(each.sentence, path=each.where)
    return report


def _take_over(by_path: Mapping[str, LogDir], plan: PartitionPlan) -> None:
    """Write the partition into the checkpoints of the broker's directory."""
    key = (plan.topic, plan.partition)
    source_dir = by_path[os.path.dirname(plan.source)]
    target_dir = by_path[os.path.dirname(plan.target)]
    if plan.is_already_copied and target_dir.offsets.recovery_point(key) >= plan.end_offset:
        return  # the broker's own entry, or one written before
    bases = [
        found.base_offset
        for name in source_dir.files.listdir(plan.source)
        if (found := filenames.parse(name)) is not None
        and found.kind == filenames.LOG
        and not found.suffix
    ]
    start = plan.start_offset if plan.start_offset > min(bases, default=0) else None
    state = LogState(plan.end_offset, start, plan.end_offset)
    target_dir.offsets.take_over(key, state, source_dir.offsets.cleaner_offset(key))


def _finish(files: Files, plan: PartitionPlan) -> None:
    """Remove the marker and the temporary files of an interrupted copy."""
    left = [name for name in files.listdir(plan.target) if _is_left_over(name)]
    for name in left:
        files.remove(os.path.join(plan.target, name))
    if left:
        files.sync_directory(plan.target)


def _is_left_over(name: str) -> bool:
    made = name.removesuffix(filenames.CLEANED_SUFFIX)
    return name == filenames.HANDOVER or (made != name and is_copied(made))


def _copy_partition(files: Files, plan: PartitionPlan) -> None:
    """Replace the empty segment in the broker's folder by a partition's files.

    A log file is renamed after its indexes, and an older segment before a newer one: a broker
    that starts in between finds the log up to some segment, with all indexes.
    """
    target = plan.target
    if files.kind(target) is None:
        files.make_directory(target)
        files.sync_directory(os.path.dirname(target))
    if plan.topic_id is not None:
        write_topic_id(files, target, plan.topic_id)
    files.write_atomically(os.path.join(target, filenames.HANDOVER), marker_file.CONTENT)
    names = [name for name in files.listdir(plan.source) if is_copied(name)]
    for name in names:
        # All programs ignore a leftover file of this name.
        made = os.path.join(target, name + filenames.CLEANED_SUFFIX)
        source = os.path.join(plan.source, name)
        size = files.size_of(source)
        files.copy(source, made, size)
        if files.size_of(made) != size or not have_same_bytes(files, source, made, size):
            raise StorageError("the copy differs from its source", path=made)
    staged_names = {name + filenames.CLEANED_SUFFIX for name in names}
    for name in files.listdir(target):
        if name not in staged_names and is_copied(name.removesuffix(filenames.CLEANED_SUFFIX)):
            files.remove(os.path.join(target, name))
    for name in sorted(names, key=_copy_order):
        made = os.path.join(target, name)
        files.rename(made + filenames.CLEANED_SUFFIX, made)
        files.set_modified_ns(made, files.modified_ns(os.path.join(plan.source, name)))
    files.sync_directory(target)


def _copy_order(name: str) -> tuple[int, bool]:
    """The order of renames: leader epochs and snapshots, then each segment, its log file last."""
    found = filenames.parse(name)
    if found is None or found.kind == filenames.SNAPSHOT:
        return -1, False
    return found.base_offset, found.kind == filenames.LOG
