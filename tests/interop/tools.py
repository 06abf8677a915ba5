"""Kafka's own command-line tools, of one version, pointed at one broker."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from interop.kafka_jars import run

FIELD, HEADER, LINE, NULL = "\x1f", "\x1d", "\x1e", "\x1c"
_PRODUCER = {"3": "kafka.tools.ConsoleProducer", "4": "org.apache.kafka.tools.ConsoleProducer"}


class Consumed(NamedTuple):
    """A record as Kafka's Java consumer gave it out."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()
    timestamp_type: str = "CreateTime"


class KafkaTools:
    """The tools of a version, for a broker at an address."""

    version: str

    @property
    def address(self) -> str:
        """``host:port`` of the broker."""
        raise AttributeError("a subclass has it")

    def create_topic(self, topic: str, partitions: int = 1, **config: object) -> None:
        settings = [f"--config={name.replace('_', '.')}={value}" for name, value in config.items()]
        arguments = ["--bootstrap-server", self.address, "--create", "--topic", topic]
        arguments += ["--partitions", partitions, "--replication-factor", 1, *settings]
        run(self.version, "org.apache.kafka.tools.TopicCommand", *arguments)

    def produce(
        self, topic: str, pairs: Sequence[tuple[str, str]], compression: str = "none"
    ) -> None:
        """Keys and values (text without tabs and line ends) by Kafka's console producer."""
        reader = "--reader-property" if self.version >= "4" else "--property"
        arguments = ["--bootstrap-server", self.address, "--topic", topic]
        arguments += ["--compression-codec", compression, reader, "parse.key=true"]
        text = "".join(f"{key}\t{value}\n" for key, value in pairs)
        run(self.version, _PRODUCER[self.version[0]], *arguments, text=text.encode())

    def consume(
        self, topic: str, count: int, isolation: str = "read_uncommitted"
    ) -> list[Consumed]:
        """The first count records of each partition's beginning on, by partition and offset.

        Kafka's Java consumer. Fewer come back, after 20 s, where there are
        fewer; `end_offsets` shows whether there are more.
        """
        formatter = "--formatter-property" if self.version >= "4" else "--property"
        shown = {
            "print.timestamp": "true",
            "print.partition": "true",
            "print.offset": "true",
            "print.headers": "true",
            "print.key": "true",
            "key.separator": FIELD,
            "headers.separator": HEADER,
            "line.separator": LINE,
            "null.literal": NULL,
        }
        arguments = ["--bootstrap-server", self.address, "--topic", topic, "--from-beginning"]
        arguments += ["--max-messages", count, "--timeout-ms", 20_000]
        arguments += ["--isolation-level", isolation]
        for name, value in shown.items():
            arguments += [formatter, f"{name}={value}"]
        done = run(
            self.version, "org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, check=False
        )
        text = done.stdout.decode()
        found = [_consumed(line) for line in text.split(LINE)[:-1]]
        return sorted(found, key=lambda record: record[:2])

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition."""
        arguments = ["--bootstrap-server", self.address, "--topic", topic]
        done = run(self.version, "org.apache.kafka.tools.GetOffsetShell", *arguments)
        lines = (line.rsplit(":", 2) for line in done.stdout.decode().split())
        return {int(partition): int(offset) for name, partition, offset in lines if name == topic}


def _consumed(line: str) -> Consumed:
    kind, partition, offset, headers, key, value = line.split(FIELD)
    timestamp_type, _, timestamp = kind.rpartition(":")
    if timestamp == "NO_TIMESTAMP":  # of messages v0
        timestamp_type, timestamp = "NoTimestampType", "-1"
    pairs = [] if headers == "NO_HEADERS" else headers.split(HEADER)
    split = [pair.partition(":")[::2] for pair in pairs]
    return Consumed(
        partition=int(re.sub(r"\D", "", partition)),
        offset=int(re.sub(r"\D", "", offset)),
        timestamp_type=timestamp_type,
        timestamp=int(timestamp),
        headers=tuple((name, _text(text)) for name, text in split),
        key=_text(key),
        value=_text(value),
    )


def _text(text: str) -> str | None:
    return None if text == NULL else text
