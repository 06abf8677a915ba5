"""What a KRaft node's own copy of the cluster's metadata says of topics and where they belong.

``__cluster_metadata-0`` is a log as others, with snapshots of it in ``.checkpoint`` files: the
newest one, and the records behind it, make the picture (Kafka's MetadataLoader). Of its records
only those of topics and partitions are decoded. A broker judges by it what it finds in its
directories (Kafka's LogManager.isStrayKraftReplica).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kstore._native.format.batch_table import BatchTable, scan
from kstore._native.format.status import name as status_name
from kstore._native.read.decode import Scanner
from kstore.errors import CorruptRecordError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.protocol.kafka_messages import decode, metadata_record
from kstore.record import codec
from kstore.recovery.loader import base_offsets

_PIECE = 8 << 20  # bytes read in one go
_LARGEST_BATCH = 64 << 20  # eight times what a controller or a snapshot writes
_CONTROL = 0x20  # of a batch's attributes
_TOPIC = 2  # a ConfigRecord's type of resource
_FOOTER = 4  # type of the control record that ends a snapshot


class Replicas(NamedTuple):
    """Which nodes a partition is assigned to; ``directories``: one directory id for each node,
    or none where the metadata is older than Kafka 3.7."""

    nodes: tuple[int, ...]
    directories: tuple[str, ...]

    def directory_of(self, node: int) -> str | None:
        """Id of the node's directory for the partition; None where none was said."""
        if node not in self.nodes or len(self.directories) != len(self.nodes):
            return None
        return self.directories[self.nodes.index(node)]


@dataclass(slots=True)
class ClusterMetadata:
    """Topics and settings by name, partitions by topic id, as of ``end_offset`` of the log.

    What other nodes have decided since is not in it.
    """

    path: str
    end_offset: int = 0
    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # of a topic, by its name

    def partition(self, topic_id: str, partition: int) -> Replicas | None:
        return self.topics.get(topic_id, {}).get(partition)


def read_cluster_metadata(files: Files, directory: str) -> ClusterMetadata:
    """Read ``__cluster_metadata-0``, as its owner left it; nothing is changed.

    An incomplete batch at its end is not there. Records of a metadata transaction (KIP-868) that
    is not ended count for nothing. Memory: about 8 MiB and what is returned.

    Raises CorruptRecordError for anything that is not understood: damage, missing offsets, or
    kinds and versions of records that Kafka 4.3 does not know; StorageError.
    """
    picture = _Picture(directory)
    snapshots = [
        (found, name)
        for name in files.listdir(directory)
        if (found := filenames.parse_kraft_snapshot(name)) is not None
    ]
    if snapshots:
        (offset, _), name = max(snapshots)
        _take_snapshot(files, os.path.join(directory, name), picture)
        picture.found.end_offset = offset
    bases = base_offsets(files, directory)
    for number, base in enumerate(bases):
        if number + 1 < len(bases) and bases[number + 1] <= picture.found.end_offset:
            continue  # all of it is in the snapshot
        _take_segment(files, os.path.join(directory, filenames.log_name(base)), picture)
    if not bases and not snapshots:
        raise CorruptRecordError("neither a segment nor a snapshot is there", path=directory)
    return picture.end()


class _Picture:
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
            raise CorruptRecordError(f"topic {name!r} with id {topic_id} is made a second time")
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
            raise CorruptRecordError(f"a change of partition {number}, which there is not")
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
        """One setting of a topic; without a value it is the broker's default again."""
        if record["resourceType"] != _TOPIC:
            return
        settings = self.found.settings.setdefault(record["resourceName"], {})
        if record.get("value") is None:
            settings.pop(record["name"], None)
        else:
            settings[record["name"]] = record["value"]

    def _of(self, topic_id: str) -> dict[int, Replicas]:
        partitions = self.found.topics.get(topic_id)
        if partitions is None:
            raise CorruptRecordError(f"a record of topic {topic_id}, which there is not")
        return partitions

    def begin(self, _: dict[str, Any]) -> None:
        if self._before is not None:
            raise CorruptRecordError("a metadata transaction begins within another")
        topics = {topic_id: dict(each) for topic_id, each in self.found.topics.items()}
        settings = {name: dict(each) for name, each in self.found.settings.items()}
        self._before = dict(self.found.topic_ids), topics, dict(self.names), settings

    def commit(self, _: dict[str, Any]) -> None:
        if self._before is None:
            raise CorruptRecordError("a metadata transaction ends that had not begun")
        self._before = None

    def abort(self, _: dict[str, Any]) -> None:
        if self._before is None:
            raise CorruptRecordError("a metadata transaction ends that had not begun")
        self.found.topic_ids, self.found.topics, self.names, self.found.settings = self._before
        self._before = None


_ACTIONS = {
    "TopicRecord": _Picture.topic,
    "PartitionRecord": _Picture.partition,
    "PartitionChangeRecord": _Picture.change,
    "RemoveTopicRecord": _Picture.remove,
    "ConfigRecord": _Picture.configure,
    "BeginTransactionRecord": _Picture.begin,
    "EndTransactionRecord": _Picture.commit,
    "AbortTransactionRecord": _Picture.abort,
}


def _take_segment(files: Files, path: str, picture: _Picture) -> None:
    """The records of a segment from where the picture ends; offsets leave no gap."""
    found = picture.found
    for data, position, table in _pieces(files, path):
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
        _apply(data, table, path, position, start, picture)


def _take_snapshot(files: Files, path: str, picture: _Picture) -> None:
    whole, end = False, 0
    for data, position, table in _pieces(files, path):
        _apply(data, table, path, position, -(2**63), picture)
        end = position + table.stop
        n = len(table) - 1
        whole = False
        if table.attributes[n] & _CONTROL:
            begin, stop = table.position[n], table.position[n] + table.size[n]
            records = Scanner(data, begin, stop, control=True, path=path, position_base=position)
            keys = [record.key or b"" for record in records.records()]
            whole = bool(keys) and int.from_bytes(keys[-1][2:4], "big") == _FOOTER
    if not whole or end != files.size_of(path):
        raise CorruptRecordError("the snapshot does not end with its footer", path=path)


def _apply(
    data: bytes, table: BatchTable, path: str, position: int, start: int, picture: _Picture
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
            picture.apply(record.value or b"")
        except CorruptRecordError as error:
            raise CorruptRecordError(error.reason, path=path, offset=record.offset) from error


def _pieces(files: Files, path: str) -> Iterator[tuple[bytes, int, BatchTable]]:
    """Bytes with whole batches at their beginning, where in the file they are, and the batches."""
    fd = files.open(path)
    try:
        size = files.size(fd)
        position, wanted = 0, _PIECE
        while position < size:
            data = files.pread(fd, min(wanted, size - position), position)
            table = scan(data)
            if status_name(table.status) not in ("OK", "TRUNCATED") or table.bad_crc_count:
                raise CorruptRecordError(
                    "not a batch, or one with a wrong checksum",
                    path=path,
                    position=position + (0 if table.bad_crc_count else table.stop),
                )
            if table.stop == 0:
                if len(data) < wanted or position + len(data) >= size:
                    return  # an incomplete batch at the end: not there yet
                if wanted >= _LARGEST_BATCH:
                    raise CorruptRecordError("a batch too large", path=path, position=position)
                wanted *= 2
                continue
            yield data, position, table
            position, wanted = position + table.stop, _PIECE
    finally:
        files.close(fd)
