"""kafka-python or librdkafka, which speaks as to an old broker; a process for each.

Words: the client, the version of the broker, its address, the topic.
"""

import sys

COUNT = 6


def kafka_python(version: str, address: str, topic: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    known = {"bootstrap_servers": address, "api_version": tuple(map(int, version.split(".")))}
    producer = KafkaProducer(**known, acks="all")
    for n in range(COUNT):
        producer.send(topic, b"value %d" % n, b"key", partition=0).get(30)
    producer.close()
    consumer = KafkaConsumer(
        **known, group_id=f"group-{topic}", enable_auto_commit=False, fetch_max_wait_ms=100,
        auto_offset_reset="earliest",
    )  # fmt: skip
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    found = 0
    while found < COUNT:
        found += sum(map(len, consumer.poll(timeout_ms=1000).values()))
    consumer.commit()
    assert consumer.committed(partition) == COUNT
    consumer.close()


def librdkafka(version: str, address: str, topic: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    known = {
        "bootstrap.servers": address,
        "api.version.request": False,
        "broker.version.fallback": version,
    }
    producer = Producer({**known, "linger.ms": 0})
    for n in range(COUNT):
        producer.produce(topic, b"value %d" % n, b"key", partition=0)
        assert producer.flush(30) == 0
    consumer = Consumer({
        **known, "group.id": f"group-{topic}", "enable.auto.commit": False,
        "fetch.wait.max.ms": 100, "auto.offset.reset": "earliest",
    })  # fmt: skip
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    found = 0
    while found < COUNT:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message
        found += 1
    consumer.commit(asynchronous=False)
    (committed,) = consumer.committed([partition], 30)
    assert committed.offset == COUNT, committed
    consumer.close()


if __name__ == "__main__":
    {"kafka-python": kafka_python, "librdkafka": librdkafka}[sys.argv[1]](*sys.argv[2:])
