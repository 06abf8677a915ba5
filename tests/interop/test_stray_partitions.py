"""Directories that a broker serves only in part, or not at all: what it does, and our word before.

Each case is read first, then given to a real broker as it is.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

import kstore
from interop.assignment import wait_until, wait_until_assigned
from interop.handover_checks import end_of, refusals
from interop.node import Node
from kstore.checkpoint.partition_metadata import format_topic_id
from kstore.errors import SourceError
from kstore.handover import check_broker, plan_handover
from kstore.kafka_uuid import random_uuid
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST
from support.stores import QUIET

TOPICS = ("kept", "moved", "other", "lost")


@pytest.fixture(scope="module")
def node(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    broker = Node(kafka, tmp_path_factory.mktemp("strays"), dirs=2)
    try:
        broker.start()
        admin = KafkaAdminClient(bootstrap_servers=broker.address)
        one = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics(dict.fromkeys(TOPICS, one))
        admin.close()
        with KafkaSource(broker.address, "moved") as source:
            source.describe()
            source.offsets([0], LATEST)
        broker.stop()
        with kstore.open(broker.log_dirs, config=QUIET) as store:
            store["moved"][0].extend([b"v"] * 5)
        yield broker
    finally:
        broker.kill()


def is_served(node: Node, topic: str) -> bool:
    with KafkaSource(node.address, topic, patience=2) as source:
        try:
            source.describe()
            source.offsets([0], LATEST)
        except SourceError:
            return False
    return True


def refused(node: Node) -> list[str]:
    return refusals(check_broker(node.log_dirs))


def folder(node: Node, name: str) -> Path:
    return next(log_dir / name for log_dir in node.log_dirs if (log_dir / name).exists())


def test_ids_that_the_cluster_does_not_know(node: Node, tmp_path: Path) -> None:
    own = tmp_path / "own"
    with kstore.open(own, config=QUIET) as store:
        for topic in ("other", "unknown"):
            store.create_topic(topic).append(b"v")
    assert refused(node) == []
    other = folder(node, "other-0") / "partition.metadata"
    other.write_bytes(format_topic_id(random_uuid()))  # complete, and of no partition
    shutil.copytree(own / "unknown-0", node.log_dirs[1] / "unknown-0")
    beyond = node.log_dirs[0] / "kept-5"  # the topic has one partition
    shutil.copytree(folder(node, "kept-0"), beyond)
    moved = folder(node, "moved-0")
    (away,) = (log_dir for log_dir in node.log_dirs if log_dir != moved.parent)
    moved.rename(away / "moved-0")
    lost = (folder(node, "lost-0") / "partition.metadata").read_text().rpartition(" ")[2]
    shutil.rmtree(folder(node, "lost-0"))

    messages = refused(node)
    assert len(messages) == 3, messages
    assert all("-stray" in each for each in messages)
    for name, reason in (
        ("kept-5", "has only 1 partition, no 5"),
        ("other-0", "the cluster's topic 'other' has the id"),
        ("unknown-0", "the cluster has no topic 'unknown'"),
    ):
        assert any(name in each and reason in each for each in messages), name
    plan = plan_handover(own, node.log_dirs)
    assert sum(each.level == "refused" and "-stray" in each.sentence for each in plan.findings) == 2
    notes = [
        each.sentence
        for each in check_broker(node.log_dirs).findings
        if "serves it here" in each[2]
    ]
    assert len(notes) == 1  # the one that was moved: no reason to refuse
    with kstore.open(tmp_path / "more", config=QUIET) as store:
        store.create_topic("lost").append(b"v")
    plan = plan_handover(tmp_path / "more", node.log_dirs)
    assert any(f"--topic-id lost={lost}" in each.sentence for each in plan.findings)

    node.start()
    assert end_of(node, "moved") == 5
    node.stop()
    strays = {path.name.split(".")[0] for d in node.log_dirs for path in d.glob("*-stray")}
    assert strays == {"kept-5", "other-0", "unknown-0"}
    assert (away / "moved-0").is_dir()
    assert (folder(node, "lost-0") / "partition.metadata").read_text().endswith(lost)
    assert refused(node) == []


def test_files_that_do_not_parse(node: Node) -> None:
    """The broker takes a directory offline: what is in it is not served."""
    log_dir = node.log_dirs[1]
    if folder(node, "moved-0").parent != log_dir:
        folder(node, "moved-0").rename(log_dir / "moved-0")
    node.start()
    wait_until_assigned(node, "moved", log_dir)
    node.stop()
    for path, message in (
        (log_dir / "recovery-point-offset-checkpoint", "Error while reading checkpoint file"),
        (log_dir / "moved-0" / "partition.metadata", "Error while reading partition metadata file"),
    ):
        data = path.read_bytes()
        path.write_text("0\nxx\n")
        assert [each for each in refused(node) if str(path.parent) in each and "offline" in each]
        node.start()
        wait_until(lambda: not is_served(node, "moved"), "the directory is offline")
        node.stop()
        assert any(message in line and str(path) in line for line in node.lines())
        path.write_bytes(data)
        (log_dir / ".kafka_cleanshutdown").write_bytes(
            (node.log_dirs[0] / ".kafka_cleanshutdown").read_bytes()
        )
    assert refused(node) == []
    node.start()
    assert end_of(node, "moved") == 5
    node.stop()


def test_directories_with_which_it_does_not_start(node: Node) -> None:
    moved = folder(node, "moved-0")
    (away,) = (log_dir for log_dir in node.log_dirs if log_dir != moved.parent)
    shutil.copytree(moved, away / "moved-0")
    assert any("the same partition is in" in each for each in refused(node))
    assert "Duplicate log directories" in not_started(node)
    shutil.rmtree(away / "moved-0")

    meta = node.log_dirs[1] / "meta.properties"
    text = meta.read_text()
    meta.write_text(
        "".join(
            f"cluster.id={random_uuid()}\n" if line.startswith("cluster.id") else line + "\n"
            for line in text.splitlines()
        )
    )
    assert any("a broker takes only its own" in each for each in refused(node))
    assert "Invalid cluster.id" in not_started(node)
    meta.write_text(text)


def not_started(node: Node) -> str:
    with pytest.raises(AssertionError, match="did not start"):
        node.start()
    return "\n".join(node.lines())
