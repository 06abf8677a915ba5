"""What Kafka's internal topics have in common: few of their many partitions are in use."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kstore.files.filenames import partition_directory
from kstore.recovery.loader import is_empty
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.store.store import Store


def filled_partitions(store: "Store", topic: str) -> Iterator[TopicPartition]:
    """The partitions of a topic that have bytes, without opening any.

    Damaged ones are among them: whoever reads them gets the error. Those in a directory that is
    offline are left out.
    """
    with store._lock:
        places = sorted(store._catalog.places.get(topic, {}).items())
    for partition, place in places:
        path = place.join(partition_directory(topic, partition))
        if place.offline is None and not is_empty(place.files, path):
            yield TopicPartition(topic, partition)
