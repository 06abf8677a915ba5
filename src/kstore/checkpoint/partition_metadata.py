"""``partition.metadata``: the topic id of a partition directory (Kafka's PartitionMetadataFile).

Kafka serves a partition only under its own topic id. kstore writes the file where it is missing
and never changes an existing one.
"""

import os
import re

from kstore.checkpoint.offset_checkpoint import INT32_MAX, corrupt, parse_number
from kstore.errors import InconsistentTopicIdError
from kstore.files.filenames import PARTITION_METADATA
from kstore.files.files import Files
from kstore.kafka_uuid import is_reserved_uuid, uuid_from_text


def read_topic_id(files: Files, directory: str | os.PathLike[str]) -> str | None:
    """The topic id of a partition directory; None where Kafka never wrote one (before 2.8)."""
    path = os.path.join(directory, PARTITION_METADATA)
    return parse_topic_id(files.read(path, limit=1 << 16), path) if files.exists(path) else None


def parse_topic_id(data: bytes, path: str | os.PathLike[str]) -> str:
    """The id in the bytes of ``partition.metadata``, any version from 0."""
    lines = re.split(r"\r\n|\r|\n", data.decode("utf-8", "replace"))
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 2:
        raise corrupt("a version and a topic_id expected", len(lines) + 1, path)
    parse_number(_labelled(lines[0], "version", 1, path), INT32_MAX, 1, path)
    topic_id = _labelled(lines[1], "topic_id", 2, path)
    try:
        value = uuid_from_text(topic_id)
    except ValueError as error:
        raise corrupt(str(error), 2, path) from None
    if not any(value):
        raise corrupt("the all-zero topic id belongs to no topic", 2, path)
    return topic_id


def _labelled(line: str, label: str, number: int, path: str | os.PathLike[str]) -> str:
    match = re.fullmatch(r"(\w+):\s+(\S+)", line)
    if match is None or match[1] != label:
        raise corrupt(f"'{label}: ...' expected, found {line[:80]!r}", number, path)
    return match[2]


def format_topic_id(topic_id: str) -> bytes:
    """The bytes of ``partition.metadata``; Kafka puts no newline at its end."""
    if is_reserved_uuid(topic_id):
        raise ValueError(f"{topic_id} is reserved and cannot be a topic's id")
    return f"version: 0\ntopic_id: {topic_id}".encode()


def write_topic_id(files: Files, directory: str | os.PathLike[str], topic_id: str) -> bool:
    """Write the topic id where the file is missing; returns whether it wrote.

    Raises InconsistentTopicIdError for another id: then the partition is another topic's.
    """
    path = os.path.join(directory, PARTITION_METADATA)
    data = format_topic_id(topic_id)
    found = read_topic_id(files, directory)
    if found is None:
        files.write_atomically(path, data)
        return True
    if found != topic_id:
        raise InconsistentTopicIdError(
            f"the directory belongs to the topic with id {found}, not to {topic_id}", path=path
        )
    return False
