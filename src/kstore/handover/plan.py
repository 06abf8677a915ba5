"""Plans a handover and reports the reasons against it; changes nothing."""

import os
from collections.abc import Iterable, Mapping
from functools import partial

from kstore.errors import CorruptFileError
from kstore.handover.broker_folders import Broker
from kstore.handover.compare_folder import TargetContents, compare_logs, is_copied
from kstore.handover.export_commands import export_commands
from kstore.handover.folder_checks import quiet_id, strays
from kstore.handover.report import KRAFT, ZOOKEEPER, HandoverReport, PartitionPlan
from kstore.handover.same_directory import (
    common_directories,
    is_same_directory,
    plan_same_directory,
)
from kstore.handover.source import check_transactions, warn_of_offsets
from kstore.partition_files import (
    DISK,
    Files,
    LogDir,
    Paths,
    absolute_paths,
    count_of,
    filenames,
    peek_end_offset,
    uuid_from_text,
)
from kstore.store.open_store import open as open_store

_IN_COMMON = (
    "source and broker have it in common: name the same directories for both if kstore and the "
    "broker serve them by turns, and no common one for a copy"
)
_NOTHING_COPIED = (
    "source and broker are the same directory: nothing is copied, so no topic id (--topic-id) is "
    "written and no transaction (--abort-open-transactions) is aborted"
)


def plan_handover(
    source: Paths,
    broker: Paths,
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    metadata_log_dir: str | None = None,
    abort_open_transactions: bool = False,
    files: Files = DISK,
) -> HandoverReport:
    """Plan the handover of partitions to a stopped broker; changes nothing.

    Parameters
    ----------
    source
        kstore's log directory, or several.
    broker
        All of the broker's log directories (``log.dirs``).
    topics
        Which topics; by default all but Kafka's internal ones.
    topic_ids
        The broker's topic ids (22 characters), for folders that it has lost.
    metadata_log_dir
        The broker's setting, if it is not one of its log directories. The ids are checked against
        the cluster metadata in it, or in one of the log directories.
    abort_open_transactions
        As for :func:`hand_over`: without it an open transaction is refused.

    If ``source`` and ``broker`` are the same directories, which kstore and the broker serve by
    turns, the report has no partitions, only what the broker would not know or would delete.
    """
    report = HandoverReport()
    there = Broker(files, broker, report)
    there.check(metadata_log_dir)
    if not there.dirs:  # nothing else to report
        return report
    wanted = None if topics is None else list(topics)
    common = common_directories(source, broker)
    if common:
        if not is_same_directory(source, broker):
            report.refuse(", ".join(sorted(common)), _IN_COMMON)
            return report
        if topic_ids or abort_open_transactions:
            report.refuse(", ".join(sorted(common)), _NOTHING_COPIED)
        plan_same_directory(there, wanted)
        return report
    with open_store(source, "r") as store:
        names = list(store) if wanted is None else wanted
        for name in names:
            if name not in store:
                report.refuse(name, "the source has no such topic")
            elif wanted is None and name in filenames.INTERNAL_TOPICS:
                report.note(name, "skipped: a broker has its own; name the topic to hand it over")
            else:
                for log in store[name]:
                    plan = PartitionPlan(
                        name,
                        log.partition,
                        log.path,
                        _target(there, (name, log.partition)),
                        (topic_ids or {}).get(name),
                        log.start_offset,
                        log.end_offset,
                        log.size,
                    )
                    report.partitions.append(plan)
                    check_transactions(log, report, abort=abort_open_transactions)
        own = [LogDir(files, path, writable=False) for path in absolute_paths(source)]
        log_dirs = [(log_dir, store._manager.identities.is_same) for log_dir in own]
        # Readers of the broker's directories have their offsets in these.
        log_dirs += [(log_dir, partial(_is_same_topic, there)) for log_dir in there.dirs]
        warn_of_offsets(store, log_dirs, {plan.topic for plan in report.partitions}, report)
        topics = [plan.topic for plan in report.partitions]
        export_commands(store, topics, there.metadata, report, node_id=there.node_id)
    for plan in report.partitions:
        _check_partition(there, plan, topic_ids or {})
    _check_contents(there, report)
    _check_counts(there, report)
    planned = {(plan.topic, plan.partition) for plan in report.partitions}
    for key, sentence in strays(there):
        if key not in planned:
            report.warn(there.folder(key), sentence)
    for path in absolute_paths(source):
        if files.probe(os.path.join(path, filenames.LOCK)):
            report.refuse(path, ".lock is held: another process writes here; close it first")
    there.warn_of_replicas({plan.topic for plan in report.partitions})
    return report


def _target(there: Broker, key: tuple[str, int]) -> str:
    log_dir = there.partition_dirs.get(key)
    if log_dir is None:
        log_dir = min(there.dirs, key=lambda each: each.partition_count)
    return log_dir.join(filenames.partition_directory(*key))


def _check_partition(there: Broker, plan: PartitionPlan, topic_ids: Mapping[str, str]) -> None:
    report, key = there.report, (plan.topic, plan.partition)
    given = topic_ids.get(plan.topic)
    if given is not None:
        try:
            uuid_from_text(given)
        except ValueError as error:
            report.refuse(plan.topic, str(error))
            return
    if key not in there.partition_dirs:
        _check_lost(there, plan, given)
        return
    try:
        found = there.topic_id(key)
    except CorruptFileError as error:
        report.refuse(plan.target, f"{error.reason}: the broker would not recognize the folder")
        return
    if found is None and given is None and report.kind == KRAFT:
        report.refuse(
            plan.target,
            "no partition.metadata: a KRaft broker renames the folder to -stray and begins an "
            "empty one. Give the id that it knows the topic by",
        )
    if found is not None and given is not None and found != given:
        report.refuse(plan.target, f"the broker's partition.metadata has the id {found}: not it")
    reason = there.stray_reason(key, found if found is not None else given)
    if reason is not None:
        report.refuse(plan.target, reason)


def _check_contents(there: Broker, report: HandoverReport) -> None:
    """Check that the broker's folders are empty or contain an earlier handover.

    An interrupted handover leaves its marker in a folder and does not change the others. A broker
    that ran since may have appended to complete ones.
    """
    begun = {plan.target for plan in report.partitions if there.is_incomplete(plan.target)}
    for number, plan in enumerate(report.partitions):
        if (plan.topic, plan.partition) not in there.partition_dirs:
            continue
        found = compare_logs(there.files, plan.source, plan.target)
        end = peek_end_offset(there.files, plan.target, 0)
        if plan.target in begun and (
            found in (TargetContents.NOTHING, TargetContents.BEGINNING)
            # A crash may have lost file names.
            or (found is TargetContents.ALL and not _has_all_files(there, plan))
        ):
            continue
        if found is TargetContents.NOTHING and end == 0:
            continue
        is_empty_too = found is TargetContents.NOTHING and plan.size == 0 and end == plan.end_offset
        if found is TargetContents.ALL or is_empty_too or (found is TargetContents.MORE and begun):
            report.partitions[number] = plan._replace(is_already_copied=True)
            report.note(plan.target, f"has {found.value}: nothing is left to be copied")
            continue
        since = ", since a handover that was interrupted" if plan.target in begun else ""
        report.refuse(
            plan.target,
            f"the broker's partition is not empty (its log ends at {end}, and has {found.value}"
            f"{since}): its records would be lost. Delete and recreate the topic, or choose "
            "another",
        )


def _check_lost(there: Broker, plan: PartitionPlan, given: str | None) -> None:
    """Check a partition for which the broker has no folder."""
    report, key, known = there.report, (plan.topic, plan.partition), there.metadata
    if report.kind == ZOOKEEPER:
        if given is None:
            report.note(
                plan.target,
                "the broker serves it once the topic is created there; the folder is then adopted",
            )
        return
    expected = None if known is None else known.topic_ids.get(plan.topic)
    if given is not None or expected is not None:
        reason = there.stray_reason(key, given or expected)
        if reason is not None:
            report.refuse(plan.target, reason)
        elif given is None:
            report.refuse(
                plan.target,
                "the broker has lost the folder of this partition: start it, so that it creates "
                f"the folder, and stop it; or create it here by --topic-id {plan.topic}={expected}",
            )
        return
    report.refuse(
        plan.target,
        "the broker has no such partition: it would rename the folder to -stray. Create "
        f"the topic on it first (kafka-topics --create --topic {plan.topic}), stop it "
        "cleanly, and try again; or give the id that it knows the topic by",
    )


def _is_same_topic(there: Broker, topic: str, known: str | None) -> bool:
    """Whether the broker has a topic of that name with that id."""
    ids = [quiet_id(there, key) for key in there.partition_dirs if key[0] == topic]
    return bool(ids) and (known is None or known in ids)


def _has_all_files(there: Broker, plan: PartitionPlan) -> bool:
    present = set(there.files.listdir(plan.target))
    return present.issuperset(name for name in there.files.listdir(plan.source) if is_copied(name))


def _check_counts(there: Broker, report: HandoverReport) -> None:
    ours: dict[str, set[int]] = {}
    for plan in report.partitions:
        ours.setdefault(plan.topic, set()).add(plan.partition)
    for topic, numbers in ours.items():
        theirs = {partition for name, partition in there.partition_dirs if name == topic}
        ids = {found for n in theirs if (found := quiet_id(there, (topic, n))) is not None}
        if len(ids) > 1:
            report.refuse(topic, f"its folders on the broker have different ids: {sorted(ids)}")
        if theirs - numbers:
            report.warn(
                topic,
                f"the broker has {count_of(len(theirs), 'partition')} of it, the source "
                f"{len(numbers)}: keys "
                "that are appended from now on go to other partitions than before",
            )
