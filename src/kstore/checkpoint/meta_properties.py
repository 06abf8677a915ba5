"""``meta.properties``: the cluster, node and directory id of a log directory (Kafka's
MetaProperties).

Kafka uses a log directory only under its own ids. kstore reads the file and never changes it.
"""

import os
import re
from dataclasses import field

from kstore.checkpoint.java_properties import parse_properties
from kstore.checkpoint.offset_checkpoint import INT32_MAX
from kstore.errors import CorruptFileError
from kstore.files.filenames import META_PROPERTIES
from kstore.files.files import Files
from kstore.kafka_uuid import uuid_from_text
from kstore.lazy_dataclass import lazy_dataclass


@lazy_dataclass(frozen=True, kw_only=True)
class MetaProperties:
    """The owner of a log directory. ``node_id`` is ``broker.id`` in version 0 (ZooKeeper).

    ``other`` holds keys that are not Kafka's.
    """

    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    other: dict[str, str] = field(default_factory=dict)


def read_meta_properties(files: Files, directory: str | os.PathLike[str]) -> MetaProperties | None:
    """The content of ``meta.properties``; None without it (Kafka never used the directory)."""
    path = os.path.join(directory, META_PROPERTIES)
    if not files.exists(path):
        return None
    return parse_meta_properties(files.read(path, limit=1 << 20), path)


def parse_meta_properties(data: bytes, path: str | os.PathLike[str]) -> MetaProperties:
    properties = parse_properties(data, path)
    version = _number(properties.pop("version", "0"), "version", path)
    if version not in (0, 1):
        raise CorruptFileError(
            f"unknown version {version} of meta.properties", path=os.fspath(path)
        )
    node_key = "node.id" if version == 1 else "broker.id"
    node_text = properties.pop(node_key, None)
    meta = MetaProperties(
        version=version,
        cluster_id=properties.pop("cluster.id", None),
        node_id=None if node_text is None else _number(node_text, node_key, path),
        directory_id=properties.pop("directory.id", None),
        other=properties,
    )
    if version == 1 and (meta.cluster_id is None or meta.node_id is None):
        raise CorruptFileError("version 1 needs cluster.id and node.id", path=os.fspath(path))
    if meta.directory_id is not None:
        try:
            uuid_from_text(meta.directory_id)
        except ValueError as error:
            raise CorruptFileError(f"directory.id: {error}", path=os.fspath(path)) from None
    return meta


def _number(text: str, key: str, path: str | os.PathLike[str]) -> int:
    if re.fullmatch(r"[0-9]{1,10}", text) is None or int(text) > INT32_MAX:
        raise CorruptFileError(f"{key} must be a whole number, not {text[:40]!r}", path=path)
    return int(text)
