"""A broker of kstore shortens no topic that a Kafka broker left, however old its records are.

The clock is not changed: a client gave the records their timestamps.
"""

import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

import kstore
from interop.node import Node, node
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import EARLIEST, LATEST

TEN_YEARS_MS = 3_653 * 86_400_000
COUNT = 40
VALUE = b"v" * 100_000  # ten of them are a segment
CONFIG = {"segment.bytes": "1048576", "retention.ms": "-1"}
OTHER = {"max.message.bytes": "5000000"}
TOPICS = ["altered", "altered-at-once", "untouched"]
PATIENCE = 60


def write_old_records(kafka: Node) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.address)
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=CONFIG) for name in TOPICS])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka.address, max_request_size=1 << 21)
    then = int(time.time() * 1000) - TEN_YEARS_MS
    for number in range(COUNT):
        for name in TOPICS:
            producer.send(name, VALUE, timestamp_ms=then + number, partition=0).get(PATIENCE)
    producer.close()


def alter_another_key(address: str, topic: str, *, incremental: bool) -> None:
    admin = KafkaAdminClient(bootstrap_servers=address)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(OTHER))
    admin.alter_configs([resource], incremental=incremental)
    admin.close()


def start_of_new_topic(broker: kstore.Broker) -> int:
    """The log start, after retention, of a topic of the broker with one such record."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic("new", 1, 1)])
    log = broker.store["new"][0]
    log.append(VALUE, timestamp=int(time.time() * 1000) - TEN_YEARS_MS)
    broker.store.apply_retention()
    start = log.start_offset
    admin.delete_topics(["new"])
    admin.close()
    return start


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_records_of_ten_years_ago(kafka: str, tmp_path: Path) -> None:
    with node(kafka, tmp_path) as real:
        write_old_records(real)
        real.stop()
        segments = {name: len(list(real.log_dir.glob(f"{name}-0/*.log"))) for name in TOPICS}
        assert min(segments.values()) >= 4

        for _ in range(2):
            with kstore.serve(real.log_dir, port=0) as broker:
                address = broker.bootstrap_servers
                alter_another_key(address, "altered", incremental=True)
                alter_another_key(address, "altered-at-once", incremental=False)
                assert start_of_new_topic(broker) == 1  # without which the rest says nothing
                for name in TOPICS:
                    broker.store[name][0].apply_retention()
                broker.store.compact()
                found = {name: broker.store[name][0].start_offset for name in TOPICS}
                assert found == dict.fromkeys(TOPICS, 0)

        real.start()
        for name in TOPICS:
            with KafkaSource(real.address, name, patience=PATIENCE) as source:
                source.describe()
                assert source.offsets([0], EARLIEST) == {0: 0}
                assert source.offsets([0], LATEST) == {0: COUNT}
