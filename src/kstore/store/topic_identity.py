"""What tells a topic from a later one of the same name: its id, or a creation stamp."""

import logging
from dataclasses import dataclass

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.checkpoint.identity import random_uuid, read_topic_id
from kstore.errors import CorruptFileError
from kstore.files.filenames import partition_directory
from kstore.log.reader import LogReader
from kstore.store.topic_registry import TopicRegistry

_LOGGER = logging.getLogger("kstore")


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """What a topic was known by when this was made: immutable, and can be pickled."""

    topic_id: str | None = None  # Kafka's
    stamp: str | None = None  # the creation stamp that a topic without an id has, or once had
    has_id_from_entry: bool = False  # the entry in kstore.topics has the id

    @property
    def text(self) -> str | None:
        """The topic id, else the creation stamp; None for a topic with neither."""
        return self.topic_id or self.stamp

    def is_same(self, known: str | None) -> bool:
        """Whether this topic is the one whose identity was ``known`` once, None for neither.

        A broker that is upgraded assigns an id to a topic that had none.
        """
        if known is None:
            return self.stamp is not None or not self.has_id_from_entry
        return known in (self.stamp, self.topic_id)


class TopicIdentities:
    """The identities of a catalog's topics, and the readers that are open in each.

    Thread safe by the store's lock.
    """

    def __init__(self, catalog: TopicRegistry, lock: ReentrantLock) -> None:
        self._catalog = catalog
        self._settings = catalog.settings
        self._lock = lock
        self._version = -1  # the catalog's when the readers were looked at
        self._readers: dict[tuple[str, int], tuple[LogReader, str | None]] = {}

    def identity_of(self, topic: str) -> str | None:
        """What tells a topic from a later one of its name: its id, else its creation stamp.

        None where it has neither: Kafka before 2.8 made it, and no kstore has written here since.
        """
        with self._lock:
            if topic not in self._catalog.places:
                raise self._catalog.unknown(topic)
            return self._find(topic).text

    def find(self, topic: str) -> TopicIdentity:
        """All that a topic is known by now; UnknownTopicOrPartitionError if it does not exist."""
        with self._lock:
            if topic not in self._catalog.places:
                raise self._catalog.unknown(topic)
            return self._find(topic)

    def topic_id_of(self, topic: str) -> str | None:
        """Kafka's id of a topic."""
        with self._lock:
            return self._catalog.topic_id(topic)

    def is_same(self, topic: str, known: str | None) -> bool:
        """Whether a topic is the one that had this identity once; False if it does not exist."""
        with self._lock:
            return topic in self._catalog.places and self._find(topic).is_same(known)

    def add_reader(self, key: tuple[str, int], reader: LogReader) -> None:
        """A reader of a partition of a topic as it is now."""
        reader.topic_id = self._topic_id_if_any(key[0])
        self._readers[key] = reader, reader.topic_id or self._settings.stamps.get(key[0])

    def end_readers(self) -> None:
        """End the readers of partitions that are gone, or of a topic that was made again."""
        if self._version == self._catalog.version:
            return
        self._version = self._catalog.version
        for key, (reader, known) in list(self._readers.items()):
            topic, partition = key
            is_here = partition in self._catalog.places.get(topic, ())
            if not (is_here and self.is_same(topic, known)):
                del self._readers[key]
                reader.end()

    def _find(self, topic: str) -> TopicIdentity:
        return TopicIdentity(
            self._topic_id_if_any(topic),
            self._settings.stamps.get(topic),
            self._settings.topic_id(topic) is not None,
        )

    def _topic_id_if_any(self, topic: str) -> str | None:
        if (own := self._settings.topic_id(topic)) is not None:
            return own
        for partition, place in self._catalog.places[topic].items():
            if place.offline is None:
                directory = place.join(partition_directory(topic, partition))
                return read_topic_id(place.files, directory)
        return None

    def stamp(self) -> None:
        """Give each topic without an id a creation stamp; drop those of topics that are gone."""
        before = dict(self._settings.stamps)
        stamps = {
            topic: stamp
            for topic, stamp in before.items()
            if topic in self._catalog.places or self._catalog.offline  # in one of those it may be
        }
        for topic, places in self._catalog.places.items():
            if topic not in stamps and any(each.offline is None for each in places.values()):
                try:
                    known = self._topic_id_if_any(topic)
                except CorruptFileError as error:
                    _LOGGER.warning("topic %s has no creation stamp: %s", topic, error)
                    continue
                if known is None:
                    stamps[topic] = random_uuid()
        if stamps != before:
            self._settings.set_stamps(stamps)
