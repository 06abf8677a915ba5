"""The topics of a store: which partitions are where, their settings, how they come and go."""

import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from kstore.config import LogConfig, check_log_config
from kstore.errors import (
    CorruptFileError,
    InvalidConfigError,
    InvalidTopicError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.log.filenames import (
    DELETE,
    check_topic_name,
    collision_key,
    partition_directory,
    retired_directory,
)
from kstore.log.files import Files
from kstore.log.identity import is_reserved_uuid, random_uuid, read_topic_id, write_topic_id
from kstore.log.log_dir import LogDir
from kstore.log.topics_file import CREATING, DELETING, LIVE, TopicEntry, TopicsFile

MAX_PARTITIONS = 1_000_000
_SYNCS_AT_ONCE = 16

_LOGGER = logging.getLogger("kstore")


class Catalog:
    """Topics and partitions of one or several log directories; it opens no log.

    Not thread-safe: the store calls it under its own lock.
    """

    def __init__(self, files: Files, dirs: list[LogDir], default: LogConfig) -> None:
        self._files = files
        self._dirs = dirs
        self._default = default
        self._settings = TopicsFile(files, sorted(each.path for each in dirs))
        self.places: dict[str, dict[int, LogDir]] = {}
        self.strangers: tuple[str, ...] = ()
        self.loose_files: tuple[str, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the directories' names and ``kstore.topics`` again.

        Raises CorruptFileError where two directories have the same partition.
        """
        places: dict[str, dict[int, LogDir]] = {}
        strangers: list[str] = []
        loose: list[str] = []
        for directory in self._dirs:
            contents = directory.scan()
            strangers += (directory.join(name) for name in contents.strangers)
            loose += (directory.join(name) for name in contents.files)
            for name in contents.partitions:
                where = places.setdefault(name.topic, {})
                if name.partition in where:
                    raise CorruptFileError(
                        f"partition {name.topic}-{name.partition} is in two log directories, here "
                        f"and in {where[name.partition].path}; one of them must go (Kafka does "
                        "not start either)",
                        path=directory.join(partition_directory(name.topic, name.partition)),
                    )
                where[name.partition] = directory
            if directory.recovery_due and not self.places and contents.partitions:
                _LOGGER.warning(
                    "%s was not closed cleanly: recovery is due when it is next opened for "
                    "writing, until then torn tails are left out",
                    directory.path,
                )
        for path in set(strangers) - set(self.strangers):
            _LOGGER.warning("%s is no partition: left alone, but Kafka will not start on it", path)
        self.strangers, self.loose_files = tuple(sorted(strangers)), tuple(loose)
        self._settings.load()
        self.places = places

    def place(self, topic: str, partition: int) -> LogDir:
        """The directory of a partition; UnknownTopicOrPartitionError suggests close names."""
        places = self.places.get(topic)
        if places is None:
            raise self.unknown(topic)
        place = places.get(partition)
        if place is None:
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} has no partition {partition!r} here", path=self._dirs[0].path
            )
        return place

    def partitions(self) -> Iterator[tuple[str, int, LogDir]]:
        for topic, places in self.places.items():
            for partition, place in places.items():
                yield topic, partition, place

    def unknown(self, topic: str) -> UnknownTopicOrPartitionError:
        close = get_close_matches(str(topic), self.places, n=3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        return UnknownTopicOrPartitionError(
            f"there is no topic {topic!r}{hint}", path=self._dirs[0].path
        )

    # --- settings -------------------------------------------------------------------------

    def config(self, topic: str) -> LogConfig:
        """A topic's settings; without an entry nothing is ever shortened, cleaned or deleted."""
        entry = self._settings.get(topic)
        if entry is not None:
            return entry.log_config()
        return replace(self._default, retention_ms=-1, retention_bytes=-1, cleanup_policy="delete")

    def configure(self, topic: str, config: LogConfig) -> None:
        check_log_config(config)
        entry = self._settings.get(topic) or TopicEntry(
            partitions=max(self.places[topic]) + 1, topic_id=self.topic_id(topic)
        )
        self._settings.put(topic, replace(entry, properties=config.to_properties()))

    def is_own(self, topic: str) -> bool:
        """Whether the topic has an entry: kstore made it, or was told to look after it."""
        return topic in self._settings

    def configured(self) -> list[str]:
        """Topics that have an entry of their own and are here."""
        return [name for name in self._settings.names() if name in self.places]

    def topic_id(self, topic: str) -> str | None:
        partition, place = next(iter(self.places[topic].items()))
        return read_topic_id(self._files, place.join(partition_directory(topic, partition)))

    # --- coming and going -----------------------------------------------------------------

    def create(
        self, topic: str, partitions: int, config: LogConfig | None, topic_id: str | None
    ) -> None:
        """Make a topic that must not exist yet; a crash on the way is made good by ``resume``."""
        check_topic_name(topic)
        check_partitions(partitions)
        settings = self._default if config is None else check_log_config(config)
        if topic_id is not None:
            _check_topic_id(topic_id)
        if topic in self.places:
            raise TopicExistsError(f"Topic {topic!r} already exists.", path=self._dirs[0].path)
        self._check_collision(topic)
        begun = self._settings.get(topic)
        if begun is not None and begun.state == CREATING:
            # An earlier attempt failed on the way: its directories carry its id.
            topic_id = topic_id or begun.topic_id
            partitions_begun = begun.partitions
        else:
            partitions_begun = 0
        entry = TopicEntry(
            partitions=max(partitions, partitions_begun),
            topic_id=topic_id or random_uuid(),
            properties=settings.to_properties(),
            state=CREATING,
        )
        self._settings.put(topic, entry)
        self._make(topic, entry)

    def _check_collision(self, topic: str) -> None:
        key = collision_key(topic)
        clashes = [other for other in self.places if collision_key(other) == key]
        if clashes:
            raise InvalidTopicError(
                f"topic {topic!r} collides with {clashes[0]!r}: Kafka takes '.' and '_' for the "
                "same in the names of its metrics"
            )

    def _make(self, topic: str, entry: TopicEntry) -> None:
        places = dict(self.places.get(topic, {}))
        for partition in range(entry.partitions):
            if partition not in places:
                places[partition] = self._make_partition(partition_directory(topic, partition))
        self._identify(topic, entry, places)
        for place in self._dirs:
            self._files.sync_directory(place.path)
        self._settings.mark(topic, entry, LIVE)
        self.places[topic] = places

    def _make_partition(self, name: str) -> LogDir:
        """Make a directory where the fewest are, unless a failed attempt has made it."""
        for place in self._dirs:
            if self._files.exists(place.join(name)):
                return place
        place = min(self._dirs, key=lambda each: each.partition_count)
        self._files.make_directory(place.join(name))
        place.partition_count += 1
        return place

    def _identify(self, topic: str, entry: TopicEntry, places: dict[int, LogDir]) -> None:
        """Write the topic id into each partition. Two syncs each: together they take less time."""

        def write(partition: int) -> None:
            path = places[partition].join(partition_directory(topic, partition))
            write_topic_id(self._files, path, entry.topic_id or "")

        if entry.topic_id is None:
            return
        if entry.partitions < _SYNCS_AT_ONCE:
            for partition in range(entry.partitions):
                write(partition)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_SYNCS_AT_ONCE, "kstore-create") as pool:
            for _ in pool.map(write, range(entry.partitions)):
                pass  # an error of one is raised here

    def check_deletable(self, topic: str, *, foreign: bool) -> None:
        """Raise unless the topic is here, and kstore's own or meant to be deleted all the same."""
        if topic not in self.places:
            raise self.unknown(topic)
        if not self.is_own(topic) and not foreign:
            raise PolicyViolationError(
                f"topic {topic!r} was not made by kstore; delete it with foreign=True"
            )

    def delete(self, topic: str) -> None:
        """Rename a topic's directories as Kafka does, then remove them; its logs are closed."""
        entry = self._settings.get(topic) or TopicEntry(partitions=max(self.places[topic]) + 1)
        entry = self._settings.mark(topic, entry, DELETING, uuid.uuid4().hex)
        self._retire(topic, entry)

    def _retire(self, topic: str, entry: TopicEntry) -> None:
        places = self.places.pop(topic, {})
        for partition, place in places.items():
            self._files.rename(
                place.join(partition_directory(topic, partition)),
                place.join(retired_directory(topic, partition, DELETE, entry.unique)),
            )
        ours = f".{entry.unique}-{DELETE}"
        for place in self._dirs:
            self._files.sync_directory(place.path)
            place.forget((topic, partition) for partition in range(entry.partitions))
            for name in self._files.list_directories(place.path):
                if name.endswith(ours):
                    _remove_tree(self._files, place.join(name))
                    place.partition_count -= 1
        self._settings.remove(topic)

    def resume(self) -> None:
        """Carry through what a crash cut short: creations and deletions that were begun."""
        for topic in self._settings.unfinished():
            entry = self._settings.get(topic)
            if entry is None:
                continue
            _LOGGER.info("topic %s: going on with what was begun (%s)", topic, entry.state)
            if entry.state == CREATING:
                self._make(topic, entry)
            elif entry.unique:
                self._retire(topic, entry)


def check_partitions(partitions: int) -> None:
    if not isinstance(partitions, int) or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidConfigError(
            f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions!r}"
        )


def _check_topic_id(topic_id: str) -> None:
    try:
        reserved = is_reserved_uuid(topic_id)
    except ValueError as error:
        raise InvalidConfigError(str(error)) from None
    if reserved:
        raise InvalidConfigError(f"Kafka keeps the topic id {topic_id} for itself")


def _remove_tree(files: Files, path: str) -> None:
    """Remove a directory and what is in it; a link is removed, not followed."""
    for name in files.list_own_directories(path):
        _remove_tree(files, os.path.join(path, name))
    for name in files.listdir(path):
        files.remove(os.path.join(path, name))
    files.remove_directory(path)
