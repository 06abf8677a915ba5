"""``kstore spark stats``: what the topics of a store are made of, from one walk over its bytes."""

import argparse
import base64
import json
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kstore.errors import KStoreError
from kstore.log.files import DISK
from kstore.log.log_dir import absolute_paths
from kstore.log.reindex import Damage
from kstore.log.stats import (
    REGISTERS,
    SPREADS,
    WIDTHS,
    Kind,
    Rates,
    Segment,
    Spread,
    Stats,
    segments_of,
    survey_part,
    was_replaced,
)
from kstore.spark.jobs.command import add_common, main, matching, paths_of
from kstore.spark.jobs.reports import Finished, add_reporting, made_of
from kstore.spark.jobs.running import (
    Progress,
    cores,
    cores_of,
    open_session,
    plan_tasks,
    run_tasks,
    silent,
)
from kstore.spark.jobs.stats_report import PartitionStats, as_tree, tell
from kstore.spark.reading import check_visible, open_store
from kstore.spark.session import Paths, check_executors

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
class _Place:
    topic: str
    partition: int
    path: str
    log_start_offset: int
    segments: tuple[Segment, ...]
    of: dict[str, Any] = field(default_factory=dict)  # what tells whether it is as it was


@dataclass(frozen=True, slots=True)
class _Piece:
    """One segment, for a task."""

    number: int  # of the partition
    path: str
    segment: Segment


_Task = tuple[tuple[str, ...], tuple[_Piece, ...]]
_Again = tuple[tuple[str, ...], str, int]  # directories, topic, partition
_Found = tuple[int, int, Stats | str]  # partition, segments, or why there is none


def stats(
    spark: "SparkSession",
    path: Paths,
    *,
    topic: str | None = None,
    progress: Progress = silent,
    resume: str | None = None,
) -> list[PartitionStats]:
    """Walk the partitions of a store on Spark's executors, and tell what they are made of.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    topic
        A regular expression for names of topics; all of them without it.
    resume
        A file for the reports of finished partitions, until all are, made where missing: those it
        holds are not walked again if their topic and segments are what they were.

    Returns a report for each partition, by topic and number; its ``stats`` are those of
    :func:`kstore.log.stats.survey_log` on one machine. A partition that could not be read has an
    ``error``. Raises InvalidConfigError where no topic matches, StorageError where an executor
    does not see the directories.
    """
    paths = absolute_paths(path)
    check_executors(spark, paths)
    finished = _finished(resume)
    places = _partitions(paths, topic)
    left = _left(places, finished)
    groups = _plan(left, cores(spark))
    tasks: list[_Task] = [(paths, tuple(group)) for group in groups]
    total = sum(segment.size for place in left for segment in place.segments)
    waiting = [len(place.segments) for place in left]
    found: list[dict[int, Stats | str]] = [{} for _ in left]
    done = 0

    def note(place: _Place, parts: Sequence[Stats | str]) -> None:
        report = _whole(spark, paths, place, parts)
        finished.add(place.path, report, final=report.error is None, of=place.of)

    with closing(finished), closing(run_tasks(spark, tasks, _work, "kstore stats")) as results_of:
        for place in left:
            if not place.segments:
                note(place, [])
        for number, results in results_of:
            done += sum(piece.segment.size for piece in groups[number])
            for partition, many, part in results:
                place = left[partition]
                found[partition][number] = part
                waiting[partition] -= many
                if not waiting[partition]:
                    parts, found[partition] = found[partition], {}
                    note(place, [parts[key] for key in sorted(parts)])
                progress(done, total, f"{place.topic}-{place.partition}")
        reports = [
            replace(finished[place.path], from_file=finished.taken_at(place.path))
            for place in places
        ]
        if all(each.error is None for each in reports):
            finished.end()
    return reports


def _partitions(paths: tuple[str, ...], topic: str | None) -> list[_Place]:
    store = open_store(paths)
    return [
        _Place(
            log.topic,
            log.partition,
            log.path,
            log.start_offset,
            tuple(segments_of(log)),
            made_of(log),
        )
        for name in matching(store, topic)
        for log in store[name]
    ]


def _left(places: Sequence[_Place], finished: Finished[PartitionStats]) -> list[_Place]:
    """What is to be walked: what is not in the file, and what is not as it was then."""
    finished.forget_changed({place.path: place.of for place in places})
    return [place for place in places if place.path not in finished]


def _plan(places: Sequence[_Place], parallelism: int) -> list[list[_Piece]]:
    pieces = [
        (_Piece(number, place.path, segment), segment.size)
        for number, place in enumerate(places)
        for segment in place.segments
    ]
    return plan_tasks(pieces, parallelism)


def _whole(
    spark: "SparkSession", paths: tuple[str, ...], place: _Place, parts: Sequence[Stats | str]
) -> PartitionStats:
    """A partition's report from its parts, in their order; walked again where they do not add up.

    They do not if compaction put what one task has walked where another one came later.
    """
    whole, error, overlap = Stats(), None, False
    for part in parts:
        if isinstance(part, str):
            error = error or part
        else:
            overlap = overlap or whole.overlaps(part)
            whole.add(part)
    suspect = overlap or whole.segments_changed or whole.segments_gone
    if error is None and suspect and (overlap or was_replaced(place.segments, place.path)):
        task: _Again = (paths, place.topic, place.partition)
        ((_, again),) = run_tasks(spark, [task], _walk_again, "kstore stats, again")
        whole, error = again
    return PartitionStats(
        place.topic, place.partition, place.path, place.log_start_offset, whole, error
    )


# --- in an executor -------------------------------------------------------------------------------


def _work(task: _Task) -> list[_Found]:
    """What is known of the segments of each partition of a task, in one part each."""
    paths, pieces = task
    check_visible(DISK, paths)
    found: list[_Found] = []
    for (number, path), some in groupby(pieces, key=lambda piece: (piece.number, piece.path)):
        segments = [piece.segment for piece in some]
        found.append((number, len(segments), _survey(path, segments)))
    return found


def _survey(path: str, segments: Sequence[Segment]) -> Stats | str:
    try:
        return survey_part(DISK, path, segments)
    except KStoreError as error:  # the others go on
        return str(error)


def _walk_again(task: _Again) -> tuple[Stats, str | None]:
    """All of a partition in one walk, until its segments are the same before and behind it."""
    paths, topic, partition = task
    check_visible(DISK, paths)
    found = Stats()
    try:
        log = open_store(paths)[topic][partition]
        for _ in range(TRIES):
            segments = segments_of(log)
            found = survey_part(DISK, log.path, segments)
            moved = found.segments_changed or found.segments_gone
            if not moved and not was_replaced(segments, log.path):
                return found, None
    except KStoreError as error:  # the others go on
        return found, str(error)
    return found, (
        f"changed while it was walked, {TRIES + 1} times: something compacts or shortens it all "
        "the time, and these figures are not exact; run the job again when that has ended"
    )


# --- what is kept in the file to resume from ------------------------------------------------------


def _finished(resume: str | None) -> Finished[PartitionStats]:
    return Finished(resume, {"name": "stats"}, _load, _dump)


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
        found[name] = {each: Kind(**kind) for each, kind in found[name].items()}
    for each in fields(Stats):
        if each.name not in found:
            raise KeyError(each.name)
        if each.type in (int, int | None) and type(found[each.name]) not in (int, type(None)):
            raise TypeError(f"{each.name} is no number")
    if found["rates"]["width"] not in WIDTHS:
        raise ValueError("windows of a width that there is not")
    windows = {window: (records, size) for window, records, size in found["rates"]["windows"]}
    found["rates"] = Rates(found["rates"]["width"], windows)
    found["damages"] = [Damage(**each) for each in found["damages"]]
    return PartitionStats(**{**tree, "stats": Stats(**found)})


def _registers(text: str) -> bytes:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text, validate=True), REGISTERS + 1)
    if len(data) not in (0, REGISTERS):
        raise ValueError(f"{len(data)} or more registers, and not {REGISTERS}")
    return data


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="the report as a page with plots, which needs nothing else"
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    paths = paths_of(arguments)
    if arguments.dry_run:
        finished = _finished(arguments.resume)
        places = _left(_partitions(paths, arguments.topic), finished)
        groups = _plan(places, cores_of(arguments.master))
        pieces = [piece for group in groups for piece in group]
        size = sum(piece.segment.size for piece in pieces)
        print(f"{len(groups)} tasks would walk {len(pieces)} segments, {size:,} bytes")
        return 0
    with open_session(arguments.master, "kstore stats") as spark:
        reports = stats(
            spark, paths, topic=arguments.topic, progress=progress, resume=arguments.resume
        )
    tree = as_tree(reports)
    if arguments.html is not None:
        from kstore.spark.jobs.stats_page import html

        DISK.write_atomically(arguments.html, html(tree).encode())
    print(json.dumps(tree, indent=2) if arguments.json else "\n".join(tell(tree)))
    return 0 if tree["ok"] else 1


if __name__ == "__main__":
    from kstore.spark.jobs import stats as job  # tasks find its functions by this name

    raise SystemExit(main("stats", job.describe, job.run))
