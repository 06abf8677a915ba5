"""kstore keeps meta.properties, and restores the clean-shutdown marker when it closes.

A broker that starts afterwards trusts the marker: it skips the recovery.
"""

import json
from pathlib import Path

from kafka import KafkaAdminClient

import kstore
from interop.node import Node
from interop.old_node import OldNode
from interop.test_handover import end_when_known, mirror_end
from kstore.files.filenames import CLEAN_SHUTDOWN, META_PROPERTIES

OPENING = "warn,kafka.log=info,org.apache.kafka.storage.internals.log=info"


def work_in(log_dir: Path) -> int:
    """kstore appends and closes; both files are as they were. Returns the log's end."""
    marker, meta = log_dir / CLEAN_SHUTDOWN, log_dir / META_PROPERTIES
    left = marker.read_bytes(), meta.read_bytes()
    with kstore.open(log_dir) as store:
        log = store["t"][0]
        assert not marker.exists()
        log.extend([b"value-%d" % number for number in range(100)])
        end = log.end_offset
    assert (marker.read_bytes(), meta.read_bytes()) == left
    return end


def assert_trusted(lines: list[str], log_dir: Path) -> None:
    """The broker took the marker's word."""
    said = "\n".join(line for line in lines if "__cluster_metadata" not in line)
    assert "Skipping recovery of " in said
    assert f"from {log_dir} since clean shutdown file was found" in said
    assert "Recovering unflushed segment" not in said
    assert "no clean shutdown file was found" not in said


def test_kraft(kafka: str, tmp_path: Path) -> None:
    broker = Node(kafka, tmp_path)
    try:
        broker.start()
        broker.create_topic("t")
        broker.stop()
        marker = json.loads((broker.log_dir / CLEAN_SHUTDOWN).read_text())
        assert int(marker["brokerEpoch"]) >= 0
        end = work_in(broker.log_dir)
        broker.level = OPENING
        broker.start()
        assert broker.end_offsets("t") == {0: end}
        broker.stop()
        assert_trusted(broker.lines(), broker.log_dir)
    finally:
        broker.kill()


def test_zookeeper(tmp_path: Path) -> None:
    broker = OldNode("3.9.2", tmp_path)
    try:
        broker.start()
        admin = KafkaAdminClient(bootstrap_servers=broker.address)
        admin.create_topics({"t": {"num_partitions": 1, "replication_factor": 1}})
        admin.close()
        assert mirror_end(broker.address, "t") == (0, 0)
        broker.stop()
        end = work_in(broker.log_dir)
        broker.level = OPENING
        broker.start()
        assert end_when_known(broker.address, "t") == (0, end)
        broker.stop()
        assert_trusted(broker.lines(), broker.log_dir)
    finally:
        broker.close()
