"""The topics of a store: which partitions are where, their settings, how they come and go."""

import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from kstore.checkpoint.identity import is_reserved_uuid, random_uuid, read_topic_id, write_topic_id
from kstore.checkpoint.log_dir import Contents, LogDir
from kstore.checkpoint.topic_settings import CREATING, DELETING, LIVE, TopicEntry, TopicsFile
from kstore.config import LogConfig, check_log_config
from kstore.errors import (
    CorruptFileError,
    InvalidConfigError,
    InvalidTopicError,
    PolicyViolationError,
    StorageError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.files import marker
from kstore.files.failure_detector import keeps_from_opening
from kstore.files.filenames import (
    DELETE,
    FUTURE,
    MOVED,
    PartitionName,
    check_topic_name,
    collision_key,
    partition_directory,
    retired_directory,
)
from kstore.files.files import Files
from kstore.files.modification_time import is_settled
from kstore.integers import check_integer, show_value
from kstore.store.partition_factory import peek_end_offset

MAX_PARTITIONS = 1_000_000
_SYNCS_AT_ONCE = 16

_LOGGER = logging.getLogger("kstore")


class Retired(NamedTuple):
    """A folder with one of Kafka's suffixes: ``-delete``, ``-future`` or ``-stray``."""

    place: LogDir
    folder: str
    name: PartitionName


class TopicRegistry:
    """Topics and partitions of one or several log directories; it opens no log.

    Not thread-safe: the store calls it under its own lock.
    """

    def __init__(self, dirs: list[LogDir], default: LogConfig) -> None:
        self._dirs = dirs
        self._default = default
        self.settings = TopicsFile(dirs)
        self.places: dict[str, dict[int, LogDir]] = {}
        self.retired: list[Retired] = []  # folders with Kafka's suffixes
        self._superseded: list[tuple[LogDir, PartitionName]] = []  # a finished move's old copies
        self.strangers: tuple[str, ...] = ()
        self.loose_files: tuple[str, ...] = ()
        self.version = 0  # a later one where topics or partitions may have come or gone
        self._stamps: list[int] | None = None  # of the directories when they were listed
        self.refresh()

    def refresh(self) -> None:
        """Read the directories' names and ``kstore.topics`` again.

        Raises CorruptFileError where two directories have the same partition.
        """
        if not self._dirs[0].writable:
            stamps = [each.modified_ns for each in self._dirs]
            self._stamps = stamps if all(map(is_settled, stamps)) else None
        places: dict[str, dict[int, LogDir]] = {}
        strangers: list[str] = []
        loose: list[str] = []
        self.retired, self._superseded = [], []
        for directory in self._dirs:
            contents = self._scan(directory)
            if contents is None:
                continue
            strangers += (directory.join(name) for name in contents.strangers)
            loose += (directory.join(name) for name in contents.files)
            self.retired += (Retired(directory, *item) for item in contents.retired.items())
            for name in contents.partitions:
                where = places.setdefault(name.topic, {})
                first = where.get(name.partition)
                where[name.partition] = (
                    directory if first is None else self._choose(name, first, directory)
                )
            if directory.recovery_due and not self.places and contents.partitions:
                _LOGGER.warning(
                    "%s was not closed cleanly: recovery is due when it is next opened for "
                    "writing, until then torn tails are left out",
                    directory.path,
                )
        if all(each.offline is not None for each in self._dirs):
            raise self._dirs[0].refusal()
        for path in set(strangers) - set(self.strangers):
            _LOGGER.warning("%s is no partition: left alone, but Kafka will not start on it", path)
        self.strangers, self.loose_files = tuple(sorted(strangers)), tuple(loose)
        self.settings.load()
        self.places = places
        self.version += 1

    def follow(self) -> bool:
        """List the directories again if one has changed since; returns whether it did so."""
        if self._stamps is not None and self._stamps == [each.modified_ns for each in self._dirs]:
            return False
        self.refresh()
        return True

    def _scan(self, directory: LogDir) -> Contents | None:
        """What is in a directory; None where it is offline, or cannot be read while others can.

        A writer asks only once: what failed stays out until the store is reopened.
        """
        if directory.offline is not None and directory.writable:
            return None
        try:
            contents = directory.scan()
        except StorageError as error:
            if len(self._dirs) == 1 or not keeps_from_opening(error):
                raise
            directory.fail(error)
            return None
        directory.offline = None
        return contents

    def _choose(self, name: PartitionName, first: LogDir, second: LogDir) -> LogDir:
        """Which of two copies of a partition counts, where a move of kstore's was cut short.

        The new copy carries a file that says that it is whole, until the old one is gone. Without
        it nobody can tell: Kafka does not start on such directories either.
        """
        folder = partition_directory(name.topic, name.partition)
        whole, ends = [], []
        for each in (first, second):
            if marker.is_there(each.files, each.join(folder, MOVED)):
                whole.append(each)
            else:
                ends.append(peek_end_offset(each.files, each.join(folder), 0))
        if len(whole) == 1 and peek_end_offset(whole[0].files, whole[0].join(folder), 0) >= ends[0]:
            self._superseded.append((second if whole[0] is first else first, name))
            return whole[0]
        raise CorruptFileError(
            f"partition {name.topic}-{name.partition} is in two log directories, here and in "
            f"{first.path}; one of them must go (Kafka does not start either)",
            path=second.join(folder),
        )

    def place(self, topic: str, partition: int) -> LogDir:
        """The directory of a partition; UnknownTopicOrPartitionError suggests close names."""
        places = self.places.get(topic)
        if places is None:
            raise self.unknown(topic)
        place = places.get(partition)
        if place is None:
            count = self.partition_count(topic)
            if isinstance(partition, int) and 0 <= partition < count:
                for each in self.offline:
                    raise each.refusal()
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} has no partition {partition!r} here"
                + self._hint(topic, partition),
                path=self._dirs[0].path,
            )
        return place

    @property
    def offline(self) -> list[LogDir]:
        return [each for each in self._dirs if each.offline is not None]

    @property
    def live(self) -> list[LogDir]:
        return [each for each in self._dirs if each.offline is None]

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has, those in directories that are offline included."""
        entry = self.settings.get(topic)
        here = max(self.places[topic]) + 1
        return here if entry is None else max(entry.partitions, here)

    def partitions(self) -> Iterator[tuple[str, int, LogDir]]:
        for topic, places in self.places.items():
            for partition, place in places.items():
                yield topic, partition, place

    def unknown(self, topic: str) -> UnknownTopicOrPartitionError:
        close = get_close_matches(str(topic), self.places, n=3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        hint = self._hint(topic) or hint
        return UnknownTopicOrPartitionError(
            f"there is no topic {topic!r}{hint}", path=self._dirs[0].path
        )

    def lone_copies(self, topic: str | None = None) -> list[str]:
        """Sentences on unfinished copies of moves whose partition itself is not here."""
        return [
            f"{each.place.join(each.folder)}: all that is here of "
            f"{each.name.topic}-{each.name.partition} is a copy that a move had not finished"
            for each in self.retired
            if each.name.state == FUTURE
            and topic in (None, each.name.topic)
            and each.name.partition not in self.places.get(each.name.topic, {})
        ]

    def _hint(self, topic: str, partition: int | None = None) -> str:
        """Where the only copy is an unfinished one: which, and what to do."""
        found = [
            each
            for each in self.retired
            if each.name.state == FUTURE
            and each.name.topic == topic
            and partition in (None, each.name.partition)
        ]
        if not found:
            return ""
        return (
            f"; {found[0].place.join(found[0].folder)} is a copy that a move had not finished: "
            "open the store with the directory that has the partition itself or, where that is "
            f"lost, rename the copy to {partition_directory(topic, found[0].name.partition)}; "
            "records at its end may be missing"
        )

    # --- settings -------------------------------------------------------------------------

    def config(self, topic: str) -> LogConfig:
        """A topic's settings; without an entry nothing is ever shortened, cleaned or deleted."""
        entry = self.settings.get(topic)
        if entry is not None:
            return entry.log_config()
        return replace(self._default, retention_ms=-1, retention_bytes=-1, cleanup_policy="delete")

    def own_properties(self, topic: str) -> Mapping[str, str]:
        """What a topic's entry sets; nothing where it has none."""
        entry = self.settings.get(topic)
        return {} if entry is None else entry.log_config().to_properties()

    def merged_config(
        self, topic: str, changes: Mapping[str, object], unset: Sequence[str]
    ) -> LogConfig:
        """A topic's settings with changes made; an unset one is as the store has it."""
        return self.config(topic).merge(changes, unset, self._default)

    def configure(self, topic: str, config: LogConfig) -> None:
        check_log_config(config)
        entry = self.settings.get(topic) or TopicEntry(
            partitions=max(self.places[topic]) + 1, topic_id=self.topic_id(topic)
        )
        self.settings.put(topic, replace(entry, properties=config.to_properties()))

    def is_own(self, topic: str) -> bool:
        """Whether the topic has an entry: kstore made it, or was told to look after it."""
        return topic in self.settings

    def configured(self) -> list[str]:
        """Topics that have an entry of their own and are here."""
        return [name for name in self.settings.names() if name in self.places]

    def topic_id(self, topic: str) -> str | None:
        if topic not in self.places:
            raise self.unknown(topic)
        partition, place = next(iter(self.places[topic].items()))
        return read_topic_id(place.files, place.join(partition_directory(topic, partition)))

    # --- coming and going -----------------------------------------------------------------

    def create(
        self, topic: str, partitions: int, config: LogConfig | None, topic_id: str | None
    ) -> None:
        """Make a topic that must not exist yet; a crash on the way is made good by ``resume``."""
        check_topic_name(topic)
        partitions = check_partitions(partitions)
        settings = self._default if config is None else check_log_config(config)
        if topic_id is not None:
            _check_topic_id(topic_id)
        if topic in self.places:
            raise TopicExistsError(f"Topic {topic!r} already exists.", path=self._dirs[0].path)
        self._check_collision(topic)
        if hint := self._hint(topic):
            raise TopicExistsError(
                f"topic {topic!r} cannot be made anew beside what is left of it{hint}",
                path=self._dirs[0].path,
            )
        begun = self.settings.get(topic)
        if begun is not None:
            for each in self.offline:  # its partitions may be there
                raise each.refusal()
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
        self.settings.put(topic, entry)
        self._make(topic, entry)

    def grow(self, topic: str, partitions: int) -> None:
        """Make more partitions of a topic; a crash on the way is made good by ``resume``."""
        partitions = check_partitions(partitions)
        if topic not in self.places:
            raise self.unknown(topic)
        for each in self.offline:  # some of its partitions may be there
            raise each.refusal()
        count = self.partition_count(topic)
        if partitions < count:
            raise InvalidConfigError(f"topic {topic!r} has {count} partitions: it cannot have less")
        if not self.is_own(topic):
            raise PolicyViolationError(
                f"topic {topic!r} was not made by kstore: its partitions are its broker's to make"
            )
        entry = self.settings.get(topic)
        assert entry is not None
        entry = replace(entry, partitions=partitions, state=CREATING)
        self.settings.put(topic, entry)
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
        for place in self.live:
            place.files.sync_directory(place.path)
        self.settings.mark(topic, entry, LIVE)
        self.places[topic] = places
        self.version += 1

    def _make_partition(self, name: str) -> LogDir:
        """Make a directory where the fewest are, unless a failed attempt has made it.

        Directories are tried in that order until one is not offline (Kafka's LogManager).
        """
        for place in self.live:
            if place.files.exists(place.join(name)):
                return place
        for place in sorted(self.live, key=lambda each: each.partition_count):
            try:
                place.files.make_directory(place.join(name))
            except StorageError:
                if place.offline is None:
                    raise
                continue
            place.partition_count += 1
            return place
        raise self._dirs[0].refusal()

    def _identify(self, topic: str, entry: TopicEntry, places: dict[int, LogDir]) -> None:
        """Write the topic id into each partition. Two syncs each: together they take less time."""

        def write(partition: int) -> None:
            place = places[partition]
            path = place.join(partition_directory(topic, partition))
            write_topic_id(place.files, path, entry.topic_id or "")

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
        """Rename a topic's directories as Kafka does, then remove them; its logs are closed.

        The topic's entry says from before the first one that it is being deleted, until
        :meth:`finish_delete`.
        """
        entry = self.settings.get(topic) or TopicEntry(partitions=max(self.places[topic]) + 1)
        entry = self.settings.mark(topic, entry, DELETING, uuid.uuid4().hex)
        self._retire(topic, entry)

    def finish_delete(self, topic: str) -> None:
        """Nothing is left of a deleted topic: its entry goes, and its name is free.

        Not where a log directory is offline: partitions of it may be there.
        """
        if not self.offline:
            self.settings.remove(topic)

    def being_deleted(self) -> list[str]:
        """Topics whose deletion was begun and is not finished."""
        return [name for name in self.settings.unfinished() if self.is_being_deleted(name)]

    def is_being_deleted(self, topic: str) -> bool:
        entry = self.settings.get(topic)
        return entry is not None and entry.state == DELETING

    def _retire(self, topic: str, entry: TopicEntry) -> None:
        places = self.places.pop(topic, {})
        self.version += 1
        gone = [
            (place, partition, partition_directory(topic, partition))
            for partition, place in places.items()
        ]
        gone += [
            (each.place, each.name.partition, each.folder)
            for each in self.retired
            if each.name.topic == topic and each.name.state == FUTURE
        ]
        for place, partition, folder in gone:
            retired = retired_directory(topic, partition, DELETE, entry.unique)
            place.files.rename(place.join(folder), place.join(retired))
        ours = f".{entry.unique}-{DELETE}"
        for place in self.live:
            place.files.sync_directory(place.path)
            place.forget((topic, partition) for partition in range(entry.partitions))
            for name in place.files.list_directories(place.path):
                if name.endswith(ours):
                    remove_tree(place.files, place.join(name))
                    place.partition_count -= 1
            place.files.sync_directory(place.path)  # lest one outlives the entry that names it

    def resume(self) -> None:
        """Carry through what a crash cut short: moves, creations and deletions that were begun."""
        for place, name in self._superseded:
            key = (name.topic, name.partition)
            retired = self.retire_copy(place, key)
            self.finish_move(key)
            self.remove_retired(retired)
        self._superseded = []
        for topic in self.settings.unfinished():
            entry = self.settings.get(topic)
            if entry is None:
                continue
            if self.offline and entry.state == CREATING:
                continue  # some of its partitions may be in a directory that is not here
            _LOGGER.info("topic %s: going on with what was begun (%s)", topic, entry.state)
            if entry.state == CREATING:
                self._make(topic, entry)
            elif entry.unique:
                self._retire(topic, entry)

    # --- a partition changes its directory ------------------------------------------------

    def directory(self, path: str | os.PathLike[str]) -> LogDir:
        """One of the store's directories by its path; InvalidConfigError for any other."""
        wanted = os.path.abspath(os.fspath(path))
        for each in self._dirs:
            if each.path == wanted:
                return each
        raise InvalidConfigError(
            f"{wanted} is no log directory of this store; it has: "
            + ", ".join(each.path for each in self._dirs)
        )

    def futures(self, key: tuple[str, int]) -> list[Retired]:
        """Copies of a partition that a move, of Kafka's or kstore's, has not finished."""
        return [
            each
            for each in self.retired
            if each.name.state == FUTURE and (each.name.topic, each.name.partition) == key
        ]

    def begin_move(self, key: tuple[str, int], target: LogDir) -> str:
        """The folder for a partition's copy in another directory: one that is there, or new."""
        for each in self.futures(key):
            if each.place is target:
                return target.join(each.folder)
        unique = uuid.uuid4().hex
        folder = f"{partition_directory(*key)}.{unique}-{FUTURE}"
        target.files.make_directory(target.join(folder))
        target.partition_count += 1
        self.retired.append(Retired(target, folder, PartitionName(*key, FUTURE, unique)))
        return target.join(folder)

    def drop_futures(self, key: tuple[str, int], *, but: LogDir | None = None) -> int:
        """Remove unfinished copies of a partition, renamed first as Kafka does; how many."""
        dropped = [each for each in self.futures(key) if each.place is not but]
        for each in dropped:
            if each.place.offline is None:
                self.remove_retired(self._rename_away(each.place, each.folder, key))
            self.retired.remove(each)
        return len(dropped)

    def remove_retired(self, each: Retired) -> None:
        """Remove a folder that waits for deletion."""
        if each.place.files.kind(each.place.join(each.folder)) is not None:
            remove_tree(each.place.files, each.place.join(each.folder))
            each.place.partition_count -= 1
        self.retired = [other for other in self.retired if other is not each]

    def retire_copy(self, place: LogDir, key: tuple[str, int]) -> Retired:
        """Take the copy that a partition left behind out of the way, checkpoints included.

        Returns the folder that is to be removed.
        """
        retired = self._rename_away(place, partition_directory(*key), key)
        place.forget([key])
        return retired

    def _rename_away(self, place: LogDir, folder: str, key: tuple[str, int]) -> Retired:
        unique = uuid.uuid4().hex
        name = retired_directory(*key, DELETE, unique)
        place.files.rename(place.join(folder), place.join(name))
        place.files.sync_directory(place.path)
        return Retired(place, name, PartitionName(*key, DELETE, unique))

    def move(self, key: tuple[str, int], target: LogDir) -> None:
        """The copy in target took the partition's place."""
        self.retired = [each for each in self.retired if each not in self.futures(key)]
        self.places[key[0]][key[1]] = target

    def finish_move(self, key: tuple[str, int]) -> None:
        """The old copy is gone: the new one needs no sign of being whole any more."""
        place = self.place(*key)
        path = place.join(partition_directory(*key), MOVED)
        if place.offline is None and place.files.kind(path) is not None:
            place.files.remove(path)
            # Lest a power cut brings it back when a later move has given another copy one.
            place.files.sync_directory(os.path.dirname(path))


def check_partitions(partitions: object) -> int:
    """How many partitions a topic is to have; raises InvalidConfigError."""
    try:
        return check_integer("partitions", partitions, 1, MAX_PARTITIONS)
    except (TypeError, InvalidConfigError):
        raise InvalidConfigError(
            f"a topic has 1 to {MAX_PARTITIONS} partitions, not {show_value(partitions)}"
        ) from None


def _check_topic_id(topic_id: str) -> None:
    if not isinstance(topic_id, str):
        raise InvalidConfigError(f"a topic id is text, not {type(topic_id).__name__}")
    try:
        reserved = is_reserved_uuid(topic_id)
    except ValueError as error:
        raise InvalidConfigError(str(error)) from None
    if reserved:
        raise InvalidConfigError(f"Kafka keeps the topic id {topic_id} for itself")


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory and what is in it; a link is removed, not followed."""
    for name in files.list_own_directories(path):
        remove_tree(files, os.path.join(path, name))
    for name in files.listdir(path):
        files.remove(os.path.join(path, name))
    files.remove_directory(path)
