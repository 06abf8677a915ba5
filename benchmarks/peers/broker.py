"""A real Kafka broker, with Kafka's own defaults for its JVM, over segments that kstore wrote."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers.kafka import VERSION, prepare  # and with it the way to tests/interop

# isort: split

from interop.kafka_jars import CONNECTOR, CONNECTOR_SPARK
from interop.node import Node


def connector_jars(spark_version: str) -> tuple[list[Path], str]:
    """The jars of Spark's Kafka connector; none, and why, where it cannot be compared with."""
    if not spark_version.startswith(CONNECTOR_SPARK):
        return [], f"it is of Spark {CONNECTOR_SPARK}x, this is {spark_version}"
    directory, missing = prepare(CONNECTOR)
    missing = missing or prepare(VERSION)[1]
    return ([], missing) if missing else (sorted(directory.glob("*.jar")), "")


@contextmanager
def running(root: Path) -> Iterator[Node]:
    """A broker without topics; root is made for it and removed."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    node = Node(VERSION, root)
    node.jvm = ("-Xms1g", "-Xmx1g")  # as kafka-server-start.sh has it
    try:
        node.start()
        yield node
    finally:
        node.kill()
        shutil.rmtree(root)


@contextmanager
def broker(store: Path, topic: str, partitions: int, root: Path) -> Iterator[str]:
    """The address of a broker that serves a topic of a closed store; root is on its file system.

    The segments are the same files, so both are read from the same pages. Indexes are the
    broker's own: it recovers the partitions when it starts.
    """
    with running(root) as node:
        node.create_topic(topic, partitions)
        node.stop()
        for number in range(partitions):
            name = f"{topic}-{number}"
            for path in (node.log_dir / name).glob("*.log"):
                path.unlink()
            for path in (store / name).glob("*.log"):
                os.link(path, node.log_dir / name / path.name)
        (node.log_dir / ".kafka_cleanshutdown").unlink()
        node.start()
        yield node.address
