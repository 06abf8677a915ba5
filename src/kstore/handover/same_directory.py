"""Hands a directory back to the broker that serves it by turns with kstore: copies nothing."""

import os
from collections.abc import Iterable

from kstore.errors import KStoreError
from kstore.handover.broker_folders import Broker
from kstore.handover.export_commands import export_changes
from kstore.handover.folder_checks import check_folders
from kstore.partition_files import OFFSETS_TOPIC, Paths, absolute_paths, filenames, is_offsets_file
from kstore.store.open_store import open as open_store


def common_directories(source: Paths, broker: Paths) -> set[str]:
    """The directories that are in both, also if a symbolic link leads there."""
    return _resolved(source) & _resolved(broker)


def is_same_directory(source: Paths, broker: Paths) -> bool:
    """Whether both are the same directories, in any order."""
    return _resolved(source) == _resolved(broker)


def _resolved(paths: Paths) -> set[str]:
    return set(map(os.path.realpath, absolute_paths(paths)))


def plan_same_directory(there: Broker, topics: Iterable[str] | None) -> None:
    """Report what the broker would not serve, not know or delete of its own directories.

    ``topics``: those whose settings and retention are reported, by default all but Kafka's
    internal ones.
    """
    report, paths = there.report, [log_dir.path for log_dir in there.dirs]
    report.is_same_directory = True
    check_folders(there)
    _warn_of_offsets(there)
    try:
        with open_store(paths, "r") as store:
            names = []
            for name in store if topics is None else topics:
                if name not in store:
                    report.refuse(name, "the directory has no such topic")
                elif topics is not None or name not in filenames.INTERNAL_TOPICS:
                    names.append(name)
            export_changes(store, names, there.metadata, report, node_id=there.node_id)
    except KStoreError as error:  # a damaged directory, of which the checks say more
        report.refuse(", ".join(paths), f"what the broker would not know is unknown: {error}")


def _warn_of_offsets(there: Broker) -> None:
    """Warn of files of readers, of which the next writer moves the offsets to the broker's topic.

    Without that topic, `check_folders` has a warning of its own.
    """
    if (OFFSETS_TOPIC, 0) not in there.partition_dirs:
        return
    for log_dir in there.dirs:
        found = [name for name in there.contents[log_dir.path].files if is_offsets_file(name)]
        if found:
            there.report.warn(
                log_dir.join(min(found)),
                "has committed offsets of a reader, and the broker does not read it. The next "
                f"writer of kstore moves them to {OFFSETS_TOPIC}: start and stop kstore serve",
            )
