"""Kafka's own producers and consumers in one Java process, which does what each line asks.

The commands are listed at the head of java/Clients.java.
"""

import base64
import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from interop.compare_with_kafka import Judged, partition_of
from interop.kafka_jars import ToolError, compiled, java_command
from interop.node import Node
from interop.old_node import OldNode

Headers = tuple[tuple[str, bytes | None], ...]


class Clients:
    """Speaks to one broker at a time; `use` names it. Close it, or let `clients` do so."""

    def __init__(self, version: str, root: Path) -> None:
        self.version = version
        self._root = root
        self._said = (root / "clients.log").open("wb")
        self._process = subprocess.Popen(
            java_command(version, "Clients", classes=compiled(version, "Clients")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def close(self) -> None:
        """Halt the process: what was begun is not ended."""
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def _send(self, *fields: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")

    def _ask(self, *fields: object) -> str:
        self._send(*fields)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if not answer.startswith("ok"):
            log_tail = (self._root / "clients.log").read_text(errors="replace")[-2000:]
            raise ToolError(f"Kafka's clients {self.version}: {answer} {log_tail}")
        return answer[3:]

    def use(self, node: Node | OldNode) -> None:
        """Speak to this broker from now on, with new clients."""
        self._ask("bootstrap", node.address)

    def create_topic(self, topic: str, partitions: int = 1, **config: object) -> None:
        if self.version >= "4" and "segment_bytes" in config:  # it takes no small ones by that name
            config["internal_segment_bytes"] = config.pop("segment_bytes")
        self._ask("create", topic, partitions, *_settings(config))

    def alter_topic(self, topic: str, **config: object) -> None:
        self._ask("alter", topic, *_settings(config))

    def producer(self, name: str, **config: object) -> None:
        self._ask("producer", name, *_settings(config))

    def begin(self, name: str) -> None:
        self._ask("begin", name)

    def commit(self, name: str) -> None:
        self._ask("commit", name)

    def abort(self, name: str) -> None:
        self._ask("abort", name)

    def drop(self, name: str) -> None:
        """Close a producer as a crash would: what it began stays open."""
        self._ask("drop", name)

    def send(
        self,
        name: str,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Hand a record to a producer; what became of it, `flush` says."""
        when = "-" if timestamp is None else timestamp
        pairs = [f"{_field(name.encode())}/{_field(content)}" for name, content in headers]
        self._send("send", name, topic, partition, when, _field(key), _field(value), *pairs)

    def flush(self, name: str) -> list[int]:
        """Offsets of what was sent since the last flush; an unacknowledged record raises."""
        answers = self._ask("flush", name).split()
        refused = [answer for answer in answers if answer.startswith("?")]
        if refused:
            raise ToolError(f"{len(refused)} of {len(answers)} records refused: {refused[0]}")
        return [int(answer) for answer in answers]

    def burst(
        self, name: str, topic: str, prefix: str, partition: int = 0, transaction: int = 0
    ) -> None:
        """Send PREFIX0, PREFIX1 ... in the background, that many to a transaction if not 0."""
        self._ask("burst", name, topic, partition, prefix, transaction)

    def acked(self, name: str) -> int:
        """How many values of a burst were acknowledged (committed), all before the rest."""
        return int(self._ask("acked", name))

    def rest(self, name: str) -> int:
        """End a burst; how many of its values were acknowledged."""
        return int(self._ask("rest", name))

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        self._ask("delete", topic, partition, before)

    def look(self, names: Iterable[str]) -> dict[str, Judged]:
        """What Kafka's consumers and admin client say of partitions, TOPIC-PARTITION each."""
        path = self._root / "dump.json"
        self._ask("dump", path, *names)
        stored: dict[str, Any] = json.loads(path.read_text())["partitions"]
        return {name: partition_of(name, stored[name]) for name in stored}


def _field(data: bytes | None) -> str:
    """Base64; null is "-", which no base64 is."""
    return "-" if data is None else base64.b64encode(data).decode()


def _settings(config: dict[str, object]) -> list[str]:
    return [f"{name.replace('_', '.')}={value}" for name, value in config.items()]


@contextlib.contextmanager
def clients(version: str, root: Path) -> Iterator[Clients]:
    running = Clients(version, root)
    try:
        yield running
    finally:
        running.close()
