"""Builds the image of a store's topics."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.checkpoint.log_dir import LogDir
from kstore.cluster.broker_file import TopicRecord
from kstore.cluster.image import NO_EPOCH, NO_LEADER, ZERO_UUID, PartitionImage, TopicImage
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.errors import CorruptFileError, KStoreError, StorageError
from kstore.files.filenames import INTERNAL_TOPICS, LEADER_EPOCHS, partition_directory
from kstore.kafka_uuid import uuid_from_text

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
_MOST_ELSEWHERE = 10_000  # partitions of a topic


class LocalPartitions(Mapping[int, PartitionImage]):
    """The partitions of a topic; the first access creates the image of each.

    Each partition's leader epoch is in its own file, so that a store of 10,000 partitions would
    otherwise read 10,000 files before serving the first. A created image does not change.
    """

    def __init__(
        self,
        numbers: dict[int, LogDir | None],
        make: Callable[[int, bool], PartitionImage],
        elsewhere: Set[int] = frozenset(),
    ) -> None:
        """``numbers`` ascend. ``make`` gets one, and whether it reads the leader epoch.

        ``elsewhere``: those of the numbers that are not of this broker.
        """
        self._numbers = numbers
        self._elsewhere = elsewhere
        self._offline = {number for number, log_dir in numbers.items() if is_offline(log_dir)}
        self._make = make
        self._made: dict[int, PartitionImage] = {}

    def __eq__(self, other: object) -> bool:
        """Equal without a look at the partitions where both are the same object.

        Images of topics are compared with the same partitions (`kept_if_equal`). The dataclasses of
        Python before 3.13 compare tuples of their fields, which asks for identity first.
        """
        return self is other or super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def is_like(self, other: Mapping[int, PartitionImage]) -> bool:
        """Whether the partitions are in the same directories, with the same directories offline.

        If so, at most their leader epochs differ, which ``leader_epoch_begun`` reports.
        """
        return (
            isinstance(other, LocalPartitions)
            and self._numbers == other._numbers
            and self._offline == other._offline
            and self._elsewhere == other._elsewhere
        )

    @property
    def is_read(self) -> bool:
        """Whether the image of each partition exists, so that no access reads a file."""
        return len(self._made) == len(self._numbers)

    def is_quick(self, partition: int) -> bool:
        """Whether an access to a partition reads no file."""
        return (
            partition in self._made or partition in self._offline or partition not in self._numbers
        )

    def unread(self, partition: int) -> PartitionImage:
        """A partition that is not offline, without its leader epoch (-1), which is in a file."""
        return self._make(partition, False)

    def keep_read(
        self, other: Mapping[int, PartitionImage], *, excluded: int | None = None
    ) -> None:
        """Take over the images of an earlier state of the topic, except one partition's.

        Only those of partitions that are in the same directory, which is still in use.
        """
        if isinstance(other, LocalPartitions):
            for partition, image in list(other._made.items()):
                log_dir = self._numbers.get(partition)
                if (
                    partition != excluded
                    and log_dir is not None
                    and log_dir is other._numbers[partition]
                    and partition not in self._offline | other._offline
                ):
                    self._made[partition] = image

    @property
    def has_gaps(self) -> bool:
        """Whether numbers below the highest are omitted, because there are too many."""
        return self.highest >= len(self._numbers)

    @property
    def highest(self) -> int:
        """The highest number; -1 of no partition."""
        return next(reversed(self._numbers), -1)

    def count_here(self) -> int:
        """How many are of this broker, without an image of any."""
        return len(self._numbers) - len(self._elsewhere)

    def count_offline(self) -> int:
        """How many of this broker's cannot be used at the moment, without an image of any."""
        unusable = sum(is_offline(log_dir) for log_dir in self._numbers.values())
        return unusable - len(self._elsewhere)

    def __getitem__(self, partition: int) -> PartitionImage:
        found = self._made.get(partition)
        if found is None:
            if partition not in self._numbers:
                raise KeyError(partition)
            found = self._made.setdefault(partition, self._make(partition, True))
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, partition: object) -> bool:
        return partition in self._numbers


def is_offline(log_dir: LogDir | None) -> bool:
    """Whether a partition is unusable because its directory has failed or is missing."""
    return log_dir is None or log_dir.offline is not None


def kept_if_equal(old: TopicImage | None, new: TopicImage) -> TopicImage:
    """Return the old image of a topic if the new one is equal, because the old one has its epochs
    loaded and caches refer to it. Otherwise the new one has the epochs that were loaded."""
    if old is None or not isinstance(new.partitions, LocalPartitions):
        return new
    if new.partitions.is_like(old.partitions) and old == replace(new, partitions=old.partitions):
        return old
    keep_epochs(old, new)
    return new


def keep_epochs(old: TopicImage | None, new: TopicImage, *, excluded: int | None = None) -> None:
    """Let the new image of a topic have the leader epochs that the old one has loaded, except that
    of one partition."""
    if (
        old is not None
        and isinstance(new.partitions, LocalPartitions)
        and old.topic_id == new.topic_id != ZERO_UUID
    ):
        new.partitions.keep_read(old.partitions, excluded=excluded)


def topic_image(
    store: "Store", name: str, node_id: int, record: TopicRecord | None
) -> TopicImage | None:
    """The image of a topic of the store; None if it does not exist. Thread safe.

    A topic of which nothing but its entry is left has partitions without a leader.
    """
    with store._lock:
        catalog = store._catalog
        is_lost = catalog.lost.is_lost(name)
        if name not in catalog.topics and not is_lost:
            return None
        present = catalog.topics.get(name, {})
        missing: Set[int] = frozenset()
        config = dict(record.config) if record is not None else {}
        try:
            missing = frozenset(catalog.absent_partitions(name))
            config.update(own_settings(store, name))
        except CorruptFileError as error:
            _LOGGER.warning("topic %s is served without its settings: %s", name, error)
        topic_id = _id_in_entry(store, name) if is_lost else _topic_id(store, name)
        numbers = {number: present.get(number) for number in _shown(present.keys() | missing)}
        elsewhere = numbers.keys() - present.keys() - missing

    def make(partition: int, reads_epoch: bool) -> PartitionImage:
        if partition in elsewhere:
            return PartitionImage(partition, NO_LEADER, 0, (), ())
        log_dir = numbers[partition]
        epoch = _leader_epoch(log_dir, name, partition) if reads_epoch else NO_EPOCH
        if is_offline(log_dir):
            return PartitionImage(partition, NO_LEADER, epoch, (node_id,), (node_id,), (node_id,))
        return PartitionImage(partition, node_id, epoch, (node_id,), (node_id,))

    return TopicImage(
        name,
        topic_id,
        LocalPartitions(numbers, make, elsewhere),
        config,
        is_internal=name in INTERNAL_TOPICS,
        is_adopted=record is not None and record.is_adopted,
    )


def _shown(ours: Set[int]) -> Collection[int]:
    """All numbers up to the highest of ours: clients take a topic's partitions for 0 to n - 1.

    Ours alone where most of the others would be made up: a folder ``backup-20240101`` beside the
    partitions is one of a topic ``backup``, whose number makes no 20 million of them.
    """
    count = max(ours, default=0) + 1
    return range(count) if count - len(ours) <= _MOST_ELSEWHERE else sorted(ours)


def _warn_of_gaps(old: TopicImage | None, new: TopicImage) -> None:
    """Once, not with each change of the topic."""
    shown = new.partitions
    if not isinstance(shown, LocalPartitions) or not shown.has_gaps:
        return
    if (
        old is None
        or not isinstance(old.partitions, LocalPartitions)
        or not old.partitions.has_gaps
    ):
        _LOGGER.warning(
            "topic %s has partition %d here, and %d in all: clients see no others, which are too "
            "many. If the folder %s is not a partition, move it out of the log directory",
            new.name, shown.highest, len(shown), partition_directory(new.name, shown.highest),
        )  # fmt: skip


def topic_images(
    store: "Store",
    known: Mapping[str, TopicImage],
    names: Collection[str] | None,
    node_id: int,
    record: Callable[[str], TopicRecord | None],
) -> Mapping[str, TopicImage]:
    """The images of all topics, of which these are read from the store (None: all), the others are
    known. Thread safe."""
    if names is None:
        with store._lock:
            names = {*known, *store._catalog.topics, *store._catalog.lost.topics()}
    topics = dict(known)
    for name in names:
        found = topic_image(store, name, node_id, record(name))
        if found is None:
            topics.pop(name, None)
        else:
            _warn_of_gaps(known.get(name), found)
            topics[name] = kept_if_equal(known.get(name), found)
    return topics if topics.keys() == known.keys() else dict(sorted(topics.items()))


def planned_image(
    name: str, topic_id: str, count: int, config: Mapping[str, str], node_id: int
) -> TopicImage:
    """The image that a topic has once it is created."""
    nodes = (node_id,)
    partitions = LocalPartitions(
        dict.fromkeys(range(count)),
        lambda number, _: PartitionImage(number, node_id, 0, nodes, nodes),
    )
    is_internal = name in INTERNAL_TOPICS
    return TopicImage(name, uuid_from_text(topic_id), partitions, config, is_internal)


def own_settings(store: "Store", name: str) -> dict[str, str]:
    """A topic's settings in ``kstore.topics``, by Kafka's names. The caller holds the store's
    lock."""
    entry = store._catalog.settings.get(name)
    if entry is None:
        return {}
    return {key: value for key, value in entry.properties.items() if key in TOPIC_SETTINGS}


def _topic_id(store: "Store", name: str) -> bytes:
    try:
        found = store._manager.identities.find(name).topic_id
    except (CorruptFileError, StorageError) as error:
        _LOGGER.warning("topic %s is served without its id: %s", name, error)
        return ZERO_UUID
    return ZERO_UUID if found is None else uuid_from_text(found)


def _id_in_entry(store: "Store", name: str) -> bytes:
    entry = store._catalog.settings.get(name)
    return ZERO_UUID if entry is None or entry.topic_id is None else uuid_from_text(entry.topic_id)


def _leader_epoch(log_dir: LogDir | None, topic: str, partition: int) -> int:
    """The latest leader epoch of the partition's log; 0 if it has none."""
    if log_dir is None or log_dir.offline is not None:
        return 0
    path = log_dir.join(partition_directory(topic, partition), LEADER_EPOCHS)
    try:
        entries = list(LeaderEpochs.load(log_dir.files, path))
    except KStoreError:  # opening the log reports it
        return 0
    return max(entries[-1].epoch, 0) if entries else 0
