"""The owner of a directory: ``partition.metadata`` and ``meta.properties``.

Kafka serves a partition only under its own topic id, and a log directory only under its own
cluster, node and directory id. So kstore writes these files where they are missing and never
changes an existing one (Kafka's PartitionMetadataFile and MetaProperties).
"""

import base64
import binascii
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path

from kstore.checkpoint.java_properties import parse_properties
from kstore.checkpoint.offset_checkpoint import INT32_MAX, corrupt, parse_number
from kstore.errors import CorruptFileError, TopicExistsError
from kstore.files.filenames import META_PROPERTIES, PARTITION_METADATA
from kstore.files.files import Files

UUID_TEXT_LENGTH = 22
_RESERVED_UUIDS = 100  # 0: zero and "migrating", 1: "unassigned", 2: "lost"; the rest kept free


# --- Kafka's Uuid ---------------------------------------------------------------------------


def uuid_to_text(value: bytes) -> str:
    """16 bytes as Kafka writes them: URL-safe base64 without padding, 22 characters."""
    if len(value) != 16:
        raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
    return base64.urlsafe_b64encode(value).decode("ascii")[:UUID_TEXT_LENGTH]


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's spelling; raises ValueError for any other text."""
    if len(text) == UUID_TEXT_LENGTH and text.isascii():
        try:
            value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except binascii.Error:
            value = b""
        if len(value) == 16 and uuid_to_text(value) == text:
            return value
    raise ValueError(f"not a UUID in 22 characters of URL-safe base64: {text[:40]!r}")


def random_uuid(random: Callable[[int], bytes] = os.urandom) -> str:
    """A new UUID in text form; never a reserved one, never one that starts with ``-``."""
    while True:
        value = bytearray(random(16))
        value[6] = value[6] & 0x0F | 0x40  # version 4, variant 2, as Java's UUID.randomUUID
        value[8] = value[8] & 0x3F | 0x80
        text = uuid_to_text(bytes(value))
        if not text.startswith("-"):
            return text


def is_reserved_uuid(text: str) -> bool:
    """Whether Kafka reserves this id (as it does the all-zero id)."""
    return int.from_bytes(uuid_from_text(text), "big") < _RESERVED_UUIDS


# --- partition.metadata ---------------------------------------------------------------------


def read_topic_id(files: Files, directory: str | PathLike[str]) -> str | None:
    """The topic id of a partition directory; None where Kafka never wrote one (before 2.8)."""
    path = Path(directory) / PARTITION_METADATA
    return parse_topic_id(files.read(path, limit=1 << 16), path) if files.exists(path) else None


def parse_topic_id(data: bytes, path: str | PathLike[str]) -> str:
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


def _labelled(line: str, label: str, number: int, path: str | PathLike[str]) -> str:
    match = re.fullmatch(r"(\w+):\s+(\S+)", line)
    if match is None or match[1] != label:
        raise corrupt(f"'{label}: ...' expected, found {line[:80]!r}", number, path)
    return match[2]


def format_topic_id(topic_id: str) -> bytes:
    """The bytes of ``partition.metadata``; Kafka puts no newline at its end."""
    if is_reserved_uuid(topic_id):
        raise ValueError(f"{topic_id} is reserved and cannot be a topic's id")
    return f"version: 0\ntopic_id: {topic_id}".encode()


def write_topic_id(files: Files, directory: str | PathLike[str], topic_id: str) -> bool:
    """Write the topic id where the file is missing; returns whether it wrote.

    Raises TopicExistsError for another id: then the partition is another topic's.
    """
    path = Path(directory) / PARTITION_METADATA
    data = format_topic_id(topic_id)
    found = read_topic_id(files, directory)
    if found is None:
        files.write_atomically(path, data)
        return True
    if found != topic_id:
        raise TopicExistsError(
            f"the directory belongs to the topic with id {found}, not to {topic_id}", path=path
        )
    return False


# --- meta.properties ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaProperties:
    """The owner of a log directory. ``node_id`` is ``broker.id`` in version 0 (ZooKeeper).

    ``other`` holds keys that are not Kafka's.
    """

    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    other: dict[str, str] = field(default_factory=dict)


def read_meta_properties(files: Files, directory: str | PathLike[str]) -> MetaProperties | None:
    """The content of ``meta.properties``; None without it (Kafka never used the directory)."""
    path = Path(directory) / META_PROPERTIES
    if not files.exists(path):
        return None
    return parse_meta_properties(files.read(path, limit=1 << 20), path)


def parse_meta_properties(data: bytes, path: str | PathLike[str]) -> MetaProperties:
    properties = parse_properties(data, path)
    version = _whole(properties.pop("version", "0"), "version", path)
    if version not in (0, 1):
        raise CorruptFileError(f"unknown version {version} of meta.properties", path=fspath(path))
    node_key = "node.id" if version == 1 else "broker.id"
    node_text = properties.pop(node_key, None)
    meta = MetaProperties(
        version=version,
        cluster_id=properties.pop("cluster.id", None),
        node_id=None if node_text is None else _whole(node_text, node_key, path),
        directory_id=properties.pop("directory.id", None),
        other=properties,
    )
    if version == 1 and (meta.cluster_id is None or meta.node_id is None):
        raise CorruptFileError("version 1 needs cluster.id and node.id", path=fspath(path))
    if meta.directory_id is not None:
        try:
            uuid_from_text(meta.directory_id)
        except ValueError as error:
            raise CorruptFileError(f"directory.id: {error}", path=fspath(path)) from None
    return meta


def _whole(text: str, key: str, path: str | PathLike[str]) -> int:
    if re.fullmatch(r"[0-9]{1,10}", text) is None or int(text) > INT32_MAX:
        raise CorruptFileError(f"{key} must be a whole number, not {text[:40]!r}", path=path)
    return int(text)
