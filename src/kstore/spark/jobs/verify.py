"""``kstore spark verify``: the engine's audit, segments side by side on all executors."""

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kstore.errors import KStoreError
from kstore.log.files import DISK
from kstore.log.verify import Finding, VerifyReport
from kstore.log.verify_parts import Part, PartReport, merge_parts, plan_parts, verify_part
from kstore.spark.jobs.command import add_common, main, matching, paths_of
from kstore.spark.jobs.reports import (
    Finished,
    add_reporting,
    as_tree,
    from_file_lines,
    made_of,
    show,
    verdict,
)
from kstore.spark.jobs.running import (
    Progress,
    cores,
    cores_of,
    open_session,
    plan_tasks,
    run_tasks,
    silent,
    task_size,
)
from kstore.spark.reading import check_visible, open_store
from kstore.spark.session import Paths, check_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark verify --log-dir /data/kafka-logs
  kstore spark verify --topic 'orders.*' --master 'local[4]' --log-dir data
  kstore spark verify --json --log-dir data > report.json
  kstore spark verify --resume checked.json --log-dir /data/kafka-logs
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/verify.py --log-dir /mnt/kafka-logs

Every executor audits segments with kstore's own verify and sends back what it found, no records;
the report is that of `kstore verify` on one machine. Changes nothing, and works beside a running
broker or writer. A damaged segment is named by file, position and offset, and the job goes on.
--resume keeps the reports of partitions that are done in a file, until all are, and goes on behind
them after a stop; a partition that is not what it was is audited again. --dry-run shows the tasks.
Exit status: 0 if all is well, 1 if not.
"""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The audit of one partition; ``error`` says why there is none, where it could not be read."""

    topic: str
    partition: int
    path: str
    report: VerifyReport
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run made it

    @property
    def ok(self) -> bool:
        return self.error is None and self.report.ok


@dataclass(frozen=True, slots=True)
class _Piece:
    """One part of one partition, for a task."""

    number: int  # of the partition
    directory: str
    part: Part


@dataclass(frozen=True, slots=True)
class _Task:
    paths: tuple[str, ...]
    pieces: tuple[_Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.part.size for piece in self.pieces)


_Found = PartReport | str  # or why there is none


def verify(
    spark: "SparkSession",
    path: Paths,
    *,
    topic: str | None = None,
    progress: Progress = silent,
    resume: str | None = None,
) -> list[PartitionReport]:
    """Audit the partitions of a store on Spark's executors.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    topic
        A regular expression for names of topics; all of them without it.
    resume
        A file for the reports of finished partitions, made where missing: those it holds are
        not audited again if their topic and segments are what they were.

    Returns a report for each partition, by topic and number: what ``Log.verify`` returns. A
    partition that could not be read has an ``error``. Raises InvalidConfigError where no topic
    matches, StorageError where an executor does not see the directories.
    """
    from kstore.log.log_dir import absolute_paths

    paths = absolute_paths(path)
    check_executors(spark, paths)
    places = _partitions(paths, topic)
    finished = _finished(resume)
    finished.forget_changed({place.path: place.of for place in places})
    left = [n for n, place in enumerate(places) if place.path not in finished]
    planned = _plan([places[n] for n in left], cores(spark))
    tasks = [_Task(paths, tuple(each)) for each in planned]
    total, done = sum(task.size for task in tasks), 0
    missing = {
        n: sum(p.number == n for task in tasks for p in task.pieces) for n in range(len(left))
    }
    found: dict[int, dict[int, _Found]] = {n: {} for n in missing}
    with closing(finished), closing(run_tasks(spark, tasks, _work, "kstore verify")) as results_of:
        for number, results in results_of:
            task = tasks[number]
            done += task.size
            for piece, result in zip(task.pieces, results, strict=True):
                parts = found[piece.number]
                parts[-1 if piece.part.start is None else piece.part.start] = result
                place = places[left[piece.number]]
                progress(done, total, f"{place.topic}-{place.partition}")
                if len(parts) == missing[piece.number]:
                    report = _whole(spark, paths, place, [parts[key] for key in sorted(parts)])
                    finished.add(place.path, report, final=report.error is None, of=place.of)
                    del found[piece.number]
        reports = [
            replace(finished[place.path], from_file=finished.taken_at(place.path))
            for place in places
        ]
        if all(each.error is None for each in reports):
            finished.end()
    return reports


@dataclass(frozen=True, slots=True)
class _Place:
    topic: str
    partition: int
    path: str
    segments: tuple[tuple[int, int], ...]  # base offset, size
    of: dict[str, Any]  # what tells whether it is as it was


def _partitions(paths: tuple[str, ...], topic: str | None) -> list[_Place]:
    store = open_store(paths)
    return [
        _Place(
            log.topic,
            log.partition,
            log.path,
            tuple((view.base_offset, view.size) for view in log.segments.views),
            made_of(log),
        )
        for name in matching(store, topic)
        for log in store[name]
    ]


def _plan(places: Sequence[_Place], parallelism: int) -> list[list[_Piece]]:
    target = task_size(sum(size for place in places for _, size in place.segments), parallelism)
    pieces = [
        (_Piece(number, place.path, part), part.size)
        for number, place in enumerate(places)
        for part in plan_parts(place.segments, target)
    ]
    return plan_tasks(pieces, parallelism)


def _work(task: _Task) -> list[_Found]:
    """In an executor: the reports of a task's parts."""
    check_visible(DISK, task.paths)
    return [_audit(piece.directory, piece.part) for piece in task.pieces]


def _audit(directory: str, part: Part) -> _Found:
    try:
        return verify_part(DISK, directory, part)
    except KStoreError as error:  # the others go on
        return str(error)


def _whole(
    spark: "SparkSession", paths: tuple[str, ...], place: _Place, parts: list[_Found]
) -> PartitionReport:
    """A partition's report from its parts; audited again in one piece where they do not tell."""
    reports = [part for part in parts if not isinstance(part, str)]
    merged = merge_parts(reports) if len(reports) == len(parts) else None
    if merged is None:
        # Retention removed a segment meanwhile, segments overlap, or transactions reach over parts.
        piece = _Piece(0, place.path, Part())
        again = [_Task(paths, (piece,))]
        (result,) = next(run_tasks(spark, again, _work, "kstore verify, again"))[1]
        if isinstance(result, str):
            return PartitionReport(place.topic, place.partition, place.path, VerifyReport(), result)
        merged = result.report
    return PartitionReport(place.topic, place.partition, place.path, merged)


# --- the command ----------------------------------------------------------------------------------


def _finished(resume: str | None) -> Finished[PartitionReport]:
    return Finished(resume, {"name": "verify"}, _load, _dump)


def _dump(report: PartitionReport) -> dict[str, Any]:
    tree = asdict(report)
    del tree["from_file"]
    return tree


def _load(tree: dict[str, Any]) -> PartitionReport:
    found = dict(tree["report"])
    found["findings"] = [Finding(**each) for each in found["findings"]]
    return PartitionReport(**{**tree, "report": VerifyReport(**found)})


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    paths = paths_of(arguments)
    if arguments.dry_run:
        finished = _finished(arguments.resume)
        found = _partitions(paths, arguments.topic)
        finished.forget_changed({place.path: place.of for place in found})
        places = [place for place in found if place.path not in finished]
        planned = _plan(places, cores_of(arguments.master))
        size = sum(piece.part.size for task in planned for piece in task)
        print(f"{len(planned)} tasks would verify {size:,} bytes")
        return 0
    with open_session(arguments.master, "kstore verify") as spark:
        reports = verify(
            spark, paths, topic=arguments.topic, progress=progress, resume=arguments.resume
        )
    return show(arguments.json, reports, tell(reports))


def tell(reports: Sequence[PartitionReport]) -> list[str]:
    """A line for each partition, its findings below it, and the sum."""
    lines = []
    for each in reports:
        report = each.report
        state = "ok" if each.ok else each.error or f"{report.finding_count} findings"
        lines.append(
            f"{each.topic}-{each.partition}: {state} ({report.segments} segments, "
            f"{report.batches} batches, {report.bytes} bytes)"
        )
        for finding in report.findings:
            at = "" if finding.position is None else f" position {finding.position}"
            offset = "" if finding.offset is None else f" offset {finding.offset}"
            lines.append(f"  {finding.kind}: {finding.path}{at}{offset}: {finding.sentence}")
        if report.finding_count > len(report.findings):
            lines.append(f"  ... and {report.finding_count - len(report.findings)} more")
    size = sum(each.report.bytes for each in reports)
    lines += from_file_lines(as_tree(reports))
    return [*lines, f"{verdict(reports)} ({size} bytes)"]


if __name__ == "__main__":
    from kstore.spark.jobs import verify as job  # tasks find its functions by this name

    raise SystemExit(main("verify", job.describe, job.run))
