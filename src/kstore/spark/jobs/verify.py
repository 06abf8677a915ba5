"""``kstore spark verify``: the engine's audit, segments side by side on all executors."""

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from kstore.errors import InvalidConfigError, KStoreError
from kstore.log.files import DISK
from kstore.log.verify import Finding, VerifyReport
from kstore.log.verify_parts import Part, PartReport, merge_parts, plan_parts, verify_part
from kstore.spark.jobs.command import add_common, main, matching, paths_of
from kstore.spark.jobs.running import Progress, cores, open_session, pack, run_tasks, silent
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
--resume keeps the reports of partitions that are done in a file, and begins there after a stop;
remove it to check everything anew. --dry-run shows the tasks.
Exit status: 0 if all is well, 1 if not.
"""

_LEAST_PART = 32 << 20
_MOST_PART = 1 << 30
_INTERVAL = 2.0  # seconds between two writings of what is done
_WAVES = 4  # parts a core, so that the last ones end together


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The audit of one partition; ``error`` says why there is none, where it could not be read."""

    topic: str
    partition: int
    path: str
    report: VerifyReport
    error: str | None = None

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
        not audited again.

    Returns a report for each partition, by topic and number: what ``Log.verify`` returns. A
    partition that could not be read has an ``error``. Raises InvalidConfigError where no topic
    matches, StorageError where an executor does not see the directories.
    """
    from kstore.log.log_dir import absolute_paths

    paths = absolute_paths(path)
    check_executors(spark, paths)
    places = _partitions(paths, topic)
    known = _Known(resume)
    left = [n for n, place in enumerate(places) if known.get(place) is None]
    planned = _plan([places[n] for n in left], cores(spark))
    tasks = [_Task(paths, tuple(each)) for each in planned]
    total, done = sum(task.size for task in tasks), 0
    missing = {
        n: sum(p.number == n for task in tasks for p in task.pieces) for n in range(len(left))
    }
    found: dict[int, dict[int, _Found]] = {n: {} for n in missing}
    with closing(known), closing(run_tasks(spark, tasks, _work, "kstore verify")) as results_of:
        for number, results in results_of:
            task = tasks[number]
            done += task.size
            for piece, result in zip(task.pieces, results, strict=True):
                parts = found[piece.number]
                parts[-1 if piece.part.start is None else piece.part.start] = result
                place = places[left[piece.number]]
                progress(done, total, f"{place.topic}-{place.partition}")
                if len(parts) == missing[piece.number]:
                    known.add(_whole(spark, paths, place, [parts[key] for key in sorted(parts)]))
                    del found[piece.number]
    return [known[place] for place in places]


@dataclass(frozen=True, slots=True)
class _Place:
    topic: str
    partition: int
    path: str
    segments: tuple[tuple[int, int], ...]  # base offset, size


def _partitions(paths: tuple[str, ...], topic: str | None) -> list[_Place]:
    store = open_store(paths)
    return [
        _Place(
            log.topic,
            log.partition,
            log.path,
            tuple((view.base_offset, view.size) for view in log.segments.views),
        )
        for name in matching(store, topic)
        for log in store[name]
    ]


def _plan(places: Sequence[_Place], parallelism: int) -> list[list[_Piece]]:
    total = sum(size for place in places for _, size in place.segments)
    target = min(max(total // (_WAVES * parallelism), _LEAST_PART), _MOST_PART)
    pieces = [
        _Piece(number, place.path, part)
        for number, place in enumerate(places)
        for part in plan_parts(place.segments, target)
    ]
    groups = pack([piece.part.size for piece in pieces], target)
    return [[pieces[n] for n in group] for group in groups]


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


class _Known:
    """Reports so far, by partition; those of an earlier run too, where a file keeps them."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._next = 0.0
        self._reports: dict[str, PartitionReport] = {}
        if path is not None and DISK.exists(path):
            self._reports = {each.path: each for each in load_reports(path)}

    def get(self, place: _Place) -> PartitionReport | None:
        return self._reports.get(place.path)

    def __getitem__(self, place: _Place) -> PartitionReport:
        return self._reports[place.path]

    def add(self, report: PartitionReport) -> None:
        self._reports[report.path] = report
        if time.monotonic() > self._next:
            self.close()
            self._next = time.monotonic() + _INTERVAL

    def close(self) -> None:
        """Write down what is done; a partition that could not be read is tried again."""
        if self._path is not None:
            whole = [each for each in self._reports.values() if each.error is None]
            DISK.write_atomically(self._path, json.dumps(as_tree(whole)).encode())


def load_reports(path: str) -> list[PartitionReport]:
    """Reports as :func:`as_tree` wrote them; InvalidConfigError where the file is another one."""
    try:
        return [
            PartitionReport(
                each.pop("topic"), each.pop("partition"), each.pop("path"), _report(each)
            )
            for each in json.loads(DISK.read(path))["partitions"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidConfigError(
            f"{path} holds no reports of verify ({error}): remove it, or name another file"
        ) from None


def _report(tree: dict[str, Any]) -> VerifyReport:
    known = {each.name for each in fields(VerifyReport)}
    values = {name: value for name, value in tree.items() if name in known}
    values["findings"] = [Finding(**each) for each in values["findings"]]
    return VerifyReport(**values)


# --- the command ----------------------------------------------------------------------------------


def as_tree(reports: Sequence[PartitionReport]) -> dict[str, Any]:
    """As ``kstore verify --json`` prints it."""
    return {
        "ok": all(each.ok for each in reports),
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "path": each.path,
                "ok": each.ok,
                **asdict(each.report),
                **({"error": each.error} if each.error is not None else {}),
            }
            for each in reports
        ],
    }


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument(
        "--resume", metavar="FILE", help="keep what is done in this file, and go on from it"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the tasks, start nothing")


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    paths = paths_of(arguments)
    if arguments.dry_run:
        planned = _plan(_partitions(paths, arguments.topic), os.cpu_count() or 1)
        size = sum(piece.part.size for task in planned for piece in task)
        print(f"{len(planned)} tasks would verify {size:,} bytes")
        return 0
    spark, is_new = open_session(arguments.master, "kstore verify")
    try:
        reports = verify(
            spark, paths, topic=arguments.topic, progress=progress, resume=arguments.resume
        )
    finally:
        if is_new:
            spark.stop()
    if arguments.json:
        print(json.dumps(as_tree(reports), indent=2))
    else:
        print("\n".join(tell(reports)))
    return 0 if all(each.ok for each in reports) else 1


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
    damaged = sum(not each.ok for each in reports)
    size = sum(each.report.bytes for each in reports)
    verdict = "all ok" if not damaged else f"{damaged} not ok"
    return [*lines, f"{len(reports)} partitions: {verdict} ({size} bytes)"]


if __name__ == "__main__":
    from kstore.spark.jobs import verify as job  # tasks find its functions by this name

    raise SystemExit(main("verify", job.describe, job.run))
