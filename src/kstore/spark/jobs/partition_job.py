"""One skeleton for the jobs that do the same with each partition: plan, run, resume, report.

A job says which partitions there are, what of a partition decides whether it has changed, and what
is done with those that are left; :meth:`PartitionJob.run` does the rest.
"""

import argparse
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypedDict, TypeVar, cast

from kstore.errors import KStoreError
from kstore.log.log import Log
from kstore.partition_files import DISK, Files, absolute_paths, header_checksums, remove_staged
from kstore.spark.exclusive_lock import open_alone
from kstore.spark.jobs.command import paths_of
from kstore.spark.jobs.reports import PartitionResult, show
from kstore.spark.jobs.resume_file import ResumeFile, fingerprint_segments
from kstore.spark.jobs.store_changes import LOCK_REASON, LOCK_TIMEOUT_MS, remove_staged_on_failure
from kstore.spark.jobs.task_runner import (
    Progress,
    cores,
    cores_of,
    open_session,
    plan_tasks,
    run_tasks,
    silent,
)
from kstore.spark.session import Paths, check_executors
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TopicPartition(Protocol):
    """A partition as a job plans it; ``path`` is its folder."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def path(self) -> str: ...


_CHECKSUMS = 64  # segments of a task that writes their header checksums
Partition = TypeVar("Partition", bound=TopicPartition)
Report = TypeVar("Report")
Result = TypeVar("Result")


class JobOptions(TypedDict, total=False):
    """What every job over partitions takes."""

    topic: str | None  # a regular expression for names of topics; None: all of them
    progress: Progress  # called with bytes done, bytes in all, and a partition
    resume: str | None  # a file with the reports of finished partitions, created if missing:
    # a partition in it is not done again, unless it has changed since
    files: Files


class ChangingOptions(JobOptions, total=False):
    """What every job takes that changes a store."""

    lock_timeout_ms: int  # how long to wait where another process writes the store


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one partition that one task works on, in one step."""

    number: int  # of the partition, among those that are left
    path: str  # of its folder
    key: int  # orders the partition's pieces
    size: int  # in bytes
    of: Any  # what the job's function takes


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of Spark's gets; ``options`` are the job's."""

    paths: tuple[str, ...]
    pieces: tuple[Piece, ...]
    files: Files
    options: Any = None


def work_on(task: Task, work: Callable[[Files, Piece], Result]) -> list[Result | str]:
    """In an executor: the result of each piece, or why there is none; the others go on."""
    check_visible(task.files, task.paths)
    return [result_or_error(work, task.files, piece) for piece in task.pieces]


def result_or_error(work: Callable[..., Result], *of: Any) -> Result | str:
    try:
        return work(*of)
    except KStoreError as error:
        return str(error)


def _write_checksums(task: tuple[tuple[str, ...], tuple[tuple[str, int], ...], Files]) -> int:
    paths, segments, files = task
    check_visible(files, paths)
    return sum(header_checksums.write(files, path, base_offset) for path, base_offset in segments)


class PartitionJob(ABC, Generic[Partition, Report]):
    """A job over the partitions of a store. One run each; not thread safe."""

    name: ClassVar[str]  # of its tasks and its session, and in a file to resume from
    most_task: ClassVar[int | None] = None  # bytes of a task; None: the usual limit

    def __init__(
        self,
        spark: "SparkSession | None",
        path: Paths,
        *,
        topic: str | None = None,
        progress: Progress = silent,
        resume: str | None = None,
        files: Files = DISK,
    ) -> None:
        self.files = files
        self.paths = absolute_paths(path)
        self.topic = topic
        self.resume = resume
        self.on_progress = progress
        self._spark = spark

    @property
    def spark(self) -> "SparkSession":
        return cast("SparkSession", self._spark)

    # --- what a job says of itself ------------------------------------------------------------

    @abstractmethod
    def list_partitions(self, store: Store) -> list[Partition]:
        """All partitions that the job is for; InvalidConfigError where there is none."""

    @abstractmethod
    def fingerprint(self, partition: Partition) -> Any:
        """What of a partition decides whether a report from an earlier run still holds."""

    @abstractmethod
    def process(
        self, partitions: Sequence[Partition]
    ) -> Generator[tuple[Partition, Report], None, None]:
        """Reports, as partitions are done."""

    @abstractmethod
    def describe_plan(self, partitions: Sequence[Partition], parallelism: int) -> str:
        """What ``--dry-run`` prints for the partitions that are left."""

    @abstractmethod
    def load(self, tree: dict[str, Any]) -> Report:
        """A report from a file to resume from."""

    @staticmethod
    @abstractmethod
    def format_lines(reports: Any, /) -> list[str]:
        """All reports, for a person."""

    def dump(self, report: Report) -> dict[str, Any]:
        tree: dict[str, Any] = asdict(report)  # type: ignore[call-overload]  # a dataclass
        tree.pop("from_file", None)
        return tree

    def is_final(self, report: Report) -> bool:
        """Whether a later run need not look at the partition again, if it stays as it is."""
        return bool(report.ok)  # type: ignore[attr-defined]

    def has_more_to_do(self, partition: Partition) -> bool:
        """Whether an unchanged partition is to be done again all the same."""
        return False

    def resume_options(self) -> dict[str, Any]:
        """What has to be equal for a file to be resumed from, beside the job's name."""
        return {"name": self.name}

    def open_store(self) -> AbstractContextManager[Store]:
        """The store while the job runs."""
        return nullcontext(open_store(self.paths))

    # --- what is the same for all ---------------------------------------------------------------

    def run(self) -> list[Report]:
        """Do what is left, and report all partitions, by topic and number."""
        check_executors(self.spark, self.paths, self.files)
        known = self._load_resume_file()
        with self.open_store() as store, closing(known):
            partitions = self.list_partitions(store)
            for partition in self._find_done(partitions, known):
                if self.has_more_to_do(partition):
                    known.forget(partition.path)
            left = [each for each in partitions if each.path not in known]
            with closing(self.process(left)) as reports_of:
                for partition, report in reports_of:
                    final, of = self.is_final(report), self.fingerprint(partition)
                    known.add(partition.path, report, final=final, of=of)
            reports = [known[partition.path] for partition in partitions]
            if all(map(self.is_final, reports)):
                known.end()
            return [
                cast("Report", replace(cast("Any", report), from_file=known.taken_at(each.path)))
                for each, report in zip(partitions, reports, strict=True)
            ]

    @classmethod
    def run_command(
        cls, arguments: argparse.Namespace, progress: Progress, command: str = "", **options: Any
    ) -> int:
        """Run for the command line, in a session of its own; the exit status."""
        options |= {"topic": arguments.topic, "resume": arguments.resume, "progress": progress}
        if hasattr(arguments, "lock_timeout"):
            options["lock_timeout_ms"] = int(arguments.lock_timeout * 1000)
        job = cls(None, paths_of(arguments), **options)
        if arguments.dry_run:
            known = job._load_resume_file()
            partitions = job.list_partitions(open_store(job.paths))
            done = {each.path for each in job._find_done(partitions, known)}
            left = [each for each in partitions if each.path not in done]
            print(job.describe_plan(left, cores_of(arguments.master)))
            return 0
        with open_session(arguments.master, f"kstore {command or cls.name}") as job._spark:
            reports = job.run()
        return job.show(reports, arguments)

    def show(self, reports: list[Report], arguments: argparse.Namespace) -> int:
        """Print reports, as JSON or in lines; the exit status."""
        results = cast("list[PartitionResult]", reports)
        return show(arguments.json, results, self.format_lines(reports))

    def _load_resume_file(self) -> ResumeFile[Report]:
        return ResumeFile(self.resume, self.resume_options(), self.load, self.dump, self.files)

    def _find_done(
        self, partitions: Sequence[Partition], known: ResumeFile[Report]
    ) -> list[Partition]:
        """Those with a report from an earlier run that still holds."""
        known.forget_changed({each.path: self.fingerprint(each) for each in partitions})
        return [each for each in partitions if each.path in known]

    # --- for jobs that cut partitions into pieces -------------------------------------------------

    def plan_pieces(self, pieces: Iterable[Piece], parallelism: int) -> list[list[Piece]]:
        """Pieces as tasks: neighbours are put together."""
        return plan_tasks([(each, each.size) for each in pieces], parallelism, self.most_task)

    def run_pieces(
        self,
        partitions: Sequence[Partition],
        pieces: Sequence[Piece],
        work: Callable[[Task], list[Any]],
        *,
        options: Any = None,
        on_result: Callable[[Piece, Any], None] = lambda piece, result: None,
    ) -> Iterator[tuple[Partition, list[Any]]]:
        """Each partition with the results of its pieces, in their order, once all are there.

        ``work`` is a function of a module that returns a result for each piece of its task.
        """
        missing = Counter(piece.number for piece in pieces)
        yield from ((each, []) for n, each in enumerate(partitions) if not missing[n])
        groups = self.plan_pieces(pieces, cores(self.spark))
        tasks = [Task(self.paths, tuple(group), self.files, options) for group in groups]
        total, done = sum(piece.size for piece in pieces), 0
        found: dict[int, dict[int, Any]] = {number: {} for number in missing}
        with closing(run_tasks(self.spark, tasks, work, f"kstore {self.name}")) as results_of:
            for number, results in results_of:
                of_task = zip(groups[number], results, strict=True)
                for n, of_partition in groupby(of_task, key=lambda each: each[0].number):
                    partition, parts = partitions[n], found[n]
                    for piece, result in of_partition:
                        on_result(piece, result)
                        parts[piece.key] = result
                        done += piece.size
                    if len(parts) == missing[n]:
                        del found[n]
                        yield partition, [parts[key] for key in sorted(parts)]
                    self.on_progress(done, total, f"{partition.topic}-{partition.partition}")


class ChangingJob(PartitionJob[Partition, Report]):
    """A job that holds the store's one-writer lock; where it fails, staged files are removed."""

    def __init__(
        self,
        spark: "SparkSession | None",
        path: Paths,
        *,
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
        **options: Any,
    ) -> None:
        super().__init__(spark, path, **options)
        self.lock_timeout_ms = lock_timeout_ms

    def open_store(self) -> AbstractContextManager[Store]:
        return open_alone(self.paths, self.lock_timeout_ms, LOCK_REASON, self.files)

    def fingerprint(self, partition: Partition) -> Any:
        """As it is now: what the job itself has written is not done again."""
        return fingerprint_segments(self.files, cast("Log", partition))

    def write_checksums(self, segments: Sequence[tuple[Log, int]]) -> None:
        """Write the header checksums of new segments, by base offset.

        Executors read the segments again: only now their files have their names.
        """
        size = min(max(1, len(segments) // cores(self.spark)), _CHECKSUMS)
        named = [(log.path, base) for log, base in segments]
        tasks = [
            (self.paths, tuple(named[at : at + size]), self.files)
            for at in range(0, len(named), size)
        ]
        with closing(run_tasks(self.spark, tasks, _write_checksums, "kstore checksums")) as done:
            for _ in done:
                pass
        for log, base in segments:
            log._require_writer().flusher.name_following([base])

    @abstractmethod
    def change(
        self, partitions: Sequence[Partition]
    ) -> Generator[tuple[Partition, Report], None, None]:
        """Reports, as partitions are changed."""

    def process(
        self, partitions: Sequence[Partition]
    ) -> Generator[tuple[Partition, Report], None, None]:
        paths = [partition.path for partition in partitions]
        for path in paths:  # of a run that was stopped
            remove_staged(self.files, path)
        with remove_staged_on_failure(self.files, paths):
            yield from self.change(partitions)
