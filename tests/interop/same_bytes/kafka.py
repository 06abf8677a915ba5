"""Kafka's side: a node with Kafka's own defaults where the answers show them; what it answered."""

import contextlib
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

from interop.node import Node
from interop.same_bytes.asker import Answers
from kafka_files.data_sets import DATA

RECORDED_VERSION = "3.9.2"
_RECORDED = DATA / f"same-bytes-{RECORDED_VERSION}.json.xz"
_NOT_DEFAULT = ("auto.create.topics.enable", "log.retention.ms", "log.message.timestamp")


class DefaultNode(Node):
    """A node whose topics have the settings that Kafka gives them by itself."""

    def _write_properties(self) -> None:
        super()._write_properties()
        lines = self._properties.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(_NOT_DEFAULT)]
        self._properties.write_text("".join(kept))


@contextlib.contextmanager
def default_node(version: str, root: Path) -> Iterator[DefaultNode]:
    """A started node, killed at the end."""
    root.mkdir()
    broker = DefaultNode(version, root)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def recorded() -> Answers:
    """The answers of a Kafka node to all questions, as they are kept in tests/data."""
    found: Answers = json.loads(lzma.decompress(_RECORDED.read_bytes()))
    return found


def write_recorded(answers: Answers) -> None:
    """Keep answers in tests/data."""
    text = json.dumps(answers, ensure_ascii=False, indent=0)
    _RECORDED.write_bytes(lzma.compress(text.encode(), preset=9))
