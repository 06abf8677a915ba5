"""A node of a cluster that has partitions 1, 4 and 7 of a topic, some of them made by kstore."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

import kstore
from interop.handover_checks import refusals
from interop.node import Node, two_nodes
from kstore.checkpoint.partition_metadata import read_topic_id
from kstore.errors import InconsistentTopicIdError
from kstore.files.files import DISK
from kstore.handover import check_broker
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST
from support.stores import QUIET

HERE = (1, 4, 7)
OTHER_ID = "wl29c-eVQmCyOOzKBLyFwA"
PATIENCE = 60


@pytest.fixture(autouse=True)
def _closed_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def ends_of(node: Node) -> dict[int, int]:
    with KafkaSource(node.address, "t", patience=PATIENCE) as source:
        source.describe()
        return source.offsets(range(8), LATEST)


def append_to_each(node: Node) -> None:
    producer = KafkaProducer(bootstrap_servers=node.address)
    for number in range(8):
        producer.send("t", b"by Kafka", partition=number).get(PATIENCE)
    producer.close()


def folders(node: Node) -> list[str]:
    return sorted(path.name for path in node.log_dir.glob("t-*"))


def test_kafka_serves_the_partitions_that_kstore_made(kafka: str, tmp_path: Path) -> None:
    with two_nodes(kafka, tmp_path) as (first, second):
        assigned = {number: [1] if number in HERE else [2] for number in range(8)}
        admin = KafkaAdminClient(bootstrap_servers=first.address)
        admin.create_topics([NewTopic("t", replica_assignments=assigned)])
        admin.close()
        append_to_each(first)
        second.stop()
        first.stop()
        assert folders(first) == ["t-1", "t-4", "t-7"]
        topic_id = read_topic_id(DISK, first.log_dir / "t-1")
        assert topic_id is not None

        with kstore.open(first.log_dir, config=QUIET) as store:
            assert store["t"].partitions == HERE
            with pytest.raises(InconsistentTopicIdError):
                store.partition("t", 4, topic_id=OTHER_ID)
            for number in (4, 7):
                store.delete_partition("t", number, topic_id=topic_id, foreign=True)
            assert folders(first) == ["t-1"]
            for number in (4, 7):
                log = store.create_partition("t", number, topic_id=topic_id)
                log.extend([b"by kstore"] * number)
            assert store.verify().ok
        assert refusals(check_broker(first.log_dir)) == []

        first.start()
        second.start()
        assert ends_of(first) == dict.fromkeys(range(8), 1) | {4: 4, 7: 7}
        append_to_each(first)
        assert ends_of(second) == dict.fromkeys(range(8), 2) | {4: 5, 7: 8}
        second.stop()
        first.stop()

        assert folders(first) == ["t-1", "t-4", "t-7"]  # none is -stray
        assert {read_topic_id(DISK, first.log_dir / each) for each in folders(first)} == {topic_id}
        with kstore.open(first.log_dir, config=QUIET) as store:
            log = store.partition("t", 4, topic_id=topic_id)
            assert [record.value for record in log] == [b"by kstore"] * 4 + [b"by Kafka"]
            assert store.verify().ok
