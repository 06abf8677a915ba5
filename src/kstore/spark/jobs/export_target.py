"""The progress of an export, saved in its target: each record is exported once, after any crash.

The export keeps its own files in the folder ``_kstore_export``, which readers ignore:
``progress.json`` (the exported offsets of each partition, the files about to be renamed, and the
topics' settings), ``staged/`` (files of tasks, named by their attempts) and ``lock``. A task's
files are finished and synced before the progress file names them. The progress file is replaced
atomically, and only then are the staged files renamed. The next export to the target finishes an
interrupted renaming.
"""

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from kstore.errors import InvalidConfigError, StorageError, StoreLockedError
from kstore.partition_files import DISK, Files, TopicIdentity
from kstore.spark.jobs.parquet_files import Written

FOLDER = "_kstore_export"
VERSION = 1
Interval = tuple[int, int]
PartitionKey = tuple[str, int]


def add_interval(done: Sequence[Interval], start: int, stop: int) -> list[Interval]:
    """Add an interval [start, stop) to disjoint, ordered ones; adjacent intervals are merged."""
    merged: list[Interval] = []
    for low, high in sorted([*done, (start, stop)]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        elif low < high:
            merged.append((low, high))
    return merged


def subtract(start: int, stop: int, done: Iterable[Interval]) -> list[Interval]:
    """The intervals of [start, stop) that are in none of the disjoint, ordered ones."""
    remaining: list[Interval] = []
    for low, high in done:
        if start < min(low, stop):
            remaining.append((start, min(low, stop)))
        start = max(start, high)
    if start < stop:
        remaining.append((start, stop))
    return remaining


class Exported:
    """The content of a target, read from its progress file; changes nothing."""

    def __init__(
        self, path: str, files: Files = DISK, *, isolation: str = "read_uncommitted"
    ) -> None:
        self.path = path
        self._files = files
        self._isolation = isolation
        self._folder = os.path.join(path, FOLDER)
        self._progress = os.path.join(self._folder, "progress.json")
        self._done: dict[PartitionKey, list[Interval]] = {}
        self._ids: dict[str, str | None] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._pending: list[tuple[str, str]] = []  # staged, name below the target
        if files.exists(self._progress):
            self._load()

    def left(
        self, topic: str, identity: TopicIdentity, partition: int, wanted: Interval, end: int
    ) -> list[Interval]:
        """The wanted offsets that are not exported yet.

        Raises InvalidConfigError if the target has records of another log.
        """
        done = self._done.get((topic, partition), [])
        known = self._ids.get(topic)
        if done and not identity.is_same(known):
            raise InvalidConfigError(
                f"{self.path} has records of another topic {topic!r} (its id was "
                f"{known or 'unset'} and is {identity.text or 'unset'}): it was recreated; export "
                "it into another directory"
            )
        if done and done[-1][1] > end:
            raise InvalidConfigError(
                f"{self.path} has {topic}-{partition} up to offset {done[-1][1]}, but the log ends "
                f"at {end}: it was recreated or truncated; export it into another directory"
            )
        return subtract(*wanted, done)

    def _load(self) -> None:
        try:
            tree: dict[str, Any] = json.loads(self._files.read(self._progress))
            if tree["version"] != VERSION:
                raise ValueError(f"version {tree['version']}")
            isolation = str(tree["isolation"])
            self._ids = {str(topic): identity for topic, identity in tree["topics"].items()}
            self._settings = _settings_in(tree)
            self._done = {
                (topic, int(partition)): [(int(low), int(high)) for low, high in intervals]
                for topic, partitions in tree["done"].items()
                for partition, intervals in partitions.items()
            }
            self._pending = [(str(staged), str(name)) for staged, name in tree["pending"]]
            for staged, name in self._pending:
                if os.path.basename(staged) != staged or not _is_below(name):
                    raise ValueError(f"{name!r} is not a path below the target")
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise InvalidConfigError(
                f"{self._progress} is not the progress of an export that this version supports "
                f"({error}): export into another directory"
            ) from None
        if self._done and isolation != self._isolation:
            raise InvalidConfigError(
                f"{self.path} has records exported as {isolation}, and this run is "
                f"{self._isolation}: use that isolation, or export into another directory"
            )


class Target(Exported):
    """An export's target directory, locked for this export; a context manager."""

    def __init__(
        self, path: str, files: Files = DISK, *, isolation: str = "read_uncommitted"
    ) -> None:
        self._is_changed = False  # since the progress file was written
        self.staged = os.path.join(path, FOLDER, "staged")
        _make_directories(files, self.staged)
        try:
            self._lock = files.lock(os.path.join(path, FOLDER, "lock"))
        except StoreLockedError:
            raise StorageError("another export is writing to this directory", path=path) from None
        try:
            super().__init__(path, files, isolation=isolation)
            self._rename_pending()
            self._clean()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def publish(
        self, ranges: Iterable[tuple[str, str | None, int, int, int]], written: Sequence[Written]
    ) -> None:
        """Publish a task's ranges (topic, its identity, partition, start, stop) and its files.

        Raises StorageError, and changes nothing, if a file is missing or has another size.
        """
        self._check(written)
        for topic, identity, partition, start, stop in ranges:
            done = self._done.get((topic, partition), [])
            self._done[topic, partition] = add_interval(done, start, stop)
            if identity is not None:
                self._ids[topic] = identity
        self._pending = [(os.path.basename(file.staged), file.name) for file in written]
        self._files.sync_directory(self.staged)
        self._save()
        self._rename_pending()

    def note_settings(self, topic: str, settings: dict[str, str]) -> None:
        """Save a topic's settings for a restore, with the next publication or at the end."""
        if self._settings.get(topic) != settings:
            self._settings[topic] = settings
            self._is_changed = True

    def finish(self) -> None:
        """Save that no file must be renamed any more."""
        if self._pending or self._is_changed:
            self._pending = []
            self._save()

    def _check(self, written: Iterable[Written]) -> None:
        """Raise StorageError if a file is not as the task wrote it.

        An executor may have written into a directory of its own host under the same path.
        """
        for file in written:
            path = os.path.join(self.staged, os.path.basename(file.staged))
            size = self._files.size_of(path) if self._files.exists(path) else None
            if size != file.size:
                found = "is missing" if size is None else f"has {size} bytes"
                raise StorageError(
                    f"{file.name}, written as {file.size} bytes by a task on host "
                    f"{file.host or 'unknown'}, {found} on the driver: the target must be one "
                    "directory that the driver and all executors share",
                    path=path,
                )

    def _save(self) -> None:
        done: dict[str, dict[str, list[Interval]]] = {}
        for (topic, partition), intervals in sorted(self._done.items()):
            done.setdefault(topic, {})[str(partition)] = intervals
        tree = {
            "version": VERSION,
            "isolation": self._isolation,
            "topics": self._ids,
            "settings": self._settings,
            "done": done,
            "pending": self._pending,
        }
        self._files.write_atomically(self._progress, json.dumps(tree).encode())

    def _rename_pending(self) -> None:
        """Rename the files that the progress file names; a missing one was renamed before."""
        folders = set()
        for staged, name in self._pending:
            source, target = os.path.join(self.staged, staged), os.path.join(self.path, name)
            if self._files.exists(source):
                folders.add(os.path.dirname(target))
                _make_directories(self._files, os.path.dirname(target))
                self._files.rename(source, target)
        for folder in sorted(folders):
            self._files.sync_directory(folder)

    def _clean(self) -> None:
        """Remove the staged files of earlier runs, which the progress file does not name."""
        for name in self._files.listdir(self.staged):
            self._files.remove(os.path.join(self.staged, name))


def read_settings(files: Files, path: str) -> dict[str, dict[str, str]]:
    """The topics' settings in a target; empty without an export.

    Raises InvalidConfigError for an invalid progress file.
    """
    progress = os.path.join(path, FOLDER, "progress.json")
    if not files.exists(progress):
        return {}
    try:
        return _settings_in(json.loads(files.read(progress)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidConfigError(f"{progress} is not the progress of an export ({error})") from None


def _settings_in(tree: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The settings in a progress file; an older kstore saved none."""
    return {
        str(topic): {str(name): str(value) for name, value in settings.items()}
        for topic, settings in tree.get("settings", {}).items()
    }


def _is_below(name: str) -> bool:
    return not os.path.isabs(name) and os.path.normpath(name).split(os.sep)[0] != os.pardir


def _make_directories(files: Files, path: str) -> None:
    if files.kind(path) is None:
        parent = os.path.dirname(path)
        if parent != path:
            _make_directories(files, parent)
        files.make_directory(path)
        files.sync_directory(parent)
