"""The partitions that ``kstore.topics`` has and no directory of a store has.

Of some topics nothing is left: a directory was not given, the folders are lost, or Kafka deleted
the topic while it had the directory. These cannot be distinguished, so such a topic is neither
listed nor created again before someone deletes it. Kafka's internal topics are created when they
are needed: moving a damaged folder of theirs away is how to continue without it.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstore.checkpoint.topics_file import LIVE
from kstore.errors import CorruptFileError
from kstore.files.filenames import INTERNAL_TOPICS, TOPICS_FILE, partition_directory

if TYPE_CHECKING:
    from kstore.store.topic_registry import TopicRegistry

_NAMES = 10  # partitions that one message names
_LOGGER = logging.getLogger("kstore")


class LostPartitions:
    """Finds and reports them. Not thread-safe: used under the store's lock."""

    def __init__(self, registry: "TopicRegistry") -> None:
        self._registry = registry
        self._known: set[str] = set()  # topics of which a warning was logged

    def of(self, topic: str) -> list[int]:
        """None while the topic is created or deleted, or a directory is offline.

        None of a topic without folders whose entry is damaged. Raises CorruptFileError for another.
        """
        try:
            entry = self._registry.settings.get(topic)
        except CorruptFileError:
            if topic in self._registry.topics:
                raise
            return []
        if entry is None or entry.state != LIVE or self._registry.offline:
            return []
        return self._registry.absent_partitions(topic)

    def topics(self) -> list[str]:
        """The topics of which nothing but the entry is left."""
        return [name for name in self._registry.settings.names() if self.is_lost(name)]

    def is_lost(self, topic: str) -> bool:
        """Whether nothing but the entry is left of a topic that is not internal."""
        is_listed = topic in self._registry.topics or topic in INTERNAL_TOPICS
        return not is_listed and bool(self.of(topic))

    def sentence(self, topic: str) -> str:
        """What is known of them, and what to do; empty if there are none."""
        lost = self.of(topic)
        return _sentence(topic, lost, topic in self._registry.topics) if lost else ""

    def warn(self) -> None:
        """Warn of them, once: a read of the topic lacks their records."""
        known, self._known = self._known, set()
        registry = self._registry
        for topic in registry.settings.names():
            try:
                lost = self.of(topic)
            except CorruptFileError:  # a use of the topic reports it
                continue
            # Others were created since the listing.
            lost = [n for n in lost if not registry.exists(partition_directory(topic, n))]
            if lost:
                self._known.add(topic)
                if topic not in known:
                    remains = topic in registry.topics
                    effect = ": reads of the topic lack its records" if remains else ""
                    _LOGGER.warning("%s%s", _sentence(topic, lost, remains), effect)


def _sentence(topic: str, lost: Sequence[int], remains: bool) -> str:
    names = ", ".join(partition_directory(topic, each) for each in lost[:_NAMES])
    more = f" and {len(lost) - _NAMES} more" if len(lost) > _NAMES else ""
    found = f"{TOPICS_FILE} has {names}{more}, but no such folder exists: lost, "
    if remains:
        return found + "or in a log directory that was not given"
    return (
        f"{found}in a log directory that was not given, or deleted by another program. Open the "
        "store with all its directories or restore the folders; to give them up, delete the topic"
    )
