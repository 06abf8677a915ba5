"""Plans a restore: divides the partitions of the source into chunks of offsets."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kstore.errors import InvalidConfigError
from kstore.log.log import Log
from kstore.partition_files import Files, Paths, absolute_paths
from kstore.spark.jobs.command import matching, topics_matching
from kstore.spark.jobs.restore_settings import (
    Settings,
    settings_of_exports,
    settings_of_log_dirs,
)
from kstore.spark.jobs.restore_types import Chunk, Filter
from kstore.spark.jobs.task_runner import run_tasks
from kstore.spark.source.offsets_json import TopicPartition
from kstore.spark.source.range_reader import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNK = 64 << 20  # bytes of the source
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a restore, and which of its records to restore."""

    log_dirs: tuple[str, ...] | None
    parquet: tuple[str, ...] | None
    topic: str | None
    partitions: tuple[int, ...] | None
    rename: tuple[tuple[str, str], ...]
    chosen: Filter
    isolation: str
    fail_on_data_loss: bool = True

    def target(self, topic: str) -> str:
        return dict(self.rename).get(topic, topic)

    def chunk(
        self,
        tp: TopicPartition,
        number: int,
        offsets: tuple[int, int],
        size: int,
        paths: tuple[str, ...],
    ) -> Chunk:
        """A chunk of a partition of this source."""
        return Chunk(
            *tp,
            self.target(tp[0]),
            number,
            *offsets,
            size,
            paths,
            self.parquet is not None,
            self.isolation,
            self.chosen,
            self.fail_on_data_loss,
        )

    def wants(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def source_of(
    log_dirs: Paths | None,
    parquet: str | Sequence[str] | None,
    topic: str | None,
    partitions: Sequence[int] | None,
    rename: Mapping[str, str],
    chosen: Filter | None,
    isolation: str,
    fail_on_data_loss: bool = True,
) -> Source:
    """A source from the arguments of a restore; paths become absolute."""
    return Source(
        None if log_dirs is None else absolute_paths(log_dirs),
        None if parquet is None else absolute_paths(parquet),
        topic,
        None if partitions is None else tuple(partitions),
        tuple(sorted(rename.items())),
        chosen or Filter(),
        isolation,
        fail_on_data_loss,
    )


@dataclass(slots=True)
class Plan:
    """The chunks of each partition in order, and how many partitions the targets need."""

    source: Source
    chunks: dict[TopicPartition, list[Chunk]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # partitions by target topic
    settings: dict[str, Settings] = field(default_factory=dict)  # by target topic

    def add(self, topic: str, partition: int, count: int, chunks: list[Chunk]) -> None:
        self.chunks[topic, partition] = chunks
        target = self.source.target(topic)
        self.counts[target] = max(self.counts.get(target, 0), count)

    def add_settings(self, found: Mapping[str, Settings]) -> None:
        """Add settings of source topics; if several become one topic, the first one's are used."""
        for topic in dict.fromkeys(topic for topic, _ in self.chunks):
            if topic in found:
                self.settings.setdefault(self.source.target(topic), found[topic])


def chunks_from(chunks: Sequence[Chunk], offset: int) -> list[Chunk]:
    """The chunks from an offset on; the first one may begin later than before."""
    return [
        replace(chunk, start=max(chunk.start, offset)) for chunk in chunks if chunk.stop > offset
    ]


def fingerprint_ranges(ranges: Mapping[str, tuple[int, int]]) -> str:
    """A short text that identifies the offsets [start, stop) of each partition."""
    return hashlib.sha256(json.dumps(sorted(ranges.items())).encode()).hexdigest()[:16]


def plan_segments(files: Files, source: Source) -> Plan:
    """Plan chunks of log directories; they begin at segment boundaries."""
    assert source.log_dirs is not None
    plan = Plan(source)
    store = open_store(source.log_dirs)
    for name in matching(store, source.topic, internal=False):
        for log in store[name]:
            if source.wants(log.partition):
                plan.add(name, log.partition, len(store[name]), list(_chunks_of_log(log, source)))
    if not plan.chunks:
        raise InvalidConfigError("none of the topics has one of the partitions to restore")
    topics = dict.fromkeys(topic for topic, _ in plan.chunks)
    plan.add_settings(settings_of_log_dirs(files, store, source.log_dirs, topics))
    return plan


def _chunks_of_log(log: Log, source: Source) -> Iterator[Chunk]:
    assert source.log_dirs is not None
    chosen, tp = source.chosen, (log.topic, log.partition)
    end = log.last_stable_offset if source.isolation == "read_committed" else log.end_offset
    requested = chosen.start or 0
    start = max(log.start_offset, requested)
    # The log starts behind segments that are lost at its beginning: a task reports them.
    lost = log._source.lost.find_errors(requested, start)
    start = min([start, *(max(each.first, requested) for each, _ in lost)])
    stop = min(end, _INT64_MAX if chosen.stop is None else chosen.stop)
    if chosen.since is not None:
        start = max(start, log.offset_at(chosen.since))
    size, number = 0, 0
    for view in log.segments.views:
        if view.base_offset > start and size >= _CHUNK and view.base_offset < stop:
            yield source.chunk(tp, number, (start, view.base_offset), size, source.log_dirs)
            start, size, number = view.base_offset, 0, number + 1
        if view.next_offset > start:
            size += view.size
    if start < stop:
        yield source.chunk(tp, number, (start, stop), size, source.log_dirs)


# --- Parquet --------------------------------------------------------------------------------------


def plan_parquet(files: Files, spark: "SparkSession | None", source: Source) -> Plan:
    """Plan chunks of Parquet files.

    Executors (or, without Spark, this process) first read the range of offsets of each file. Small
    files of a partition form a chunk together if their offsets do not overlap. Overlapping and
    large files are divided by offsets.
    """
    listed = [file for path in source.parquet or () for file in _list_files(files, path)]
    if not listed:
        raise InvalidConfigError(f"there are no Parquet files in {', '.join(source.parquet or ())}")
    named = sorted({topic for _, topic in listed if topic})
    if named and all(topic for _, topic in listed):
        matching_topics = topics_matching(named, source.topic)
        listed = [(path, topic) for path, topic in listed if topic in matching_topics]
    tasks = [tuple(listed[at : at + 16]) for at in range(0, len(listed), 16)]
    ranges_of: dict[TopicPartition, list[tuple[int, int, str, int]]] = {}
    for path, ranges in _scan(spark, tasks):
        total = sum(rows for *_, rows in ranges)
        for topic, partition, low, high, rows in ranges:
            size = files.size_of(path) * rows // max(total, 1)
            ranges_of.setdefault((topic, partition), []).append((low, high + 1, path, size))
    plan = Plan(source)
    names = topics_matching(sorted({topic for topic, _ in ranges_of}), source.topic)
    for (topic, partition), of_partition in sorted(ranges_of.items()):
        count = 1 + max(number for name, number in ranges_of if name == topic)
        if topic in names and source.wants(partition):
            chunks = _chunks_of_files((topic, partition), sorted(of_partition), source)
            plan.add(topic, partition, count, chunks)
    if not plan.chunks:
        raise InvalidConfigError("the Parquet files have none of the partitions to restore")
    plan.add_settings(settings_of_exports(files, source.parquet or ()))
    return plan


def scan_files(task: tuple[tuple[str, str | None], ...]) -> list[Any]:
    """In an executor: each path with the result of :func:`scan_parquet`."""
    from kstore.spark.jobs.restore_tasks import scan_parquet  # brings pyarrow

    return [(path, scan_parquet(path, topic)) for path, topic in task]


def _scan(spark: "SparkSession | None", tasks: Sequence[Any]) -> Iterator[Any]:
    if spark is None:
        for task in tasks:
            yield from scan_files(task)
        return
    with closing(run_tasks(spark, tasks, scan_files, "kstore restore: files")) as outcomes:
        for _, results in outcomes:
            yield from results


def _list_files(files: Files, path: str) -> Iterator[tuple[str, str | None]]:
    """The Parquet files below a directory, with the topic if a directory is named topic=NAME."""
    if files.kind(path) != "directory":
        yield path, _topic_of(path)
        return
    for name in files.listdir(path):
        entry = os.path.join(path, name)
        if name.startswith(("_", ".")):
            continue
        if files.kind(entry) == "directory":
            yield from _list_files(files, entry)
        elif name.endswith(".parquet"):
            yield entry, _topic_of(entry)


def _topic_of(path: str) -> str | None:
    for name in reversed(path.split(os.sep)):
        if name.startswith("topic="):
            return name.removeprefix("topic=")
    return None


def _chunks_of_files(
    tp: TopicPartition, ranges: Sequence[tuple[int, int, str, int]], source: Source
) -> list[Chunk]:
    clusters: list[tuple[int, int, list[str], int]] = []  # start, stop, files, size
    for low, high, path, size in ranges:
        last = clusters[-1] if clusters else None
        if last is not None and (low < last[1] or last[3] + size <= _CHUNK):
            clusters[-1] = (last[0], max(last[1], high), [*last[2], path], last[3] + size)
        else:
            clusters.append((low, high, [path], size))
    chosen = source.chosen
    first = chosen.start or 0
    end = _INT64_MAX if chosen.stop is None else chosen.stop
    chunks: list[Chunk] = []
    for start, stop, paths, size in clusters:
        count = max(1, min(-(-size // _CHUNK), stop - start))
        for n in range(count):
            low = max(start + (stop - start) * n // count, first)
            high = min(start + (stop - start) * (n + 1) // count, end)
            if low < high:
                files = tuple(dict.fromkeys(paths))
                chunks.append(source.chunk(tp, len(chunks), (low, high), size // count, files))
    return chunks
