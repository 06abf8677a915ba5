"""What the programs of the guide's pages leave behind: ten orders, copied exactly once."""

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

ORDERS = [f"order {number}".encode() for number in range(10)]
_SECONDS = 30


def are_copied(address: str, group: str = "copier") -> bool:
    """Each order exists, was copied once, and stands before the group's offset."""
    copied = _read(address, "orders") == ORDERS == _read(address, "paid")
    return copied and _committed(address, group) == len(ORDERS)


def _read(address: str, topic: str) -> list[bytes]:
    """The committed values of a topic's partitions; all records share a key."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "reader", "enable.partition.eof": True}
    )
    try:
        left = set(consumer.list_topics(topic, _SECONDS).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        found: list[bytes] = []
        while left:
            message = consumer.poll(_SECONDS)
            if message is None:
                break
            if message.error():
                left.discard(message.partition())
            else:
                found.append(message.value())
        return found
    finally:
        consumer.close()


def _committed(address: str, group: str) -> int:
    """The sum of a group's offsets in the topic of orders."""
    admin = AdminClient({"bootstrap.servers": address})
    [answer] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=True
    ).values()
    found = answer.result(_SECONDS).topic_partitions
    return sum(max(each.offset, 0) for each in found if each.topic == "orders")
