"""A real Kafka broker, with Kafka's own defaults for its JVM, over segments that kstore wrote."""

import os
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter, sleep

from peers.kafka import VERSION, prepare  # and with it the way to tests/interop

# isort: split

from interop.kafka_jars import CONNECTOR, CONNECTOR_SPARK
from interop.node import Node

PATIENCE = 120.0  # seconds
# What kafka-server-start.sh gives the JVM, beside its heap.
SERVER = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


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
def holding(store: Path, topic: str, partitions: int, root: Path) -> Iterator[Node]:
    """A running broker whose topic has the segments of a closed store as hard links.

    The broker builds its own indexes: it recovers the partitions when it starts.
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
        yield node


class Served:
    """A stopped broker that can be started over a cleanly closed log dir and asked for its offsets.

    Other programs may use the directory while it is stopped.
    """

    def __init__(self, node: Node, topic: str, partitions: int) -> None:
        self.log_dir = node.log_dir
        self._node, self._topic, self._partitions = node, topic, partitions

    def serve(self, heap: str) -> dict[str, float | int | str]:
        """Start, ask for every end offset until all are known, stop: see ``KafkaBroker``."""
        self._node.jvm = (f"-Xms{heap}", f"-Xmx{heap}", *SERVER)
        started = perf_counter()
        self._node.launch()
        self._node.wait_for_port(pause=0.005)
        port = perf_counter() - started
        try:
            ends = self._ends()
            seconds = perf_counter() - started
            memory = most_memory(self._node.pid)
            self._node.wait_until_started()
        finally:
            self._node.stop()
        return {
            "seconds": seconds,
            "port": port,
            "memory": memory,
            "partitions": len(ends),
            "end_offsets": sum(ends),
        }

    def _ends(self) -> list[int]:
        """Wait until every partition has a leader that returns its end offset."""
        host, port = self._node.address.split(":")
        until = monotonic() + PATIENCE
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            while monotonic() < until:
                errors, ends = end_offsets(connection, self._topic, self._partitions)
                if not any(errors):
                    return ends
                sleep(0.005)
        raise AssertionError(f"the broker does not return its end offsets: {self._node.said()}")


def end_offsets(
    connection: socket.socket, topic: str, partitions: int
) -> tuple[list[int], list[int]]:
    """Each partition's error and end offset, by one ListOffsets request (version 1)."""
    name = struct.pack(f">h{len(topic)}s", len(topic), topic.encode())
    asked = struct.pack(">hhih", 2, 1, 1, -1) + struct.pack(">ii", -1, 1) + name
    asked += struct.pack(">i", partitions)
    asked += b"".join(struct.pack(">iq", number, -1) for number in range(partitions))
    connection.sendall(struct.pack(">i", len(asked)) + asked)
    with connection.makefile("rb") as stream:
        answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    start = 4 + 4 + len(name) + 4
    rows = list(struct.iter_unpack(">ihqq", answer[start:]))
    if len(rows) != partitions:
        raise AssertionError(f"{len(rows)} of {partitions} partitions were answered for")
    return [row[1] for row in rows], [row[3] for row in rows]


def most_memory(pid: int) -> float:
    """The peak memory of a running process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/{pid}/status does not say VmHWM")


@contextmanager
def served(store: Path, topic: str, partitions: int, root: Path) -> Iterator[Served]:
    """A stopped broker; its directory has kstore's segments and Kafka's indexes."""
    with holding(store, topic, partitions, root) as node:
        node.stop()
        yield Served(node, topic, partitions)


@contextmanager
def broker(store: Path, topic: str, partitions: int, root: Path) -> Iterator[str]:
    """The address of a broker that serves a topic of a closed store; root is on its file system.

    The segments are the same files, so that both are read from the same pages. The broker builds
    its own indexes: it recovers the partitions when it starts.
    """
    with holding(store, topic, partitions, root) as node:
        yield node.address
