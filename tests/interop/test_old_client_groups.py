"""Kafka's Java clients of 0.10.2, 1.1 and 2.0: a producer, and a group of two consumers."""

import subprocess
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient

from interop.kafka_jars import OLD_CLIENTS, compiled, java_command
from interop.kstore_node import KstoreNode, kstore_node

COUNT = 500
PARTITIONS = 2
LZ4, IDEMPOTENT, TRANSACTION = (
    "compression.type=lz4", "enable.idempotence=true", "transactional.id=once",
)  # fmt: skip
OLDEST, *YOUNGER = OLD_CLIENTS
WAYS = [(OLDEST, LZ4), *((version, TRANSACTION) for version in YOUNGER)]
MORE = [(version, way) for version in YOUNGER for way in (LZ4, IDEMPOTENT)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KstoreNode]:
    root = tmp_path_factory.mktemp("served")
    with kstore_node(root, group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.mark.parametrize(
    ("version", "way"),
    [*WAYS, *(pytest.param(*each, marks=pytest.mark.all_versions) for each in MORE)],
)
def test_a_group_of_two_reads_each_record_once(served: KstoreNode, version: str, way: str) -> None:
    topic = f"{version}-{way.partition('=')[0]}"
    admin = KafkaAdminClient(bootstrap_servers=served.address)
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.close()
    words = (served.address, topic, f"group of {topic}", COUNT, way)
    classes = compiled(version, "OldGroup")
    done = subprocess.run(
        java_command(version, "OldGroup", *words, classes=classes, level="warn"),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    records = [line[1:] for line in lines if line[0] == "record"]
    expected = sorted([str(n % PARTITIONS), f"v{n}"] for n in range(COUNT))
    assert sorted(record[1:] for record in records) == expected
    owners = {(member, partition) for member, partition, _ in records}
    assert sorted(member for member, _ in owners) == ["0", "1"]
    committed = {int(line[1]): int(line[2]) for line in lines if line[0] == "committed"}
    assert set(committed) == {0, 1}
    # The marker of a transaction has an offset, too, which a consumer may pass.
    ends = (COUNT // PARTITIONS, COUNT // PARTITIONS + (way == TRANSACTION))
    assert set(committed.values()) <= set(ends)
