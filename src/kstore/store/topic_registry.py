"""The topics of a store: the log directory of each partition, settings, creation, deletion."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.partition_metadata import read_topic_id
from kstore.checkpoint.topics_file import CREATING, DELETING, TopicEntry, TopicsFile
from kstore.config import LogConfig, check_log_config, setting_texts
from kstore.errors import (
    CorruptFileError,
    InvalidConfigError,
    InvalidPartitionsError,
    KStoreError,
    PolicyViolationError,
    StorageError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicOrPartitionError,
)
from kstore.files.filenames import (
    DELETE,
    FUTURE,
    MOVED,
    PartitionName,
    partition_directory,
    retired_directory,
)
from kstore.hints.close_names import close_names
from kstore.integers import count_of, list_numbers
from kstore.kafka_uuid import random_hex
from kstore.store.list_log_dirs import Retired, list_log_dirs
from kstore.store.lost_partitions import LostPartitions
from kstore.store.partition_changes import PartitionChanges
from kstore.store.remove_tree import remove_tree
from kstore.store.topic_arguments import check_partitions
from kstore.store.topic_creation import TopicCreator, TopicToCreate
from kstore.store.unfinished_topic import find_half_made, with_found_id

_LOGGER = logging.getLogger("kstore")


class TopicRegistry:
    """The topics and partitions of one or several log directories; opens no log.

    Not thread-safe: the store calls it under its own lock.
    """

    def __init__(self, dirs: list[LogDir], default: LogConfig) -> None:
        self._dirs = dirs
        self._default = default
        self.settings = TopicsFile(dirs)
        self._creator = TopicCreator(self)
        self.partition_changes = PartitionChanges(self)
        self.lost = LostPartitions(self)
        self.topics: dict[str, dict[int, LogDir]] = {}
        self.retired: list[Retired] = []  # folders with Kafka's suffixes
        self._superseded: list[tuple[LogDir, PartitionName]] = []  # old copies of finished moves
        self.unrecognized: tuple[str, ...] = ()
        self.loose_files: tuple[str, ...] = ()
        # Topics whose deletion was interrupted in this process, with what remains of them.
        self._half_deleted: dict[str, dict[int, LogDir]] = {}
        self.version = 0  # grows when topics or partitions may have changed
        # Called with the topics that have changed, under the store's lock; None: perhaps any.
        self.on_change: Callable[[Collection[str] | None], object] | None = None
        # Of a broker over the store: the settings that count for a topic, given its own ones.
        self.effective_config: Callable[[str, LogConfig], LogConfig] | None = None
        self._stamps: list[int] | None = (
            None  # modification times of the directories when they were listed
        )
        self.refresh()

    def refresh(self) -> None:
        """Read the directories' names and ``kstore.topics`` again.

        Raises CorruptFileError if two directories have the same partition.
        """
        self._read()
        self.changed(None)

    def changed(self, names: Collection[str] | None) -> None:
        """Note topics whose partitions have changed; None: perhaps any."""
        self.version += 1
        self._note(names)

    def _note(self, names: Collection[str] | None) -> None:
        if self.on_change is not None:
            self.on_change(names)

    def _read(self) -> None:
        found = list_log_dirs(self._dirs)
        self._stamps = None if self._dirs[0].writable else found.stamps
        self.retired, self._superseded = found.retired, found.superseded
        for directory in self._dirs:
            if self.topics or directory.offline is not None or not directory.recovery_due:
                continue
            if any(directory in where.values() for where in found.log_dirs.values()):
                _LOGGER.warning(
                    "%s was not closed cleanly: recovery is due at the next opening for "
                    "writing, until then torn tails are not shown",
                    directory.path,
                )
        if all(directory.offline is not None for directory in self._dirs):
            raise self._dirs[0].refusal()
        for path in set(found.unrecognized) - set(self.unrecognized):
            _LOGGER.warning(
                "%s is not a partition directory: ignored, but Kafka refuses to start on it", path
            )
        self.unrecognized, self.loose_files = tuple(sorted(found.unrecognized)), found.loose_files
        self.settings.load(found.log_dirs)
        # What is left of deleted topics says nothing about a later topic of the same name.
        self.retired = [each for each in self.retired if not self._is_to_remove(each)]
        self.topics = found.log_dirs
        self.lost.warn()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Around a change on disk: if it is interrupted, read the directories again.

        An exception of any kind, Ctrl-C included, may end a change between any two of its steps.
        A topic is as before then if its creation or extension is unfinished, which the next
        attempt continues; it is not a topic any more if its deletion has begun.
        """
        before = dict(self.topics)
        try:
            yield
        except BaseException:
            with suppress(KStoreError):
                self._read()
            for topic in self.settings.unfinished():
                found = self.topics.pop(topic, {})
                if self.is_being_deleted(topic):
                    self._half_deleted[topic] = found
                elif topic in before:
                    self.topics[topic] = before[topic]
            self.changed(None)
            raise

    def follow(self) -> bool:
        """List the directories again if one has changed since; returns whether it did so."""
        if self._stamps is not None and self._stamps == [
            directory.modified_ns for directory in self._dirs
        ]:
            return False
        self.refresh()
        return True

    def log_dir_of(self, topic: str, partition: int) -> LogDir:
        """The directory of a partition; UnknownTopicOrPartitionError suggests close names."""
        log_dirs = self.topics.get(topic)
        if log_dirs is None:
            raise self.unknown(topic)
        log_dir = log_dirs.get(partition)
        if log_dir is None:
            count = self.partition_count(topic)
            if isinstance(partition, int) and 0 <= partition < count:
                for log_dir in self.offline:
                    raise log_dir.refusal()
            hint = self._hint(topic, partition)
            if not hint:
                hint = f"; it has {list_numbers(sorted(log_dirs))}"
                entry = self.settings.get(topic)
                if entry is not None and entry.held is not None:
                    from kstore.coordinator.owned_topics import advice_for_missing

                    hint += advice_for_missing(topic, partition)
            raise UnknownPartitionError(
                f"topic {topic!r} has no partition {partition!r} here{hint}",
                path=self._dirs[0].path,
            )
        return log_dir

    @property
    def offline(self) -> list[LogDir]:
        return [log_dir for log_dir in self._dirs if log_dir.offline is not None]

    @property
    def live(self) -> list[LogDir]:
        return [log_dir for log_dir in self._dirs if log_dir.offline is None]

    @property
    def live_paths(self) -> list[str]:
        """The paths of the directories that are not offline."""
        return [log_dir.path for log_dir in self.live]

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has, those in directories that are offline included."""
        entry = self.settings.get(topic)
        present = max(self.topics[topic]) + 1
        if entry is None or (entry.state == CREATING and not self.offline):  # others are to come
            return present
        return max(entry.partitions, present)

    def is_partial(self, topic: str) -> bool:
        """Whether the store has only some partitions of a topic, so that its count is unknown."""
        entry = self.settings.get(topic)
        if entry is not None:
            return entry.held is not None
        return len(self.topics[topic]) < self.partition_count(topic)

    def absent_partitions(self, topic: str) -> list[int]:
        """The partitions of a topic with an entry that are in no directory that is in use."""
        entry = self.settings.get(topic)
        if entry is None:
            return []  # created by Kafka, whose brokers host only some partitions of a topic
        present = self.topics.get(topic, {})
        if entry.held is None:
            return [each for each in range(entry.partitions) if each not in present]
        absent = [each for each in entry.held if each not in present]
        deleted = self.partition_changes.deleted(topic, absent) if absent else set()
        return [each for each in absent if each not in deleted]

    def exists(self, folder: str) -> bool:
        return any(log_dir.files.exists(log_dir.join(folder)) for log_dir in self.live)

    def partitions(self) -> Iterator[tuple[str, int, LogDir]]:
        for topic, log_dirs in self.topics.items():
            for partition, log_dir in log_dirs.items():
                yield topic, partition, log_dir

    def unknown(self, topic: str) -> UnknownTopicOrPartitionError:
        close = close_names(str(topic), self.topics)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        if topic in self.settings and (lost := self.lost.sentence(topic)):
            hint = f": {lost}"
        hint = self._hint(topic) or self._hint_of_partition(topic) or hint
        return UnknownTopicOrPartitionError(
            f"there is no topic {topic!r}{hint}", path=self._dirs[0].path
        )

    def orphaned_future_replicas(self) -> list[str]:
        """Notes on the copies of unfinished moves whose partition itself is missing."""
        return [
            f"{retired.log_dir.join(retired.folder)}: the unfinished copy of a move, but "
            f"{retired.name.topic}-{retired.name.partition} itself is in no directory of the store"
            for retired in self.retired
            if retired.name.state == FUTURE
            and retired.name.partition not in self.topics.get(retired.name.topic, {})
        ]

    def _hint_of_partition(self, topic: object) -> str:
        """The advice for a partition in place of a topic: ``orders-0``, or a pair."""
        name, _, number = topic.rpartition("-") if isinstance(topic, str) else ("", "", "")
        if isinstance(topic, tuple) and len(topic) == 2:
            name, number = topic
        known = isinstance(name, str) and name in self.topics and str(number).isdecimal()
        return f"; the log of its partition is store[{name!r}][{number}]" if known else ""

    def _hint(self, topic: str, partition: int | None = None) -> str:
        """The advice for a partition of which only an unfinished copy exists."""
        found = [
            retired
            for retired in self.retired
            if retired.name.state == FUTURE
            and retired.name.topic == topic
            and partition in (None, retired.name.partition)
        ]
        if not found:
            return ""
        return (
            f"; {found[0].log_dir.join(found[0].folder)} is the copy of an unfinished move: "
            "open the store with the directory that has the partition itself or, if that is "
            f"lost, rename the copy to {partition_directory(topic, found[0].name.partition)}; "
            "records at its end may be missing"
        )

    # --- settings -------------------------------------------------------------------------

    def config(self, topic: str) -> LogConfig:
        """The settings that count for a topic: its own, or those that a broker gives it."""
        own = self.own_config(topic)
        return own if self.effective_config is None else self.effective_config(topic, own)

    def own_config(self, topic: str) -> LogConfig:
        """A topic's own settings; without an entry it has no retention and no compaction."""
        entry = self.settings.get(topic)
        if entry is not None:
            return entry.log_config()
        return replace(self._default, retention_ms=-1, retention_bytes=-1, cleanup_policy="delete")

    def own_properties(self, topic: str) -> Mapping[str, str]:
        """The settings in a topic's entry; empty without an entry."""
        entry = self.settings.get(topic)
        return {} if entry is None else entry.log_config().to_properties()

    def set_properties(self, topic: str) -> Mapping[str, str]:
        """The settings that were set for a topic, also where they equal a default."""
        entry = self.settings.get(topic)
        return {} if entry is None else entry.properties

    def merged_config(
        self, topic: str, changes: Mapping[str, object], unset: Sequence[str]
    ) -> LogConfig:
        """A topic's settings with changes; an unset one gets the store's default."""
        return self.own_config(topic).merge(changes, unset, self._default)

    def configure(self, topic: str, config: LogConfig, set_names: Iterable[str] = ()) -> None:
        """Replace a topic's settings; ``set_names`` override also the defaults of a broker."""
        check_log_config(config)
        entry = self.settings.get(topic)
        if entry is None:
            entry = TopicEntry(
                partitions=max(self.topics[topic]) + 1,
                topic_id=self.topic_id(topic),
                is_adopted=True,
            )
            if self.is_partial(topic):
                entry = entry.holding(self.topics[topic])
        properties = config.to_properties() | setting_texts(config, set_names)
        self.settings.put(topic, replace(entry, properties=properties))
        self._note((topic,))

    def is_own(self, topic: str) -> bool:
        """Whether the topic has an entry: kstore created it or was given its settings."""
        return topic in self.settings

    def configured(self) -> list[str]:
        """Existing topics that have an entry of their own."""
        return [name for name in self.settings.names() if name in self.topics]

    def topic_id(self, topic: str) -> str | None:
        if topic not in self.topics:
            raise self.unknown(topic)
        partition, log_dir = next(iter(self.topics[topic].items()))
        return read_topic_id(log_dir.files, log_dir.join(partition_directory(topic, partition)))

    # --- creation and deletion ------------------------------------------------------------

    def create(
        self,
        topic: str,
        partitions: int,
        config: LogConfig | Mapping[str, object] | None,
        topic_id: str | None,
    ) -> None:
        """Create a topic that must not exist yet; ``resume`` finishes it after a crash."""
        wanted = TopicToCreate(topic, partitions, config, topic_id)
        for error in self.create_all([wanted]).values():
            raise error

    def create_all(self, wanted: Sequence[TopicToCreate]) -> dict[str, Exception]:
        """Create several topics with two writes of ``kstore.topics``.

        Returns the errors by topic; the topics without one exist then.
        """
        with self._change():
            return self._creator.create(wanted)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic; ``resume`` finishes it after a crash."""
        partitions = check_partitions(partitions)
        if topic not in self.topics:
            raise self.unknown(topic)
        for log_dir in self.offline:  # some of its partitions may be in that directory
            raise log_dir.refusal()
        count = self.partition_count(topic)
        entry = self.settings.get(topic)
        is_unfinished = entry is not None and entry.state == CREATING  # an earlier call failed
        if partitions < count or (partitions == count and not is_unfinished):
            which = "already: " if partitions == count else "and cannot have fewer: "
            raise InvalidPartitionsError(
                f"topic {topic!r} has {count_of(count, 'partition')} {which}the number is the "
                f"new total, len(topic) + {partitions} to add {partitions}"
            )
        if not self.is_own(topic):
            raise PolicyViolationError(
                f"topic {topic!r} was not created by kstore: only its broker may add partitions"
            )
        assert entry is not None
        if entry.held is not None:
            raise PolicyViolationError(
                f"the store has only {list_numbers(sorted(self.topics[topic]))} of topic "
                f"{topic!r}: create_partition() creates one more"
            )
        if lost := self.lost.of(topic):
            folder = partition_directory(topic, lost[0])
            raise UnknownTopicOrPartitionError(
                f"{topic!r} cannot get more partitions: {self.lost.sentence(topic)}. Open the "
                f"store with all its log directories, or restore {folder}, or delete the topic",
                path=self._dirs[0].join(folder),
            )
        entry = replace(entry, partitions=partitions, state=CREATING)
        find_half_made(self.live, topic, entry, but=self.topics[topic])  # or TopicExistsError
        with self._change():
            self._creator.grow(topic, entry)

    def check_deletable(self, topic: str, *, foreign: bool) -> None:
        """Raise unless the topic exists and has an entry, or ``foreign`` is set.

        A topic of which every folder is lost may be deleted too: its entry goes.
        """
        if topic not in self.topics and not self.lost.of(topic):
            raise self.unknown(topic)
        if not self.is_own(topic) and not foreign:
            raise PolicyViolationError(
                f"topic {topic!r} was not created by kstore; delete it with foreign=True"
            )

    def begin_delete(self, topic: str) -> None:
        """Record on disk that a topic is deleted; from here on it is not a topic any more.

        The topic's entry has the state ``DELETING`` until :meth:`finish_delete`.
        """
        entry = self.settings.get(topic) or TopicEntry(partitions=max(self.topics[topic]) + 1)
        with self._change():
            self.settings.mark(topic, entry, DELETING, random_hex())
            self._half_deleted[topic] = self.topics.pop(topic, {})
            self.changed((topic,))

    def retire(self, topic: str) -> None:
        """Rename the directories of a topic that is being deleted; its logs are closed.

        One sync of each log directory for all of them. Does nothing if that is done.
        """
        entry = self.settings.get(topic)
        if entry is not None and topic in self._half_deleted:
            with self._change():
                self._retire(topic, entry, self._half_deleted[topic])
                del self._half_deleted[topic]

    def finish_delete(self, topic: str) -> None:
        """Remove the entry of a deleted topic, which frees its name; its folders are left.

        Not if a log directory is offline, which may have partitions of the topic.
        """
        if self.offline:
            return
        self.retire(topic)
        with self._change():
            self.settings.finish_delete(topic)

    def folders_to_remove(self) -> frozenset[str]:
        """The random parts of the names of folders of deleted topics."""
        begun = (
            self.settings.get(topic)
            for topic in self.being_deleted()
            if topic not in self._half_deleted
        )
        return self.settings.deleted | {each.unique for each in begun if each and each.unique}

    def _is_to_remove(self, retired: Retired) -> bool:
        return retired.name.state == DELETE and retired.name.unique in self.settings.deleted

    def being_deleted(self) -> list[str]:
        """Topics with an unfinished deletion."""
        return [name for name in self.settings.unfinished() if self.is_being_deleted(name)]

    def is_being_deleted(self, topic: str) -> bool:
        entry = self.settings.get(topic)
        return entry is not None and entry.state == DELETING

    def _retire(self, topic: str, entry: TopicEntry, log_dirs: Mapping[int, LogDir]) -> None:
        self.changed((topic,))
        renamed = [
            (log_dir, partition, partition_directory(topic, partition))
            for partition, log_dir in log_dirs.items()
        ]
        renamed += [
            (retired.log_dir, retired.name.partition, retired.folder)
            for retired in self.retired
            if retired.name.topic == topic and retired.name.state == FUTURE
        ]
        for log_dir, partition, folder in renamed:
            retired = retired_directory(topic, partition, DELETE, entry.unique)
            log_dir.files.rename(log_dir.join(folder), log_dir.join(retired))
        self.retired = [
            other
            for other in self.retired
            if other.name.topic != topic or other.name.state != FUTURE
        ]
        for log_dir in self.live:
            log_dir.files.sync_directory(log_dir.path)
            log_dir.offsets.forget((topic, each) for each in {*entry.numbers, *log_dirs})

    def resume(self) -> None:
        """Finish the moves, creations and deletions that a crash interrupted."""
        for log_dir, name in self._superseded:
            key = (name.topic, name.partition)
            retired = self.retire_copy(log_dir, key)
            self.finish_move(key)
            self.remove_retired(retired)
        self._superseded = []
        for topic in self.settings.unfinished():
            entry = self.settings.get(topic)
            if entry is None:
                continue
            if self.offline and entry.state == CREATING:
                continue  # some of its partitions may be in an offline directory
            _LOGGER.info("topic %s: finishing the interrupted operation (%s)", topic, entry.state)
            if entry.state == CREATING:
                self._resume_creation(topic, entry)
            elif entry.unique:
                self._retire(topic, entry, self.topics.pop(topic, {}))
        self.partition_changes.settle()

    def _resume_creation(self, topic: str, entry: TopicEntry) -> None:
        """Finish a creation; where that fails, the other topics can be used all the same."""
        try:
            found = self.topic_id(topic) if topic in self.topics else None
            entry = with_found_id(topic, entry, found)
            self._creator.make_one(topic, entry)
        except (TopicExistsError, CorruptFileError, StorageError) as error:
            _LOGGER.error("topic %s: its creation cannot be finished: %s", topic, error)

    # --- moves of partitions --------------------------------------------------------------

    def directory(self, path: str | os.PathLike[str]) -> LogDir:
        """One of the store's directories by its path; InvalidConfigError for any other."""
        wanted = os.path.abspath(os.fspath(path))
        for log_dir in self._dirs:
            if log_dir.path == wanted:
                return log_dir
        raise InvalidConfigError(
            f"{wanted} is not a log directory of this store; it has: "
            + ", ".join(log_dir.path for log_dir in self._dirs)
        )

    def futures(self, key: tuple[str, int]) -> list[Retired]:
        """Copies of a partition by unfinished moves of Kafka or kstore."""
        return [
            retired
            for retired in self.retired
            if retired.name.state == FUTURE and (retired.name.topic, retired.name.partition) == key
        ]

    def begin_move(self, key: tuple[str, int], target: LogDir) -> str:
        """The folder for a partition's copy in another directory: an existing one, or a new one."""
        for retired in self.futures(key):
            if retired.log_dir is target:
                return target.join(retired.folder)
        unique = random_hex()
        folder = f"{partition_directory(*key)}.{unique}-{FUTURE}"
        target.files.make_directory(target.join(folder))
        target.partition_count += 1
        self.retired.append(Retired(target, folder, PartitionName(*key, FUTURE, unique)))
        return target.join(folder)

    def drop_futures(self, key: tuple[str, int], *, but: LogDir | None = None) -> int:
        """Remove unfinished copies of a log, renamed first as Kafka does; returns how many."""
        dropped = [retired for retired in self.futures(key) if retired.log_dir is not but]
        for retired in dropped:
            if retired.log_dir.offline is None:
                self.remove_retired(self._rename_away(retired.log_dir, retired.folder, key))
            self.retired.remove(retired)
        return len(dropped)

    def remove_retired(self, retired: Retired) -> None:
        """Remove a retired folder."""
        if retired.log_dir.files.kind(retired.log_dir.join(retired.folder)) is not None:
            remove_tree(retired.log_dir.files, retired.log_dir.join(retired.folder))
            retired.log_dir.partition_count -= 1
        self.retired = [other for other in self.retired if other is not retired]

    def retire_copy(self, log_dir: LogDir, key: tuple[str, int]) -> Retired:
        """Rename a partition's old copy and remove it from the checkpoints.

        Returns the folder to be removed.
        """
        retired = self._rename_away(log_dir, partition_directory(*key), key)
        log_dir.offsets.forget([key])
        return retired

    def _rename_away(self, log_dir: LogDir, folder: str, key: tuple[str, int]) -> Retired:
        unique = random_hex()
        name = retired_directory(*key, DELETE, unique)
        log_dir.files.rename(log_dir.join(folder), log_dir.join(name))
        log_dir.files.sync_directory(log_dir.path)
        return Retired(log_dir, name, PartitionName(*key, DELETE, unique))

    def move(self, key: tuple[str, int], target: LogDir) -> None:
        """Record that the copy in ``target`` replaced the partition."""
        self.retired = [retired for retired in self.retired if retired not in self.futures(key)]
        self.topics[key[0]][key[1]] = target

    def finish_move(self, key: tuple[str, int]) -> None:
        """Remove the new copy's ``kstore.moved``; the old copy is retired."""
        log_dir = self.log_dir_of(*key)
        path = log_dir.join(partition_directory(*key), MOVED)
        if log_dir.offline is None and log_dir.files.kind(path) is not None:
            log_dir.files.remove(path)
            # A power cut must not restore it after a later move has marked another copy.
            log_dir.files.sync_directory(os.path.dirname(path))
