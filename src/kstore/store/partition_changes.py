"""Creates and deletes single partitions of topics, of which a directory has 1, 4 and 7, say.

One rename is the commit point of each, as of Kafka's deletions; no journal is needed. A partition
is made under the name of a deleted one (``<topic>-<partition>.<random>-delete``), gets its id, and
is renamed to its own name: after a crash it exists with its id, or a deleted folder is left over.
The entry in ``kstore.topics`` names the partitions of this store, so that a lost folder is noticed.
It follows the rename; the next writer brings it in step (:meth:`PartitionChanges.settle`).
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.partition_metadata import write_topic_id
from kstore.checkpoint.topics_file import CREATING, DELETING, LIVE, TopicEntry
from kstore.config import LogConfig, as_log_config, setting_texts
from kstore.errors import (
    CorruptFileError,
    InvalidTopicError,
    PolicyViolationError,
    StorageError,
    TopicExistsError,
    UnknownPartitionError,
)
from kstore.files.filenames import (
    DELETE,
    TOPICS_FILE,
    check_topic_name,
    collision_key,
    partition_directory,
    retired_directory,
)
from kstore.kafka_uuid import random_hex, random_uuid
from kstore.store.remove_tree import remove_tree

if TYPE_CHECKING:
    from kstore.store.topic_registry import TopicRegistry

_LOGGER = logging.getLogger("kstore")

PartitionKey = tuple[str, int]


class PartitionToCreate(NamedTuple):
    """The arguments of :meth:`kstore.Store.create_partition`, checked."""

    topic: str
    partition: int
    topic_id: str | None = None
    config: LogConfig | Mapping[str, object] | None = None
    is_new: bool = False  # no directory that is offline has it


class PartitionChanges:
    """Creates and deletes single partitions of one registry.

    Not thread-safe: the store calls it under its lock.
    """

    def __init__(self, registry: "TopicRegistry") -> None:
        self._registry = registry
        self.deletions: Counter[PartitionKey] = Counter()  # by this process

    # --- creation -------------------------------------------------------------------------

    def create(self, wanted: PartitionToCreate, known_id: str | None) -> None:
        """Create a partition that does not exist. ``known_id``: the id of an existing topic.

        Raises StorageError with nothing created.
        """
        self._check(wanted)
        with self._registry._change():
            self._create(wanted, known_id)

    def _create(self, wanted: PartitionToCreate, known_id: str | None) -> None:
        registry, topic, partition = self._registry, wanted.topic, wanted.partition
        before, is_here = registry.settings.get(topic), topic in registry.topics
        entry = self._entry_of(wanted, known_id)
        topic_id = wanted.topic_id or known_id
        if entry is not None:
            topic_id = entry.topic_id or topic_id
            self._put(topic, entry)
        try:
            if is_here and known_id is None and topic_id is not None:
                self._identify(topic, topic_id)
            log_dir = self._make((topic, partition), topic_id)
        except StorageError:  # of a full disk, mostly: the name must not stay taken
            if before is None and not is_here:
                with suppress(StorageError):
                    registry.settings.remove(topic)
            raise
        registry.topics[topic] = {**registry.topics.get(topic, {}), partition: log_dir}
        registry.changed((topic,))
        if entry is not None:
            try:
                self._put(topic, entry.holding({*entry.numbers, partition}))
            except StorageError as error:  # the partition exists: its folder is what counts
                _LOGGER.warning(
                    "%s-%d is created, but %s could not be written: the next opening does it (%s)",
                    topic, partition, TOPICS_FILE, error,
                )  # fmt: skip

    def _check(self, wanted: PartitionToCreate) -> None:
        registry, (topic, partition) = self._registry, wanted[:2]
        folder = partition_directory(topic, partition)
        path = registry._dirs[0].join(folder)
        for other in registry.topics:
            if other != topic and collision_key(other) == collision_key(topic):
                raise InvalidTopicError(
                    f"topic {topic!r} collides with {other!r}: Kafka treats '.' and '_' as "
                    "equal in the names of its metrics"
                )
        if hint := registry._hint(topic, partition):
            raise TopicExistsError(
                f"partition {topic}-{partition} cannot be created beside an unfinished copy of "
                f"it{hint}",
                path=path,
            )
        if registry.exists(folder):  # its records are not ours to replace
            raise TopicExistsError(
                f"{folder} was put here after the store was opened: open the store again",
                path=path,
            )
        entry = registry.settings.get(topic)
        # Of a topic with another id, whose offsets and settings the wanted one must not get.
        is_former = (
            entry is not None
            and topic not in registry.topics
            and wanted.topic_id not in (None, entry.topic_id)
        )
        is_known = entry is not None and (entry.state != LIVE or partition in entry.numbers)
        for log_dir in registry.offline:
            if is_known or is_former or not wanted.is_new:
                raise log_dir.refusal()
        _check_finished(topic, entry)
        lost = registry.absent_partitions(topic)
        if partition in lost or (is_former and lost):
            number = partition if partition in lost else lost[0]
            raise UnknownPartitionError(
                f"partition {topic}-{number} is lost, or in a log directory that was not given: "
                "open the store with all its directories, or restore the folder; "
                f"delete_partition() gives it up, then {folder} can be created",
                path=path,
            )

    def _entry_of(self, wanted: PartitionToCreate, known_id: str | None) -> TopicEntry | None:
        """The topic's entry while the partition is made; None for a topic that Kafka created."""
        registry, topic = self._registry, wanted.topic
        entry, present = registry.settings.get(topic), registry.topics.get(topic)
        if present is not None:
            if entry is None:
                return None
            known_id = entry.topic_id or known_id or wanted.topic_id
            return replace(entry, topic_id=known_id).holding({*entry.numbers, *present})
        former_id = None
        missing = registry.absent_partitions(topic)  # all of them are, or were deleted
        if entry is not None:
            if wanted.topic_id in (None, entry.topic_id) and wanted.config is None:
                return entry.holding(missing)
            former_id = entry.topic_id
        settings = as_log_config(wanted.config, registry._default)
        set_names = wanted.config if isinstance(wanted.config, Mapping) else ()
        return TopicEntry(
            partitions=1,
            topic_id=wanted.topic_id or former_id or random_uuid(),
            properties=settings.to_properties() | setting_texts(settings, set_names),
        ).holding(missing)

    def _identify(self, topic: str, topic_id: str) -> None:
        """Give the partitions of a topic the id that it has got since Kafka created them."""
        for partition, log_dir in self._registry.topics[topic].items():
            if log_dir.offline is None:
                folder = log_dir.join(partition_directory(topic, partition))
                write_topic_id(log_dir.files, folder, topic_id)

    def _make(self, key: PartitionKey, topic_id: str | None) -> LogDir:
        """Make a folder with its id, in the directory with the fewest partitions that works."""
        registry = self._registry
        for log_dir in sorted(registry.live, key=lambda each: each.partition_count):
            files = log_dir.files
            unfinished = log_dir.join(retired_directory(*key, DELETE, random_hex()))
            made = log_dir.join(partition_directory(*key))
            own = [unfinished]
            try:
                log_dir.offsets.forget([key])  # of an earlier partition of this number
                files.make_directory(unfinished)
                if topic_id is not None:
                    write_topic_id(files, unfinished, topic_id)
                files.rename(unfinished, made)
                own.append(made)
                files.sync_directory(log_dir.path)
            except StorageError:
                for path in own:
                    with suppress(StorageError):
                        remove_tree(files, path)
                if log_dir.offline is None:
                    raise
                continue
            log_dir.partition_count += 1
            return log_dir
        raise registry._dirs[0].refusal()

    # --- deletion -------------------------------------------------------------------------

    def knows(self, topic: str, partition: int) -> bool:
        """Whether a partition exists, or is missing: lost, or in an offline directory."""
        entry = self._registry.settings.get(topic)
        is_named = entry is not None and partition in entry.numbers
        return is_named or partition in self._registry.topics.get(topic, ())

    def check_deletable(self, topic: str, partition: int, *, foreign: bool) -> None:
        """Raise unless the partition exists, or is lost, and may be deleted."""
        registry = self._registry
        check_topic_name(topic)
        entry = registry.settings.get(topic)
        _check_finished(topic, entry)
        is_lost = entry is not None and partition in entry.numbers and not registry.offline
        if not is_lost:
            log_dir = registry.log_dir_of(topic, partition)
            if log_dir.offline is not None:
                raise log_dir.refusal()
        if entry is None and not foreign:
            raise PolicyViolationError(
                f"topic {topic!r} was not created by kstore; delete its partition with foreign=True"
            )

    def delete(self, topic: str, partition: int) -> None:
        """Rename a partition's folder as Kafka does, then remove it; its log is closed.

        One that is lost is only taken out of the entry.
        """
        with self._registry._change():
            self._delete(topic, partition)

    def _delete(self, topic: str, partition: int) -> None:
        registry, key = self._registry, (topic, partition)
        entry, present = registry.settings.get(topic), registry.topics.get(topic, {})
        if entry is not None:
            entry = entry.holding({*entry.numbers, *present})
            self._put(topic, entry)
        retired = None
        if (log_dir := present.get(partition)) is not None:
            registry.drop_futures(key)
            retired = registry.retire_copy(log_dir, key)
            self.deletions[key] += 1
            registry.topics[topic] = {n: each for n, each in present.items() if n != partition}
            if not registry.topics[topic]:
                del registry.topics[topic]
        registry.changed((topic,))
        if entry is not None:  # before the folder that shows a deletion is removed
            self._put(topic, entry.holding({*entry.numbers} - {partition}))
        if retired is not None:
            registry.remove_retired(retired)

    def end_emptied(self, topic: str, *, but: str | None = None) -> None:
        """Begin to delete a topic whose last partition was deleted, unless its id is ``but``.

        Its entry and committed offsets are kept until another topic gets its name.
        """
        registry = self._registry
        if topic in registry.topics or topic not in registry.settings or registry.offline:
            return
        entry = registry.settings.get(topic)
        if entry is None or (entry.held, entry.state) != ((), LIVE):
            return
        if but is None or entry.topic_id != but:
            registry.settings.mark(topic, entry, DELETING, random_hex())

    # --- after a crash --------------------------------------------------------------------

    def settle(self) -> None:
        """Bring the entries in step with the folders, after a crash or the work of a broker."""
        registry = self._registry
        for topic in registry.settings.partial():
            try:
                entry = registry.settings.get(topic)
            except CorruptFileError:  # a use of the topic reports it
                continue
            if entry is None or entry.state != LIVE:
                continue
            present = registry.topics.get(topic, {})
            gone = self.deleted(topic, {*entry.numbers} - {*present})
            self._put(topic, entry.holding(({*entry.numbers} | {*present}) - gone))

    def deleted(self, topic: str, missing: Iterable[int]) -> set[int]:
        """Those of a topic's missing partitions that were deleted: their folders are not removed.

        None while a directory is offline, which may have moved copies of them.
        """
        registry = self._registry
        if registry.offline:
            return set()
        found = {each.folder: each.name for each in registry.retired if each.name.state == DELETE}
        uniques = {name.unique for name in found.values()}
        return {
            number
            for number in missing
            if any(retired_directory(topic, number, DELETE, each) in found for each in uniques)
        }

    def _put(self, topic: str, entry: TopicEntry) -> None:
        if entry != self._registry.settings.get(topic):
            self._registry.settings.put(topic, entry)


def _check_finished(topic: str, entry: TopicEntry | None) -> None:
    if entry is not None and entry.state != LIVE:
        which = "creation" if entry.state == CREATING else "deletion"
        raise PolicyViolationError(
            f"the {which} of topic {topic!r} was interrupted: finish it first, by the same call, "
            "or by opening the store again"
        )
