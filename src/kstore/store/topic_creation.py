"""Creates topics and partitions in the log directories of a store, several topics at a time.

A creation writes ``kstore.topics`` twice, however many topics it has: their entries with the state
CREATING before the first directory is made, and with the state LIVE when everything is on disk.
After a crash in between the next writer finishes each of them.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kstore.background.scheduler import call_for_all
from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.partition_metadata import write_topic_id
from kstore.checkpoint.topics_file import CREATING, DELETING, LIVE, TopicEntry
from kstore.config import LogConfig, as_log_config, setting_texts
from kstore.errors import InvalidTopicError, KStoreError, StorageError, TopicExistsError
from kstore.files.filenames import check_topic_name, collision_key, partition_directory
from kstore.kafka_uuid import random_uuid
from kstore.store.topic_arguments import check_partitions, check_topic_id
from kstore.store.unfinished_topic import find_half_made, remove_half_made

if TYPE_CHECKING:
    from kstore.store.store import Store
    from kstore.store.topic_registry import TopicRegistry

_SYNCS_AT_ONCE = 16

_LOGGER = logging.getLogger("kstore")

Entries = Mapping[str, TopicEntry]


class TopicToCreate(NamedTuple):
    """The arguments of :meth:`kstore.Store.create_topic`."""

    name: str
    partitions: int
    config: LogConfig | Mapping[str, object] | None = None
    topic_id: str | None = None
    set_names: tuple[str, ...] = ()  # settings of a LogConfig that count as set


class TopicCreator:
    """Creates the topics of one registry. Not thread-safe: the store calls it under its lock."""

    def __init__(self, registry: "TopicRegistry") -> None:
        self._registry = registry

    def create(self, wanted: Sequence[TopicToCreate]) -> dict[str, Exception]:
        """Create topics that must not exist yet; returns the errors of those that were not.

        Raises StorageError, with nothing created, where the intent cannot be written.
        """
        registry = self._registry
        errors: dict[str, Exception] = {}
        entries: dict[str, TopicEntry] = {}
        taken = {collision_key(topic): topic for topic in registry.topics}
        for each in wanted:
            try:
                entries[each.name] = self._plan(each, taken)
            except Exception as error:  # of one topic: its caller gets it
                errors[each.name] = error
            else:
                taken[collision_key(each.name)] = each.name
        if entries:
            registry.settings.put_all(entries)
            failed = self.make(entries)
            # Of a full disk, mostly: the names must not stay taken.
            self._undo({n: entries[n] for n, e in failed.items() if isinstance(e, StorageError)})
            errors.update(failed)
        return errors

    def _plan(self, wanted: TopicToCreate, taken: Mapping[str, str]) -> TopicEntry:
        """The entry of a topic to create. ``taken``: other topics by what must not collide."""
        registry, topic, topic_id = self._registry, wanted.name, wanted.topic_id
        check_topic_name(topic)
        partitions = check_partitions(wanted.partitions)
        settings = as_log_config(wanted.config, registry._default)
        set_names = wanted.config if isinstance(wanted.config, Mapping) else wanted.set_names
        if topic_id is not None:
            check_topic_id(topic_id)
        path = registry._dirs[0].path
        other = taken.get(collision_key(topic))
        if topic in registry.topics or topic == other:
            raise TopicExistsError(f"Topic {topic!r} already exists.", path=path)
        if other is not None:
            raise InvalidTopicError(
                f"topic {topic!r} collides with {other!r}: Kafka treats '.' and '_' as "
                "equal in the names of its metrics"
            )
        if hint := registry._hint(topic):
            raise TopicExistsError(
                f"topic {topic!r} cannot be created beside an unfinished copy of it{hint}",
                path=path,
            )
        begun = registry.settings.get(topic)
        if begun is not None and begun.state == DELETING and not registry.offline:
            raise TopicExistsError(f"topic {topic!r} is being deleted: try again", path=path)
        if begun is not None:
            for log_dir in registry.offline:  # its partitions may be in that directory
                raise log_dir.refusal()
        if registry.lost.is_lost(topic):
            lost = registry.lost.sentence(topic)
            raise TopicExistsError(f"topic {topic!r} cannot be created: {lost}", path=path)
        partitions_begun = 0
        if begun is not None and begun.state == CREATING:
            # An earlier attempt failed and is not undone: its directories have its id.
            if topic_id in (None, begun.topic_id):
                topic_id, partitions_begun = begun.topic_id, begun.partitions
            else:
                remove_half_made(registry.live, topic, begun)
        entry = TopicEntry(
            partitions=max(partitions, partitions_begun),
            topic_id=topic_id or random_uuid(),
            properties=settings.to_properties() | setting_texts(settings, set_names),
            state=CREATING,
        )
        find_half_made(registry.live, topic, entry)  # raises for what others put there
        return entry

    def _undo(self, entries: Entries) -> None:
        """Remove what failed creations have made; the next opening finishes what remains."""
        registry = self._registry
        if registry.offline:  # what it has of a topic would be a topic that lacks partitions
            return
        undone: list[str] = []
        try:
            for topic, entry in entries.items():
                try:
                    remove_half_made(registry.live, topic, entry)
                except TopicExistsError as error:
                    _LOGGER.warning("topic %s: its failed creation is not undone: %s", topic, error)
                else:
                    undone.append(topic)
            if undone:
                registry.settings.remove_all(undone)
        except StorageError as error:
            names = ", ".join(entries)
            _LOGGER.warning("topic %s: its failed creation is not undone: %s", names, error)

    def grow(self, topic: str, entry: TopicEntry) -> None:
        """Make the partitions that a topic's entry has more; a failed attempt is undone.

        What is removed was never in use: no log of a partition is, before all of them exist.
        """
        registry = self._registry
        former, present = registry.settings.get(topic), registry.topics[topic]
        if former is not None and former.state == CREATING:  # an earlier attempt is not undone
            remove_half_made(registry.live, topic, former, but=present)
        try:
            registry.settings.put(topic, entry)
            self.make_one(topic, entry)
        except StorageError:
            if not registry.offline:
                self._undo_growth(topic, entry, present)
            raise

    def _undo_growth(self, topic: str, entry: TopicEntry, present: Collection[int]) -> None:
        registry = self._registry
        try:
            registry.settings.load(registry.topics)
            if registry.settings.get(topic) == entry:  # else the last step failed once it was done
                remove_half_made(registry.live, topic, entry, but=present)
                before = replace(entry, partitions=max(present) + 1, state=LIVE, unique="")
                registry.settings.put(topic, before)
        except KStoreError as error:
            _LOGGER.warning("topic %s: its failed extension is not undone: %s", topic, error)

    # --- directories and ids --------------------------------------------------------------

    def make_one(self, topic: str, entry: TopicEntry) -> None:
        """Make what a topic lacks, whose entry is written; raises what went wrong."""
        for error in self.make({topic: entry}).values():
            raise error

    def make(self, entries: Entries) -> dict[str, KStoreError]:
        """Make what topics lack, whose entries are written, and mark them as live.

        Returns the errors of those where that failed.
        """
        registry = self._registry
        errors: dict[str, KStoreError] = {}
        made: dict[str, dict[int, LogDir]] = {}
        for topic, entry in entries.items():
            try:
                made[topic] = self._make_directories(topic, entry)
            except KStoreError as error:
                errors[topic] = error
        self._identify(entries, made, errors)
        made = {topic: log_dirs for topic, log_dirs in made.items() if topic not in errors}
        if not made:
            return errors
        try:
            for log_dir in registry.live:
                log_dir.files.sync_directory(log_dir.path)
            live = {topic: replace(entries[topic], state=LIVE, unique="") for topic in made}
            registry.settings.put_all(live)
        except KStoreError as error:
            return errors | dict.fromkeys(made, error)
        registry.topics.update(made)
        registry.changed(made.keys())
        return errors

    def _make_directories(self, topic: str, entry: TopicEntry) -> dict[int, LogDir]:
        log_dirs = dict(self._registry.topics.get(topic, {}))
        for partition in range(entry.partitions):
            if partition not in log_dirs:
                log_dirs[partition] = self._make_partition(partition_directory(topic, partition))
        return log_dirs

    def _make_partition(self, name: str) -> LogDir:
        """Create a partition's directory, unless an interrupted attempt has created it.

        Tries the log directories, the one with the fewest partitions first, until one is not
        offline (Kafka's LogManager).
        """
        registry = self._registry
        for log_dir in registry.live:
            if log_dir.files.exists(log_dir.join(name)):
                return log_dir
        for log_dir in sorted(registry.live, key=lambda log_dir: log_dir.partition_count):
            try:
                log_dir.files.make_directory(log_dir.join(name))
            except StorageError:
                if log_dir.offline is None:
                    raise
                continue
            log_dir.partition_count += 1
            return log_dir
        raise registry._dirs[0].refusal()

    def _identify(
        self,
        entries: Entries,
        made: Mapping[str, Mapping[int, LogDir]],
        errors: dict[str, KStoreError],
    ) -> None:
        """Write the topic id into each partition: two syncs each, faster in parallel."""

        def write(key: tuple[str, int]) -> None:
            topic, partition = key
            if topic in errors:
                return
            log_dir = made[topic][partition]
            path = log_dir.join(partition_directory(topic, partition))
            try:
                write_topic_id(log_dir.files, path, entries[topic].topic_id or "")
            except KStoreError as error:
                errors.setdefault(topic, error)

        keys = [
            (topic, partition)
            for topic in made
            if entries[topic].topic_id is not None
            for partition in range(entries[topic].partitions)
        ]
        _run_all(write, keys)


def create_topics(store: "Store", wanted: Sequence[TopicToCreate]) -> dict[str, Exception]:
    """Create several topics at once; returns the errors of those that do not exist then.

    Thread-safe: takes the store's lock.
    """
    store._check_writable()
    errors: dict[str, Exception] = {}
    for each in wanted:
        try:
            with store._lock:
                store._catalog.partition_changes.end_emptied(each.name)
            if store._catalog.is_being_deleted(each.name):  # now, or a failure left it so
                store._finish_delete(each.name)
        except Exception as error:
            errors[each.name] = error
    wanted = [each for each in wanted if each.name not in errors]
    with store._lock:
        errors |= store._catalog.create_all(wanted)
        for each in wanted:
            if each.name not in errors:
                store._topics.update(each.name)
    return errors


def _run_all(write: Callable[[tuple[str, int]], None], keys: Iterable[tuple[str, int]]) -> None:
    keys = list(keys)
    if len(keys) < _SYNCS_AT_ONCE:
        for key in keys:
            write(key)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCS_AT_ONCE, "kstore-create") as pool:
        call_for_all(pool, _SYNCS_AT_ONCE, write, keys)
