"""Checks the arguments with which topics and partitions are created."""

from kstore.errors import InvalidConfigError, InvalidPartitionsError
from kstore.integers import check_integer, show_value
from kstore.kafka_uuid import is_reserved_uuid

MAX_PARTITIONS = 1_000_000


def check_partitions(partitions: object) -> int:
    """Check a topic's number of partitions; raises InvalidPartitionsError."""
    try:
        return check_integer("partitions", partitions, 1, MAX_PARTITIONS)
    except (TypeError, InvalidConfigError):
        raise InvalidPartitionsError(
            f"a topic has 1 to {MAX_PARTITIONS} partitions, not {show_value(partitions)}: a "
            "number, len(topic) for as many as another topic has"
        ) from None


def check_partition(partition: object) -> int:
    """Check the number of a partition to create; raises InvalidPartitionsError."""
    try:
        return check_integer("partition", partition, 0, MAX_PARTITIONS - 1)
    except (TypeError, InvalidConfigError):
        raise InvalidPartitionsError(
            f"a partition's number is 0 to {MAX_PARTITIONS - 1}, not {show_value(partition)}"
        ) from None


def check_topic_id(topic_id: str) -> None:
    """Check Kafka's id of a topic; raises InvalidConfigError."""
    if not isinstance(topic_id, str):
        raise InvalidConfigError(f"a topic id is text, not {type(topic_id).__name__}")
    try:
        reserved = is_reserved_uuid(topic_id)
    except ValueError as error:
        raise InvalidConfigError(str(error)) from None
    if reserved:
        raise InvalidConfigError(f"the topic id {topic_id} is reserved by Kafka")
