"""Audits several partitions of a store into one report, while topics may be deleted."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstore.checkpoint.topics_file import LIVE
from kstore.coordinator.group.verify_keys import warn_of_undecodable_keys
from kstore.errors import KStoreError
from kstore.files.filenames import partition_directory
from kstore.files.files import Files
from kstore.store.list_partitions import FoundLog, find_logs
from kstore.verify.log_dir_state import StateReader
from kstore.verify.missing_folders import MissingFolder, find_missing_folders
from kstore.verify.partition import MAX_FINDINGS, VerifyReport

if TYPE_CHECKING:
    from kstore.store.store import Store

Progress = Callable[[int, int], None]


def verify_topics(
    store: "Store",
    files: Files,
    topic: str | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> VerifyReport:
    """The audit of all topics or of one, and of their partitions without a folder.

    Skips a partition that is deleted before its audit ends. ``progress`` is called with the bytes
    done and the bytes of all partitions.
    """
    options.setdefault("map_sealed", store.writable)  # another owner may truncate its files
    options.setdefault("states", StateReader(files))
    logs, _ = find_logs(store, list(store) if topic is None else [topic])
    total, done = sum(found.size for found in logs), 0
    merged = VerifyReport()
    for found in logs:
        report = audit_if_present(found, _shifted(progress, done, total), **options)
        done += found.size
        if report is not None:
            merged.merge(report, MAX_FINDINGS)
    for missing in _missing_folders(store, files):
        if topic in (None, missing.topic):
            merged.merge(missing.report, MAX_FINDINGS)
    return merged


def audit_if_present(
    found: FoundLog, progress: Progress | None, **options: Any
) -> VerifyReport | None:
    """The audit of a partition, by the options of ``Log.verify``; None if it was deleted since it
    was listed.
    """
    try:
        report = found.log.verify(progress=progress, **options)
        warn_of_undecodable_keys(report, found.log)
    except KStoreError:
        if found.exists():
            raise
        return None
    return report if found.exists() else None


def _shifted(progress: Progress | None, done: int, total: int) -> Progress | None:
    """The callback of one audit, which reports the bytes of all of them."""
    if progress is None:
        return None
    return lambda read, size: progress(done + read, total)


def _missing_folders(store: "Store", files: Files) -> list[MissingFolder]:
    """Partitions that have no folder: by the registry in the writing process, else by the files."""
    if not store.writable:
        return find_missing_folders(files, store.paths)
    catalog = store._catalog
    missing = []
    for name in [] if catalog.offline else catalog.settings.names():
        entry = catalog.settings.get(name)
        if entry is None or entry.state != LIVE:
            continue
        for partition in entry.numbers:
            if partition not in catalog.topics.get(name, ()):
                path = os.path.join(store.paths[0], partition_directory(name, partition))
                missing.append(MissingFolder(name, partition, path, None, is_certain=False))
    return missing
