"""The output of Kafka's verifiable tools: one JSON object on a line for each event."""

import json
from collections.abc import Iterable

from kstore.cli.common import Output
from kstore.clock import now_ms
from kstore.topic_partition import TopicPartition


class EventLines(Output):
    """Prints events; they are buffered until ``flush``, like all output of the tools."""

    def event(self, name: str, **fields: object) -> None:
        """Print an event: the time in ms, its name, then the fields in their order."""
        found = {"timestamp": now_ms(), "name": name, **fields}
        self.line(json.dumps(found, separators=(",", ":"), ensure_ascii=False))


def shown_partitions(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    """Partitions as they appear in events."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]


def shown_text(data: bytes | None) -> str | None:
    """A key or value as Kafka's StringDeserializer returns it."""
    return None if data is None else data.decode("utf-8", "replace")
