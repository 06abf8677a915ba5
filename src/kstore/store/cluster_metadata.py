"""Topics and replica assignments from a KRaft node's copy of the cluster metadata.

``__cluster_metadata-0`` is a log as others, with snapshots of it in ``.checkpoint`` files: the
newest snapshot and the records behind it give the metadata image (Kafka's MetadataLoader). Only
the records of topics and partitions are decoded. A broker uses the image to recognize stray
replicas in its directories (Kafka's LogManager.isStrayKraftReplica).
"""

import os
from collections.abc import Iterator
from dataclasses import field
from typing import Any, NamedTuple

from kstore._native.format.batch_scan import BatchTable, scan
from kstore._native.format.status import name as status_name
from kstore._native.read.decode import Scanner
from kstore.errors import CorruptRecordError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.kafka_messages import decode, metadata_record
from kstore.record import codec
from kstore.recovery.loader import base_offsets

_CHUNK = 8 << 20  # bytes per read
_LARGEST_BATCH = 64 << 20  # eight times what a controller or a snapshot writes
_CONTROL = 0x20  # of a batch's attributes
_TOPIC, _BROKER = 2, 4  # a ConfigRecord's type of resource
_FOOTER = 4  # type of the control record that ends a snapshot


class Replicas(NamedTuple):
    """Which nodes a partition is assigned to; ``directories``: one directory id for each node,
    or none where the metadata is older than Kafka 3.7."""

    nodes: tuple[int, ...]
    directories: tuple[str, ...]

    def directory_of(self, node: int) -> str | None:
        """Id of the node's directory for the partition; None if unknown."""
        if node not in self.nodes or len(self.directories) != len(self.nodes):
            return None
        return self.directories[self.nodes.index(node)]


@lazy_dataclass()
class ClusterMetadata:
    """Topics and settings by name, partitions by topic id, as of ``end_offset`` of the log.

    Later decisions of the controller are missing.
    """

    path: str
    end_offset: int = 0
    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # of a topic, by its name
    # Of brokers, set while they ran, by node id as text; "": of all brokers.
    broker_settings: dict[str, dict[str, str]] = field(default_factory=dict)

    def partition(self, topic_id: str, partition: int) -> Replicas | None:
        return self.topics.get(topic_id, {}).get(partition)


def read_cluster_metadata(files: Files, directory: str) -> ClusterMetadata:
    """Read ``__cluster_metadata-0``, without changing it.

    Ignores an incomplete batch at its end and the records of a metadata transaction (KIP-868)
    that has not ended. Memory: about 8 MiB and the result.

    Raises CorruptRecordError for corruption, missing offsets, and types and versions of records
    that Kafka 4.3 does not know; StorageError.
    """
    image = _MetadataImage(directory)
    snapshots = [
        (found, name)
        for name in files.listdir(directory)
        if (found := filenames.parse_kraft_snapshot(name)) is not None
    ]
    if snapshots:
        (offset, _), name = max(snapshots)
        _take_snapshot(files, os.path.join(directory, name), image)
        image.found.end_offset = offset
    bases = base_offsets(files, directory)
    for number, base in enumerate(bases):
        if number + 1 < len(bases) and bases[number + 1] <= image.found.end_offset:
            continue  # all of it is in the snapshot
        _take_segment(files, os.path.join(directory, filenames.log_name(base)), image)
    if not bases and not snapshots:
        raise CorruptRecordError("there is neither a segment nor a snapshot", path=directory)
    return image.end()


class _MetadataImage:
    """The records applied so far."""

    def __init__(self, path: str) -> None:
        self.found = ClusterMetadata(path)
        self.names: dict[str, str] = {}  # by id
        self._before: tuple[Any, ...] | None = None  # while a metadata transaction is open

    def apply(self, data: bytes) -> None:
        name, version, rest = metadata_record(data)
        action = _ACTIONS.get(name)
        if action is not None:
            action(self, decode(name, version, rest))

    def end(self) -> ClusterMetadata:
        if self._before is not None:
            self.abort({})
        return self.found

    def topic(self, record: dict[str, Any]) -> None:
        topic_id, name = record["topicId"], record["name"]
        if not name or name in self.found.topic_ids or topic_id in self.names:
            raise CorruptRecordError(f"topic {name!r} with id {topic_id} is created a second time")
        self.found.topic_ids[name] = topic_id
        self.found.topics[topic_id] = {}
        self.names[topic_id] = name

    def partition(self, record: dict[str, Any]) -> None:
        partitions = self._of(record["topicId"])
        nodes, directories = record["replicas"], record.get("directories")
        partitions[record["partitionId"]] = Replicas(tuple(nodes or ()), tuple(directories or ()))

    def change(self, record: dict[str, Any]) -> None:
        partitions, number = self._of(record["topicId"]), record["partitionId"]
        if number not in partitions:
            raise CorruptRecordError(
                f"PartitionChangeRecord for partition {number}, which does not exist"
            )
        nodes, directories = partitions[number]
        if record.get("replicas") is not None:
            nodes = tuple(record["replicas"])
        if record.get("directories") is not None:
            directories = tuple(record["directories"])
        partitions[number] = Replicas(nodes, directories)

    def remove(self, record: dict[str, Any]) -> None:
        topic_id = record["topicId"]
        self._of(topic_id)
        del self.found.topics[topic_id]
        name = self.names.pop(topic_id)
        del self.found.topic_ids[name]
        self.found.settings.pop(name, None)

    def configure(self, record: dict[str, Any]) -> None:
        """One setting of a topic or a broker; without a value it returns to its default."""
        if record["resourceType"] == _TOPIC:
            resources = self.found.settings
        elif record["resourceType"] == _BROKER:
            resources = self.found.broker_settings
        else:
            return
        settings = resources.setdefault(record["resourceName"], {})
        if record.get("value") is None:
            settings.pop(record["name"], None)
        else:
            settings[record["name"]] = record["value"]

    def _of(self, topic_id: str) -> dict[int, Replicas]:
        partitions = self.found.topics.get(topic_id)
        if partitions is None:
            raise CorruptRecordError(f"a record of topic {topic_id}, which does not exist")
        return partitions

    def begin(self, _: dict[str, Any]) -> None:
        if self._before is not None:
            raise CorruptRecordError("a metadata transaction begins within another")
        topics = {topic_id: dict(values) for topic_id, values in self.found.topics.items()}
        settings = {name: dict(values) for name, values in self.found.settings.items()}
        brokers = {name: dict(values) for name, values in self.found.broker_settings.items()}
        self._before = dict(self.found.topic_ids), topics, dict(self.names), settings, brokers

    def commit(self, _: dict[str, Any]) -> None:
        if self._before is None:
            raise CorruptRecordError("EndTransactionRecord without BeginTransactionRecord")
        self._before = None

    def abort(self, _: dict[str, Any]) -> None:
        if self._before is None:
            raise CorruptRecordError("AbortTransactionRecord without BeginTransactionRecord")
        found = self.found
        (
            found.topic_ids,
            found.topics,
            self.names,
            found.settings,
            found.broker_settings,
        ) = self._before
        self._before = None


_ACTIONS = {
    "TopicRecord": _MetadataImage.topic,
    "PartitionRecord": _MetadataImage.partition,
    "PartitionChangeRecord": _MetadataImage.change,
    "RemoveTopicRecord": _MetadataImage.remove,
    "ConfigRecord": _MetadataImage.configure,
    "BeginTransactionRecord": _MetadataImage.begin,
    "EndTransactionRecord": _MetadataImage.commit,
    "AbortTransactionRecord": _MetadataImage.abort,
}


def _take_segment(files: Files, path: str, image: _MetadataImage) -> None:
    """Apply the records of a segment from the image's end offset on; offsets have no gaps."""
    found = image.found
    for data, position, table in _chunks(files, path):
        start = found.end_offset
        for n in range(len(table)):
            base, last = table.base_offset[n], table.last_offset[n]
            if last < start:
                continue
            if base > found.end_offset or last < base:
                raise CorruptRecordError(
                    f"offsets {found.end_offset} to {base - 1} of the metadata log are missing",
                    path=path,
                    position=position + table.position[n],
                    offset=base,
                )
            found.end_offset = last + 1
        _apply(data, table, path, position, start, image)


def _take_snapshot(files: Files, path: str, image: _MetadataImage) -> None:
    has_footer, end = False, 0
    for data, position, table in _chunks(files, path):
        _apply(data, table, path, position, -(2**63), image)
        end = position + table.stop
        n = len(table) - 1
        has_footer = False
        if table.attributes[n] & _CONTROL:
            begin, stop = table.position[n], table.position[n] + table.size[n]
            records = Scanner(data, begin, stop, control=True, path=path, position_base=position)
            keys = [record.key or b"" for record in records.records()]
            has_footer = bool(keys) and int.from_bytes(keys[-1][2:4], "big") == _FOOTER
    if not has_footer or end != files.size_of(path):
        raise CorruptRecordError("the snapshot does not end with its footer", path=path)


def _apply(
    data: bytes, table: BatchTable, path: str, position: int, start: int, image: _MetadataImage
) -> None:
    records = Scanner(
        data,
        0,
        table.stop,
        start_offset=start,
        decompress=codec.decompress,
        path=path,
        position_base=position,
    )
    for record in records.records():
        try:
            image.apply(record.value or b"")
        except CorruptRecordError as error:
            raise CorruptRecordError(error.reason, path=path, offset=record.offset) from error


def _chunks(files: Files, path: str) -> Iterator[tuple[bytes, int, BatchTable]]:
    """Bytes that begin with complete batches, their position in the file, and the batches."""
    with OpenFile(files, path) as fd:
        size = files.size(fd)
        position, wanted = 0, _CHUNK
        while position < size:
            data = files.pread(fd, min(wanted, size - position), position)
            table = scan(data)
            if status_name(table.status) not in ("OK", "TRUNCATED") or table.bad_crc_count:
                raise CorruptRecordError(
                    "not a batch, or a batch with a wrong checksum",
                    path=path,
                    position=position + (0 if table.bad_crc_count else table.stop),
                )
            if table.stop == 0:
                if len(data) < wanted or position + len(data) >= size:
                    return  # an incomplete batch at the end: still being written
                if wanted >= _LARGEST_BATCH:
                    raise CorruptRecordError("the batch is too large", path=path, position=position)
                wanted *= 2
                continue
            yield data, position, table
            position, wanted = position + table.stop, _CHUNK
