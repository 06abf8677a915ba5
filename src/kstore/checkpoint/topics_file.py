"""``kstore.topics``: the settings of the topics of a log directory.

Kafka keeps topic settings in its cluster metadata, not in the directories, so kstore keeps its
own in one plain file, which Kafka ignores. The file is JSON with a format version::

    {"format": 1, "generation": 7,
     "topics": {"orders": {"partitions": 4, "topic_id": "...", "config": {"retention.ms": "1000"}}}}

A topic without an id (Kafka gives ids since 2.8) has a creation stamp instead, a random text
under the key ``stamps``, whether it has an entry or not. A file with stamps has format 2, so that
an older kstore does not drop them.

A topic of which a directory has single partitions has their numbers under ``held``, and format 3:
an older kstore would take the others for lost, and create them. ``held`` shows which folders are
lost. It is written after the folder is made or retired; the next writer repairs it after a crash
in between.

Every log directory of a store has the same file, and the highest ``generation`` counts
(:mod:`kstore.checkpoint.state_file`). A topic's
stamp counts only from a directory that has the topic: a store that was opened without that
directory has dropped it elsewhere, as it does for a deleted topic.
``state`` marks a topic whose creation or deletion was begun; the next writer finishes it.
``deleted`` has the random parts of the names of folders that are left of deleted topics, whose
names are free: the next writer removes them. An older kstore drops the key, and leaves the folders.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from os.path import join

from kstore.checkpoint.state_file import Directory, StateDocument, StateFile
from kstore.config import LogConfig
from kstore.errors import CorruptFileError, KStoreError
from kstore.files.filenames import TOPICS_FILE, check_topic_name
from kstore.integers import INT32_MAX
from kstore.lazy_dataclass import lazy_dataclass

_FILE = StateFile(TOPICS_FILE, newest_format=3)
_FORMAT_WITH_STAMPS = 2
_FORMAT_WITHOUT_STAMPS = 1

_UNIQUE = re.compile("[0-9a-f]{32}")  # of kafka_uuid.random_hex

LIVE = "live"
CREATING = "creating"
DELETING = "deleting"


@lazy_dataclass(frozen=True, kw_only=True)
class TopicEntry:
    """kstore's entry of a topic. ``properties`` are Kafka's names with texts as values.

    ``partitions`` is the topic's count; of a topic with ``held``, the highest of these + 1.
    """

    partitions: int
    topic_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    state: str = LIVE
    unique: str = ""  # the random part of the names of directories that are being deleted
    is_adopted: bool = False  # another program created the topic
    held: tuple[int, ...] | None = None  # of a partial topic: its partitions in this store

    @property
    def numbers(self) -> Sequence[int]:
        """The partitions in this store, ascending."""
        return range(self.partitions) if self.held is None else self.held

    def holding(self, numbers: Iterable[int]) -> "TopicEntry":
        """The entry of a partial topic, of which this store has these partitions."""
        held = tuple(sorted(set(numbers)))
        return replace(self, held=held, partitions=held[-1] + 1 if held else 1)

    def log_config(self) -> LogConfig:
        """The settings as a LogConfig; raises InvalidConfigError for one that is not valid."""
        if not all(type(value) is str for value in self.properties.values()):
            return LogConfig.from_properties(self.properties)  # raises the error
        return _config(tuple(self.properties.items()))


@lru_cache(maxsize=256)
def _config(properties: tuple[tuple[str, str], ...]) -> LogConfig:
    """Cached: many topics have the same settings, which are requested often."""
    return LogConfig.from_properties(dict(properties))


class TopicsFile:
    """The entries by topic name, and the files that keep them.

    Entries are parsed on request, so that a store of 10,000 topics opens fast.
    Not thread-safe: the store calls it under its own lock.
    """

    def __init__(self, directories: Iterable[Directory]) -> None:
        self._directories = sorted(directories, key=lambda each: each.path)
        # Path of the file that was read, for errors.
        self._path = join(self._directories[0].path, TOPICS_FILE)
        self._generation = 0
        self._documents: dict[str, object] = {}
        # with the document that each was parsed from: a topic has many partitions
        self._parsed: dict[str, tuple[object, TopicEntry]] = {}
        self._stamps: dict[str, str] = {}
        self._deleted: frozenset[str] = frozenset()
        self.exists = False  # in one directory at least
        self.are_stamps_behind = False  # a file lacks a stamp, or has one that does not count

    def load(self, topics: Mapping[str, Mapping[int, Directory]] | None = None) -> None:
        """Read the newest of the files; without any there are no entries.

        ``topics``: the directories of each partition of the existing topics. The stamp of a topic
        is the one in the newest file of its own directories.

        Raises NewerFormatError for a file that a newer kstore wrote, CorruptFileError for one
        that does not parse; then nothing changes in memory.
        """
        generation, path = 0, self._path
        documents: dict[str, object] = {}
        stamps: dict[str, str] = {}
        deleted: frozenset[str] = frozenset()
        files: dict[str, tuple[int, Mapping[str, str]]] = {}  # by directory: generation, stamps
        for directory, found in _FILE.read_all(self._directories):
            its_documents, its_stamps = _topics_and_stamps(found)
            files[directory.path] = found.generation, its_stamps
            if found.generation > generation:
                generation, path = found.generation, found.path
                documents, stamps = its_documents, its_stamps
                deleted = _deleted(found)
        if any(each for _, each in files.values()):
            stamps = _newest_stamps(files, stamps, topics or {})
        self._generation, self._documents, self._stamps = generation, documents, stamps
        self._deleted = deleted
        self._path, self.exists = path, bool(files)
        self._parsed.clear()
        self.are_stamps_behind = any(each != stamps for _, each in files.values())

    @property
    def generation(self) -> int:
        """Grows with every change of an entry."""
        return self._generation

    def __contains__(self, topic: str) -> bool:
        return topic in self._documents

    def get(self, topic: str) -> TopicEntry | None:
        """One topic's entry; None for a topic that kstore does not manage.

        Raises CorruptFileError for an entry that is not valid.
        """
        document = self._documents.get(topic)
        if document is None:
            return None
        parsed = self._parsed.get(topic)
        if parsed is None or parsed[0] is not document:
            parsed = self._parsed[topic] = document, _entry(topic, document, self._path)
        return parsed[1]

    def topic_id(self, topic: str) -> str | None:
        """The id in a topic's entry, which is not validated further."""
        document = self._documents.get(topic)
        found = document.get("topic_id") if isinstance(document, dict) else None
        return found if isinstance(found, str) and found else None

    def is_created_here(self, topic: str) -> bool:
        """Whether a topic has an entry with an id that kstore assigned when it created it."""
        document = self._documents.get(topic)
        is_adopted = isinstance(document, dict) and document.get("adopted") is True
        return not is_adopted and self.topic_id(topic) is not None

    def names(self) -> list[str]:
        return list(self._documents)

    @property
    def stamps(self) -> Mapping[str, str]:
        """The creation stamps of topics that have no id, or had none when they were stamped."""
        return self._stamps

    def create(self) -> None:
        """Write the entries in memory to the file; without entries, if none existed."""
        self._save(self._documents)

    def set_stamps(self, stamps: Mapping[str, str]) -> None:
        """Replace the creation stamps, on disk before in memory."""
        self._save(self._documents, dict(stamps))

    def unfinished(self) -> list[str]:
        """Topics whose creation or deletion was begun."""
        return [
            name
            for name, document in self._documents.items()
            if isinstance(document, dict) and document.get("state", LIVE) != LIVE
        ]

    def partial(self) -> list[str]:
        """Topics of which this store has single partitions."""
        return [name for name, document in self._documents.items() if _is_partial(document)]

    def put(self, topic: str, entry: TopicEntry) -> None:
        """Set one topic's entry, on disk before in memory."""
        self.put_all({topic: entry})

    def put_all(self, entries: Mapping[str, TopicEntry]) -> None:
        """Set the entries of several topics with one write: all of them, or none."""
        self._save(self._documents | {name: _to_json(each) for name, each in entries.items()})

    def remove(self, topic: str) -> None:
        """Drop a topic's entry and its creation stamp."""
        self.remove_all([topic])

    def remove_all(self, topics: Iterable[str]) -> None:
        """Drop the entries and creation stamps of several topics with one write."""
        removed = frozenset(topics)
        self._save(
            {name: body for name, body in self._documents.items() if name not in removed},
            {name: stamp for name, stamp in self._stamps.items() if name not in removed},
        )

    @property
    def deleted(self) -> frozenset[str]:
        """The random parts of the names of folders of deleted topics, which are to be removed."""
        return self._deleted

    def finish_delete(self, topic: str) -> None:
        """Drop a deleted topic's entry and creation stamp; its folders are to be removed."""
        entry, before = self.get(topic), self._deleted
        if entry is not None and entry.unique:
            self._deleted |= {entry.unique}
        try:
            self.remove(topic)
        except BaseException:
            self._deleted = before
            raise

    def forget_deleted(self, uniques: Iterable[str]) -> None:
        """The folders are removed, on disk too. The next write has it: a part without folders does
        no harm."""
        self._deleted -= frozenset(uniques)

    def mark(self, topic: str, entry: TopicEntry, state: str, unique: str = "") -> TopicEntry:
        """Save the entry with another state; returns it."""
        entry = replace(entry, state=state, unique=unique)
        self.put(topic, entry)
        return entry

    def _save(self, documents: dict[str, object], stamps: dict[str, str] | None = None) -> None:
        generation = self._generation + 1
        stamps = self._stamps if stamps is None else stamps
        content: dict[str, object] = {"topics": documents}
        if stamps:
            content["stamps"] = stamps
        if self._deleted:
            content["deleted"] = sorted(self._deleted)
        version: int | None = _FORMAT_WITH_STAMPS if stamps else _FORMAT_WITHOUT_STAMPS
        if any(map(_is_partial, documents.values())):
            version = None
        _FILE.write(self._directories, generation, content, version=version)
        self._generation, self._documents, self._stamps = generation, documents, stamps
        self.exists, self.are_stamps_behind = True, False


def _newest_stamps(
    files: Mapping[str, tuple[int, Mapping[str, str]]],
    newest: Mapping[str, str],
    topics: Mapping[str, Mapping[int, Directory]],
) -> dict[str, str]:
    """The stamps of the newest file; of existing topics, those of their own directories."""
    stamps = dict(newest)
    for topic, directories in topics.items():
        own = [files[each.path] for each in directories.values() if each.path in files]
        if not own:
            continue
        stamp = max(own, key=lambda each: each[0])[1].get(topic)
        if stamp is None:
            stamps.pop(topic, None)
        else:
            stamps[topic] = stamp
    return stamps


def _is_partial(document: object) -> bool:
    return isinstance(document, dict) and "held" in document


def _to_json(entry: TopicEntry) -> dict[str, object]:
    document: dict[str, object] = {"partitions": entry.partitions}
    if entry.topic_id is not None:
        document["topic_id"] = entry.topic_id
    document["config"] = dict(entry.properties)
    if entry.state != LIVE:
        document["state"] = entry.state
    if entry.unique:
        document["unique"] = entry.unique
    if entry.is_adopted:
        document["adopted"] = True
    if entry.held is not None:
        document["held"] = list(entry.held)
    return document


def _topics_and_stamps(found: StateDocument) -> tuple[dict[str, object], dict[str, str]]:
    stamps = _FILE.value(found.body, "stamps", dict, found.path, default={})
    for topic in stamps:
        _FILE.value(stamps, topic, str, found.path)
    return _FILE.value(found.body, "topics", dict, found.path), stamps


def _deleted(found: StateDocument) -> frozenset[str]:
    uniques = _FILE.value(found.body, "deleted", list, found.path, default=[])
    if not all(isinstance(each, str) and _UNIQUE.fullmatch(each) for each in uniques):
        raise CorruptFileError(
            f"{TOPICS_FILE}: 'deleted' must be random parts of folders' names", path=found.path
        )
    return frozenset(uniques)


def _entry(topic: str, body: object, path: str) -> TopicEntry:
    entry = TopicEntry(
        partitions=_FILE.value(body, "partitions", int, path),
        topic_id=_FILE.value(body, "topic_id", str, path, default="") or None,
        properties=_FILE.value(body, "config", dict, path),
        state=_FILE.value(body, "state", str, path, default=LIVE),
        unique=_FILE.value(body, "unique", str, path, default=""),
        is_adopted=isinstance(body, dict) and body.get("adopted") is True,
        held=_held(body, path) if _is_partial(body) else None,
    )
    try:
        check_topic_name(topic)
        entry.log_config()
    except KStoreError as error:
        raise CorruptFileError(
            f"{TOPICS_FILE}: topic {topic!r}: {error.reason}", path=path
        ) from None
    is_valid = entry.held is None or entry == entry.holding(entry.held)
    if not is_valid or entry.partitions < 1 or entry.state not in (LIVE, CREATING, DELETING):
        raise CorruptFileError(f"{TOPICS_FILE}: topic {topic!r} is not valid", path=path)
    return entry


def _held(body: object, path: str) -> tuple[int, ...]:
    numbers = _FILE.value(body, "held", list, path)
    if not all(type(number) is int and 0 <= number <= INT32_MAX for number in numbers):
        raise CorruptFileError(f"{TOPICS_FILE}: 'held' must be numbers of partitions", path=path)
    return tuple(numbers)
