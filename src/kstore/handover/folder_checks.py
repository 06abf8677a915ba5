"""Checks the partitions in a stopped broker's directories that kstore and the broker share."""

from collections.abc import Iterator

from kstore.errors import CorruptFileError
from kstore.handover.broker_folders import Broker
from kstore.handover.report import KRAFT, HandoverReport
from kstore.partition_files import DISK, Files, Paths, filenames, is_offsets_file

_KSTORES = (filenames.TOPICS_FILE, filenames.BROKER_FILE, filenames.ACLS, filenames.CREDENTIALS)


def check_broker(
    broker: Paths, *, metadata_log_dir: str | None = None, files: Files = DISK
) -> HandoverReport:
    """Check a stopped broker's directories before kstore writes in them; changes nothing.

    ``metadata_log_dir``: the broker's setting, if it is not one of ``broker``.
    """
    report = HandoverReport()
    there = Broker(files, broker, report)
    there.check(metadata_log_dir)
    if there.dirs:
        check_folders(there)
        _note_files_of_kstore(there)
    return report


def check_folders(there: Broker) -> None:
    """Check every partition as one that both write, and report the other contents."""
    report, files = there.report, there.files
    for key in sorted(there.partition_dirs):
        _check_for_kstore(there, key)
    for key, sentence in strays(there):
        report.refuse(there.folder(key), sentence)
    for log_dir in there.dirs:
        if files.kind(log_dir.join(filenames.CLUSTER_METADATA)) is not None:
            report.note(
                log_dir.join(filenames.CLUSTER_METADATA),
                "the cluster's metadata: kstore leaves it alone",
            )
        names = there.contents[log_dir.path].files
        loose = [name for name in names if is_offsets_file(name)]
        if loose and ("__consumer_offsets", 0) not in there.partition_dirs:
            report.warn(
                log_dir.join(loose[0]),
                "the next writer would create __consumer_offsets from it, a topic that the broker "
                "does not know and would rename to -stray: remove the file",
            )
    there.warn_of_replicas(None)


def _note_files_of_kstore(there: Broker) -> None:
    if any(name in there.contents[each.path].files for each in there.dirs for name in _KSTORES):
        paths = ",".join(log_dir.path for log_dir in there.dirs)
        there.report.note(
            paths.replace(",", ", "),
            "kstore has used the directory: what the broker does not know of its settings, ACLs "
            "and users, and which records its retention would delete, is reported by "
            f"kstore handover --log-dir {paths} --to {paths}",
        )


def _check_for_kstore(there: Broker, key: tuple[str, int]) -> None:
    """Check a partition that kstore would write and the broker would serve again."""
    report, folder = there.report, there.folder(key)
    if there.is_incomplete(folder):
        report.refuse(
            folder,
            "its handover was interrupted: repeat the same handover, which completes it",
        )
    try:
        found = there.topic_id(key)
    except CorruptFileError as error:
        report.refuse(folder, f"{error.reason}: {_UNREADABLE_ID}")
        return
    if found is None and report.kind == KRAFT:
        report.refuse(folder, "no partition.metadata: a KRaft broker renames the folder to -stray")
    assigned = there.assigned_log_dir(key)
    if assigned is not None and there.partition_dirs[key] is not assigned:
        report.note(
            folder,
            f"the cluster has it in {assigned.path}, but the broker serves it here",
        )


_UNREADABLE_ID = "the broker takes the directory offline, or does not recognize the folder"


def strays(there: Broker) -> Iterator[tuple[tuple[str, int], str]]:
    """The broker's folders that it would not serve, with reasons."""
    for key in sorted(there.partition_dirs):
        reason = there.stray_reason(key, quiet_id(there, key))
        if reason is not None:
            yield key, reason


def quiet_id(there: Broker, key: tuple[str, int]) -> str | None:
    """A partition's topic id; None if it has none, or none that parses."""
    try:
        return there.topic_id(key)
    except CorruptFileError:
        return None  # was refused
