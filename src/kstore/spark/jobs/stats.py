"""``kstore spark stats``: what the topics of a store are made of, from one walk over its bytes."""

import argparse
import base64
import json
import zlib
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Unpack

from kstore.errors import KStoreError
from kstore.partition_files import (
    REGISTERS,
    SPREADS,
    WIDTHS,
    BatchKind,
    Files,
    PlannedSegment,
    Rates,
    SegmentDamage,
    Spread,
    Stats,
    segments_of,
    survey_part,
    was_replaced,
)
from kstore.spark.jobs.command import add_common, main, matching
from kstore.spark.jobs.partition_job import JobOptions, PartitionJob, Piece, Task, result_or_error
from kstore.spark.jobs.reports import add_reporting
from kstore.spark.jobs.resume_file import fingerprint_segments
from kstore.spark.jobs.stats_report import PartitionStats, as_tree, tell
from kstore.spark.jobs.task_runner import Progress, run_tasks
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark stats --log-dir /data/kafka-logs
  kstore spark stats --topic 'orders.*' --html orders.html --master 'local[4]' --log-dir data
  kstore spark stats --json --resume walked.json --log-dir /data/kafka-logs > stats.json
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/stats.py --log-dir /mnt/kafka-logs

Every executor walks segments with kstore's own kernels and sends back counts, no records: sizes,
rates over time, codecs and formats, keys, offsets and their gaps, transactions. What is told of is
what the files hold, records below the log start offset too. Counts and sums are exact; p50 and p99
are the upper ends of powers of two, and the number of distinct keys is an estimate (HyperLogLog,
standard error 0.8 %).
Changes nothing, and works beside a running broker or writer: a partition that is compacted
meanwhile is walked again as one, and told as changed, not ok, if it never stands still. A damaged
batch is named by file, position and offset, left out, and the job goes on. --resume keeps what is
done in a file, until all is; a partition that is not what it was is walked again. --dry-run shows
the tasks.
Exit status: 0 if all is well, 1 where something is damaged or always changed.
"""


TRIES = 3  # to walk a partition that is compacted meanwhile, each as a whole


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    partition: int
    path: str
    log_start_offset: int
    segments: tuple[PlannedSegment, ...]
    fingerprint: dict[str, Any] = field(default_factory=dict)


_WholeTask = tuple[tuple[str, ...], str, int, Files]  # directories, topic, partition


def stats(
    spark: "SparkSession", path: Paths, **options: Unpack[JobOptions]
) -> list[PartitionStats]:
    """Count what the topics of a store contain, in a log directory or several, on Spark.

    ``options`` are those of every job: :class:`~kstore.spark.jobs.partition_job.JobOptions`.

    Returns a report for each partition, by topic and number; its ``stats`` are those that
    ``survey_log`` finds on one machine. A partition that could not be read has an
    ``error``. Raises InvalidConfigError where no topic matches, StorageError where an executor
    does not see the directories.
    """
    return _StatsJob(spark, path, **options).run()


def _partitions(files: Files, paths: tuple[str, ...], topic: str | None) -> list[_Partition]:
    store = open_store(paths)
    return [
        _Partition(
            log.topic,
            log.partition,
            log.path,
            log.start_offset,
            tuple(segments_of(log, files)),
            fingerprint_segments(files, log),
        )
        for name in matching(store, topic)
        for log in store[name]
    ]


def _dump(report: PartitionStats) -> dict[str, Any]:
    tree = asdict(report)
    del tree["from_file"]
    found = tree["stats"]
    found["key_registers"] = base64.b64encode(zlib.compress(found["key_registers"])).decode()
    found["rates"]["windows"] = sorted((w, *of) for w, of in report.stats.rates.windows.items())
    return tree


def _load(tree: dict[str, Any]) -> PartitionStats:
    found = dict(tree["stats"])
    found["key_registers"] = _registers(found["key_registers"])
    for name in SPREADS:
        found[name] = Spread(**found[name])
    for name in ("formats", "codecs"):
        found[name] = {each: BatchKind(**kind) for each, kind in found[name].items()}
    for each in fields(Stats):
        if each.name not in found:
            raise KeyError(each.name)
        if each.type in (int, int | None) and type(found[each.name]) not in (int, type(None)):
            raise TypeError(f"{each.name} is no number")
    if found["rates"]["width"] not in WIDTHS:
        raise ValueError("windows of a width that there is not")
    windows = {window: (records, size) for window, records, size in found["rates"]["windows"]}
    found["rates"] = Rates(found["rates"]["width"], windows)
    found["damages"] = [SegmentDamage(**each) for each in found["damages"]]
    return PartitionStats(**{**tree, "stats": Stats(**found)})


def _registers(text: str) -> bytes:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text, validate=True), REGISTERS + 1)
    if len(data) not in (0, REGISTERS):
        raise ValueError(f"{len(data)} or more registers, and not {REGISTERS}")
    return data


class _StatsJob(PartitionJob[_Partition, PartitionStats]):
    name = "stats"

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """As planned: what changes during the walk is walked again."""
        return partition.fingerprint

    def is_final(self, report: PartitionStats) -> bool:
        return report.error is None

    def process(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, PartitionStats], None, None]:
        for partition, parts in self.run_pieces(partitions, _pieces(partitions), _work):
            yield partition, self._merge(partition, parts)

    def _merge(self, of: _Partition, parts: Sequence[Stats | str | None]) -> PartitionStats:
        """A report from its parts, in their order; walked again where they do not add up.

        They do not if compaction put what one task has walked where another one came later.
        """
        whole, error, overlap = Stats(), None, False
        for part in parts:
            if isinstance(part, str):
                error = error or part
            elif part is not None:
                overlap = overlap or whole.overlaps(part)
                whole.add(part)
        suspect = overlap or whole.segments_changed or whole.segments_gone
        if (
            error is None
            and suspect
            and (overlap or was_replaced(of.segments, of.path, self.files))
        ):
            task: _WholeTask = (self.paths, of.topic, of.partition, self.files)
            ((_, again),) = run_tasks(self.spark, [task], _walk_again, "kstore stats, again")
            whole, error = again
        return PartitionStats(of.topic, of.partition, of.path, of.log_start_offset, whole, error)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        pieces = _pieces(partitions)
        tasks, size = self.plan_pieces(pieces, parallelism), sum(each.size for each in pieces)
        return f"{len(tasks)} tasks would walk {len(pieces)} segments, {size:,} bytes"

    def show(self, reports: list[PartitionStats], arguments: argparse.Namespace) -> int:
        tree = as_tree(reports)
        if arguments.html is not None:
            from kstore.spark.jobs.stats_page import html

            self.files.write_atomically(arguments.html, html(tree).encode())
        print(json.dumps(tree, indent=2) if arguments.json else "\n".join(tell(tree)))
        return 0 if tree["ok"] else 1

    format_lines = staticmethod(tell)
    dump = staticmethod(_dump)
    load = staticmethod(_load)


def _pieces(partitions: Sequence[_Partition]) -> list[Piece]:
    return [
        Piece(number, each.path, segment.base_offset, segment.size, segment)
        for number, each in enumerate(partitions)
        for segment in each.segments
    ]


# --- in an executor -------------------------------------------------------------------------------


def _work(task: Task) -> list[Stats | str | None]:
    """What is known of the segments of each partition of a task, all of it with the first."""
    check_visible(task.files, task.paths)
    found: list[Stats | str | None] = []
    for path, group in groupby(task.pieces, key=lambda piece: piece.path):
        segments = [piece.of for piece in group]
        found += [result_or_error(survey_part, task.files, path, segments)]
        found += [None] * (len(segments) - 1)
    return found


def _walk_again(task: _WholeTask) -> tuple[Stats, str | None]:
    """All of a partition in one walk, until its segments are the same before and behind it."""
    paths, topic, partition, files = task
    check_visible(files, paths)
    found = Stats()
    try:
        log = open_store(paths)[topic][partition]
        for _ in range(TRIES):
            segments = segments_of(log, files)
            found = survey_part(files, log.path, segments)
            moved = found.segments_changed or found.segments_gone
            if not moved and not was_replaced(segments, log.path, files):
                return found, None
    except KStoreError as error:  # the others go on
        return found, str(error)
    return found, (
        f"changed while it was walked, {TRIES + 1} times: something compacts or shortens it all "
        "the time, and these figures are not exact; run the job again when that has ended"
    )


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="the report as a page with plots, which needs nothing else"
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _StatsJob.run_command(arguments, progress)


if __name__ == "__main__":
    from kstore.spark.jobs import stats as job  # tasks find its functions by this name

    raise SystemExit(main("stats", job.describe, job.run))
