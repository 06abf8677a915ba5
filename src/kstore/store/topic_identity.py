"""Distinguishes a topic from a later one of the same name, by its id or a creation stamp."""

import logging

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.checkpoint.partition_metadata import read_topic_id
from kstore.errors import CorruptFileError, InconsistentTopicIdError, StorageError
from kstore.files.filenames import partition_directory
from kstore.kafka_uuid import random_uuid
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.reader import LogReader
from kstore.store.topic_registry import TopicRegistry

_LOGGER = logging.getLogger("kstore")


@lazy_dataclass(frozen=True)
class TopicIdentity:
    """A topic's identity at one time: immutable and picklable."""

    topic_id: str | None = None  # Kafka's
    stamp: str | None = None  # the creation stamp of a topic that has, or had, no id
    is_created_here: bool = False  # kstore created the topic, with its id

    @property
    def text(self) -> str | None:
        """The topic id, else the creation stamp; None for a topic with neither."""
        return self.topic_id or self.stamp

    def is_same(self, known: str | None) -> bool:
        """Whether ``known`` is an earlier identity of this topic; None: it had no id or stamp.

        A broker that is upgraded assigns an id to a topic that had none.
        """
        if known is None:
            return self.stamp is not None or not self.is_created_here
        return known in (self.stamp, self.topic_id)


class TopicIdentities:
    """The identities of the topics of a registry, and their open readers.

    Thread safe: guarded by the store's lock.
    """

    def __init__(self, catalog: TopicRegistry, lock: ReentrantLock) -> None:
        self._catalog = catalog
        self._settings = catalog.settings
        self._lock = lock
        self._version = -1  # of the registry, when the readers were last checked
        self._readers: dict[tuple[str, int], tuple[LogReader, str | None]] = {}

    def identity_of(self, topic: str) -> str | None:
        """The topic's id, else its creation stamp.

        None if it has neither: Kafka before 2.8 created it, and kstore has not written here since.
        """
        with self._lock:
            if topic not in self._catalog.topics:
                raise self._catalog.unknown(topic)
            return self._find(topic).text

    def find(self, topic: str) -> TopicIdentity:
        """A topic's current identity; UnknownTopicOrPartitionError if it does not exist."""
        with self._lock:
            if topic not in self._catalog.topics:
                raise self._catalog.unknown(topic)
            return self._find(topic)

    def topic_id_of(self, topic: str) -> str | None:
        """Kafka's id of a topic."""
        with self._lock:
            return self._catalog.topic_id(topic)

    def is_same(self, topic: str, known: str | None) -> bool:
        """Whether a topic is the one that had this identity once; False if it does not exist."""
        with self._lock:
            return topic in self._catalog.topics and self._find(topic).is_same(known)

    def check_topic_id(self, topic: str, partition: int, topic_id: str) -> None:
        """Raise InconsistentTopicIdError if a partition has another id than this one.

        Its own file counts, as in Kafka; a partition without an id matches any. Raises
        UnknownTopicOrPartitionError if it does not exist.
        """
        log_dir = self._catalog.log_dir_of(topic, partition)
        if log_dir.offline is not None:
            raise log_dir.refusal()
        folder = log_dir.join(partition_directory(topic, partition))
        found = read_topic_id(log_dir.files, folder)
        if found not in (None, topic_id):
            raise InconsistentTopicIdError(
                f"partition {topic}-{partition} belongs to the topic with id {found}, not to "
                f"{topic_id}",
                path=folder,
            )

    def topic_id_if_any(self, topic: str) -> str | None:
        """The id of a topic; None if it has none, or does not exist."""
        return self._topic_id_if_any(topic) if topic in self._catalog.topics else None

    def add_reader(self, key: tuple[str, int], reader: LogReader) -> None:
        """Register a reader of a partition of the current topic."""
        reader.topic_id = self._topic_id_if_any(key[0])
        self._readers[key] = reader, reader.topic_id or self._settings.stamps.get(key[0])

    def close_deleted(self) -> None:
        """Close the readers of deleted partitions and of recreated topics.

        A topic whose id cannot be read keeps its readers until the next call.
        """
        if self._version == self._catalog.version:
            return
        self._version = self._catalog.version
        for key, (reader, known) in list(self._readers.items()):
            topic, partition = key
            exists = partition in self._catalog.topics.get(topic, ())
            try:
                is_deleted = not (exists and self.is_same(topic, known))
            except (CorruptFileError, StorageError):  # concerns no other topic
                self._version = -1
                continue
            if is_deleted:
                del self._readers[key]
                reader.mark_deleted()

    def _find(self, topic: str) -> TopicIdentity:
        return TopicIdentity(
            self._topic_id_if_any(topic),
            self._settings.stamps.get(topic),
            self._settings.is_created_here(topic),
        )

    def _topic_id_if_any(self, topic: str) -> str | None:
        if (own := self._settings.topic_id(topic)) is not None:
            return own
        for partition, log_dir in self._catalog.topics[topic].items():
            if log_dir.offline is None:
                directory = log_dir.join(partition_directory(topic, partition))
                try:
                    found = read_topic_id(log_dir.files, directory)
                except StorageError:
                    if log_dir.files.exists(directory):
                        raise
                    continue  # another process has moved it since the listing
                if found is not None or log_dir.files.exists(directory):
                    return found
        return None

    def stamp(self) -> None:
        """Give each topic without an id a creation stamp; drop those of deleted topics."""
        before = dict(self._settings.stamps)
        stamps = {
            topic: stamp
            for topic, stamp in before.items()
            if topic in self._catalog.topics or self._catalog.offline  # it may be in one of those
        }
        for topic, log_dirs in self._catalog.topics.items():
            if topic not in stamps and any(
                log_dir.offline is None for log_dir in log_dirs.values()
            ):
                try:
                    known = self._topic_id_if_any(topic)
                except CorruptFileError as error:
                    _LOGGER.warning("topic %s has no creation stamp: %s", topic, error)
                    continue
                if known is None:
                    stamps[topic] = random_uuid()
        if stamps != before or self._settings.are_stamps_behind:
            self._settings.set_stamps(stamps)
