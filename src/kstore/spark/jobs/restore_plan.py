"""What a restore reads: partitions of the source, cut into chunks of offsets."""

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
from kstore.spark.source.range_reader import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNK = 64 << 20  # bytes of the source
_INT64_MAX = 2**63 - 1

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from, and which of them."""

    log_dirs: tuple[str, ...] | None
    parquet: tuple[str, ...] | None
    topic: str | None
    partitions: tuple[int, ...] | None
    rename: tuple[tuple[str, str], ...]
    chosen: Filter
    isolation: str

    def target(self, topic: str) -> str:
        return dict(self.rename).get(topic, topic)

    def chunk(
        self, of: Place, number: int, offsets: tuple[int, int], size: int, paths: tuple[str, ...]
    ) -> Chunk:
        """A chunk of a partition of this source."""
        return Chunk(
            *of,
            self.target(of[0]),
            number,
            *offsets,
            size,
            paths,
            self.parquet is not None,
            self.isolation,
            self.chosen,
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
    )


@dataclass(slots=True)
class Plan:
    """The chunks of each partition in order, and how many partitions the targets need."""

    source: Source
    chunks: dict[Place, list[Chunk]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # by the target topic's name
    settings: dict[str, Settings] = field(default_factory=dict)  # the same

    def add(self, topic: str, partition: int, count: int, chunks: list[Chunk]) -> None:
        self.chunks[topic, partition] = chunks
        target = self.source.target(topic)
        self.counts[target] = max(self.counts.get(target, 0), count)

    def add_settings(self, found: Mapping[str, Settings]) -> None:
        """Settings of the source's topics; of several that become one, the first one's count."""
        for topic in dict.fromkeys(topic for topic, _ in self.chunks):
            if topic in found:
                self.settings.setdefault(self.source.target(topic), found[topic])


def chunks_behind(chunks: Sequence[Chunk], offset: int) -> list[Chunk]:
    """What is left of chunks from an offset on."""
    return [
        replace(chunk, start=max(chunk.start, offset)) for chunk in chunks if chunk.stop > offset
    ]


def plan_segments(files: Files, source: Source) -> Plan:
    """Chunks of log directories, cut where segments begin."""
    assert source.log_dirs is not None
    plan = Plan(source)
    store = open_store(source.log_dirs)
    for name in matching(store, source.topic, internal=False):
        for log in store[name]:
            if source.wants(log.partition):
                plan.add(name, log.partition, len(store[name]), list(_of_log(log, source)))
    if not plan.chunks:
        raise InvalidConfigError("none of the topics has a partition that is wanted")
    topics = dict.fromkeys(topic for topic, _ in plan.chunks)
    plan.add_settings(settings_of_log_dirs(files, store, source.log_dirs, topics))
    return plan


def _of_log(log: Log, source: Source) -> Iterator[Chunk]:
    assert source.log_dirs is not None
    chosen, of = source.chosen, (log.topic, log.partition)
    end = log.last_stable_offset if source.isolation == "read_committed" else log.end_offset
    start = max(log.start_offset, chosen.start or 0)
    stop = min(end, _INT64_MAX if chosen.stop is None else chosen.stop)
    if chosen.since is not None:
        start = max(start, log.offset_at(chosen.since))
    size, number = 0, 0
    for view in log.segments.views:
        if view.base_offset > start and size >= _CHUNK and view.base_offset < stop:
            yield source.chunk(of, number, (start, view.base_offset), size, source.log_dirs)
            start, size, number = view.base_offset, 0, number + 1
        if view.next_offset > start:
            size += view.size
    if start < stop:
        yield source.chunk(of, number, (start, stop), size, source.log_dirs)


# --- Parquet --------------------------------------------------------------------------------------


def plan_parquet(files: Files, spark: "SparkSession | None", source: Source) -> Plan:
    """Chunks of Parquet files; executors (or, without Spark, this process) look first which
    offsets each file has.

    Files of one partition that do not overlap are put together until they make a chunk; such as
    do are cut by offsets.
    """
    found_files = [each for path in source.parquet or () for each in _files(files, path)]
    if not found_files:
        raise InvalidConfigError(f"there are no Parquet files in {', '.join(source.parquet or ())}")
    named = sorted({topic for _, topic in found_files if topic})
    if named and all(topic for _, topic in found_files):
        wanted = topics_matching(named, source.topic)
        found_files = [each for each in found_files if each[1] in wanted]
    tasks = [tuple(found_files[at : at + 16]) for at in range(0, len(found_files), 16)]
    found: dict[Place, list[tuple[int, int, str, int]]] = {}
    for path, places in _scan(spark, tasks):
        total = sum(rows for *_, rows in places)
        for topic, partition, low, high, rows in places:
            size = files.size_of(path) * rows // max(total, 1)
            found.setdefault((topic, partition), []).append((low, high + 1, path, size))
    plan = Plan(source)
    names = topics_matching(sorted({topic for topic, _ in found}), source.topic)
    for (topic, partition), ranges in sorted(found.items()):
        count = 1 + max(number for name, number in found if name == topic)
        if topic in names and source.wants(partition):
            chunks = _of_files(topic, partition, sorted(ranges), source)
            plan.add(topic, partition, count, chunks)
    if not plan.chunks:
        raise InvalidConfigError("no topic and partition in the Parquet files is wanted")
    plan.add_settings(settings_of_exports(files, source.parquet or ()))
    return plan


def scan_files(task: tuple[tuple[str, str | None], ...]) -> list[Any]:
    """In an executor: each path, and what :func:`scan_parquet` says of it."""
    from kstore.spark.jobs.restore_tasks import scan_parquet  # brings pyarrow

    return [(path, scan_parquet(path, topic)) for path, topic in task]


def _scan(spark: "SparkSession | None", tasks: Sequence[Any]) -> Iterator[Any]:
    if spark is None:
        for task in tasks:
            yield from scan_files(task)
        return
    with closing(run_tasks(spark, tasks, scan_files, "kstore restore: files")) as results_of:
        for _, results in results_of:
            yield from results


def _files(files: Files, path: str) -> Iterator[tuple[str, str | None]]:
    """Parquet files of a folder, with the topic that a folder topic=NAME says."""
    if files.kind(path) != "directory":
        yield path, _topic_of(path)
        return
    for name in files.listdir(path):
        each = os.path.join(path, name)
        if name.startswith(("_", ".")):
            continue
        if files.kind(each) == "directory":
            yield from _files(files, each)
        elif name.endswith(".parquet"):
            yield each, _topic_of(each)


def _topic_of(path: str) -> str | None:
    for part in reversed(path.split(os.sep)):
        if part.startswith("topic="):
            return part.removeprefix("topic=")
    return None


def _of_files(
    topic: str, partition: int, ranges: Sequence[tuple[int, int, str, int]], source: Source
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
        pieces = max(1, min(-(-size // _CHUNK), stop - start))
        for n in range(pieces):
            low = max(start + (stop - start) * n // pieces, first)
            high = min(start + (stop - start) * (n + 1) // pieces, end)
            if low < high:
                files = tuple(dict.fromkeys(paths))
                of, part = (topic, partition), size // pieces
                chunks.append(source.chunk(of, len(chunks), (low, high), part, files))
    return chunks
