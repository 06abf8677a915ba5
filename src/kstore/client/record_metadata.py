"""Where a delivered record is in its topic."""

from typing import TYPE_CHECKING, Any

from kstore.topic_partition import Position

if TYPE_CHECKING:
    from kstore.store.topic import Topic


class RecordMetadata(Position):
    """A delivered record's topic, partition, offset and timestamp, as Kafka's RecordMetadata.

    A :class:`kstore.Position`, and equal to the same partition and offset; a pickle of it is
    only that. Immutable; safe to share between threads.
    """

    _topic: "Topic"

    @property
    def topic(self) -> str:
        return self._topic.name

    @property
    def timestamp(self) -> int:
        """The record's timestamp in milliseconds; -1 where the offset is (``acks=0``).

        Reads the record, so that ``send`` need not keep it. Raises ClosedError once the store is
        closed, and OffsetOutOfRangeError once the record was deleted.
        """
        return -1 if self.offset < 0 else self._topic[self.partition][self.offset].timestamp

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, "
            f"offset={self.offset})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Position, (self.partition, self.offset)


def metadata_of(topic: "Topic", partition: int, offset: int) -> RecordMetadata:
    """The metadata of a record that was appended to a topic."""
    found = RecordMetadata(partition, offset)
    found._topic = topic
    return found
