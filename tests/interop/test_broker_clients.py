"""Python's Kafka clients against a served directory: assigned partitions, every codec, admin.

With all versions the same tests run against Kafka 3.9.2, which proves them.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import TopicPartition as RdkafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from interop.client_records import READERS, SENDERS, Sent
from interop.kafka_jars import libs
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from kstore.config import CODECS

PARTITIONS = 3
T0 = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}


@pytest.fixture(
    scope="module", params=["kstore", pytest.param("3.9.2", marks=pytest.mark.all_versions)]
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KstoreNode | Node]:
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        yield broker


@contextlib.contextmanager
def admin_of(served: KstoreNode | Node) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=served.address)
    try:
        yield admin
    finally:
        admin.close()


def create(served: KstoreNode | Node, topic: str, partitions: int = 1, **config: str) -> None:
    settings = KEPT | {name.replace("_", "."): value for name, value in config.items()}
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": settings}
    with admin_of(served) as admin:
        admin.create_topics({topic: options}, wait_for_metadata=True)


def sample(first: int, count: int, codec: str) -> list[Sent]:
    """Keys and values of every kind, a header or two, one millisecond after another."""
    found = []
    for n in range(first, first + count):
        key = (None, b"", b"key-%d" % n)[n % 3]
        value = (b"value-%d" % n, b"", b"v" * (n % 700))[n % 4 % 3]
        headers = (("codec", codec.encode()), ("n", b"%d" % n))[: n % 3]
        found.append(Sent(n % PARTITIONS, T0 + n, key, value, headers))
    return found


@pytest.mark.parametrize("sender", SENDERS)
def test_every_consumer_reads_every_producer(served: KstoreNode | Node, sender: str) -> None:
    topic = f"exchange-{sender}"
    create(served, topic, PARTITIONS)
    sent: list[Sent] = []
    for codec in CODECS:
        records = sample(len(sent), 120, codec)
        SENDERS[sender](served.address, topic, codec, records)
        sent += records
    expected = {
        partition: list(enumerate(each for each in sent if each.partition == partition))
        for partition in range(PARTITIONS)
    }
    for reader, read in READERS.items():
        for isolation in ("read_uncommitted", "read_committed"):
            found = read(served.address, topic, PARTITIONS, len(sent), isolation)
            assert found == expected, (reader, isolation)


def test_offsets_by_time(served: KstoreNode | Node) -> None:
    create(served, "timed")
    records = [Sent(0, T0 + 10 * n, None, b"%d" % n) for n in range(50)]
    SENDERS["librdkafka"](served.address, "timed", "none", records)
    asked = {T0: 0, T0 + 1: 1, T0 + 245: 25, T0 + 490: 49}
    consumer = KafkaConsumer(bootstrap_servers=served.address)
    partition = TopicPartition("timed", 0)
    for time, offset in asked.items():
        answer = consumer.offsets_for_times({partition: time})[partition]
        assert (answer.offset, answer.timestamp) == (offset, T0 + 10 * offset)
    assert consumer.offsets_for_times({partition: T0 + 491})[partition] is None
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 50}
    consumer.close()
    assert asyncio.run(_aiokafka_times(served.address, asked)) == list(asked.values())
    rdkafka = RdkafkaConsumer({"bootstrap.servers": served.address, "group.id": "unused"})
    for time, offset in asked.items():
        answers = rdkafka.offsets_for_times([RdkafkaPartition("timed", 0, time)], timeout=30)
        assert answers[0].offset == offset
    assert rdkafka.get_watermark_offsets(RdkafkaPartition("timed", 0), timeout=30) == (0, 50)
    rdkafka.close()


async def _aiokafka_times(address: str, times: dict[int, int]) -> list[int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=address)
    await consumer.start()
    try:
        partition = AioPartition("timed", 0)
        found = []
        for time in times:
            found.append((await consumer.offsets_for_times({partition: time}))[partition].offset)
            consumer.assign([partition])
            consumer.seek(partition, found[-1])
            assert (await consumer.getone()).offset == found[-1]
        return found
    finally:
        await consumer.stop()


def test_kafka_python_admin(served: KstoreNode | Node) -> None:
    create(served, "administered", 1, cleanup_policy="delete")
    with admin_of(served) as admin:
        described = admin.describe_topics(["administered"])[0]
        assert [each["partition_index"] for each in described["partitions"]] == [0]
        admin.create_partitions({"administered": 3})
        SENDERS["kafka-python"](served.address, "administered", "none", sample(0, 30, ""))
        partition = TopicPartition("administered", 1)
        admin.delete_records({partition: 4})
        admin.delete_topics(["administered"])
        assert "administered" not in admin.list_topics()


def test_rdkafka_admin(served: KstoreNode | Node) -> None:
    admin = AdminClient({"bootstrap.servers": served.address})
    topic = NewTopic("by-rdkafka", 1, 1, config={"retention.ms": "-1"})
    admin.create_topics([topic], operation_timeout=30)["by-rdkafka"].result(30)
    with pytest.raises(Exception, match=r"already exists|TOPIC_ALREADY_EXISTS"):
        admin.create_topics([topic])["by-rdkafka"].result(30)
    admin.create_partitions([NewPartitions("by-rdkafka", 4)])["by-rdkafka"].result(30)
    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", "by-rdkafka", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    resource = ConfigResource("topic", "by-rdkafka")
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["retention.ms"].value == "123456"
    assert not described["retention.ms"].is_default
    assert described["cleanup.policy"].value == "delete"
    SENDERS["librdkafka"](served.address, "by-rdkafka", "none", sample(0, 40, ""))
    future = admin.delete_records([RdkafkaPartition("by-rdkafka", 0, 5)])
    assert next(iter(future.values())).result(30).low_watermark == 5
    cluster = admin.describe_cluster().result(30)
    assert len(cluster.nodes) == 1
    assert len(admin.list_topics("by-rdkafka").topics["by-rdkafka"].partitions) == 4
    admin.delete_topics(["by-rdkafka"], operation_timeout=30)["by-rdkafka"].result(30)


def test_aiokafka_admin(served: KstoreNode | Node) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=served.address)
        await admin.start()
        try:
            await admin.create_topics([AioTopic("by-aiokafka", 2, 1)])
            described = await admin.describe_topics(["by-aiokafka"])
            assert len(described[0]["partitions"]) == 2
            assert "by-aiokafka" in await admin.list_topics()
            await admin.delete_topics(["by-aiokafka"])
        finally:
            await admin.close()

    asyncio.run(run())


def test_kafka_opens_what_clients_wrote(tmp_path: Path) -> None:
    """A directory of Kafka 3.9.2, served by kstore for a while, and by Kafka again."""
    libs("3.9.2")
    kafka = Node("3.9.2", tmp_path)
    try:
        kafka.start()
        kafka.create_topic("handed", PARTITIONS)
        kafka.produce("handed", [(f"k{n}", f"before {n}") for n in range(30)])
        ends = kafka.end_offsets("handed")
        kafka.stop()
        serving = KstoreNode(tmp_path / "kstore", log_dir=kafka.log_dir)
        serving.start()
        sent: list[Sent] = []
        for codec, sender in zip(CODECS, [*SENDERS, *SENDERS], strict=False):
            records = [
                Sent(n % PARTITIONS, T0 + n, b"key", b"%s %d" % (codec.encode(), n))
                for n in range(60)
            ]
            SENDERS[sender](serving.address, "handed", codec, records)
            sent += records
        serving.stop()
        kafka.start()
        found = kafka.consume("handed", len(sent) + 30)
        assert len(found) == len(sent) + 30
        for partition in range(PARTITIONS):
            values = [each.value for each in found if each.partition == partition]
            expected = [each.value.decode() for each in sent if each.partition == partition]
            assert values[ends[partition] :] == expected
        kafka.produce("handed", [("k", "after")])
        assert sum(kafka.end_offsets("handed").values()) == len(sent) + 31
    finally:
        kafka.kill()
