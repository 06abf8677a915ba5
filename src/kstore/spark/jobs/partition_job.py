"""The base class of jobs that process each partition of a store: plan, run, resume, report.

A job lists the partitions, computes a fingerprint that shows whether a partition has changed, and
processes those without a valid report; :meth:`PartitionJob.run` does the rest.
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
    """A partition as a job plans it; ``path`` is its directory."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def path(self) -> str: ...


_CHECKSUM_BATCH = 64  # segments whose header checksums one task writes
Partition = TypeVar("Partition", bound=TopicPartition)
Report = TypeVar("Report")
Result = TypeVar("Result")


class JobOptions(TypedDict, total=False):
    """The options of every job over partitions."""

    topic: str | None  # a regular expression for topic names; None: all topics
    progress: Progress  # called with bytes done, bytes in total, and the current partition
    resume: str | None  # a file with the reports of finished partitions, created if missing;
    # a partition in it is processed again only if it has changed since
    files: Files


class ChangingOptions(JobOptions, total=False):
    """The options of every job that changes a store."""

    lock_timeout_ms: int  # how long to wait while another process holds the store's lock


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One or several segments of a partition, which a task processes in one step."""

    number: int  # index of the partition in the list that the job processes
    path: str  # the partition's directory
    key: int  # orders the units of one partition
    size: int  # bytes
    argument: Any  # what the job's function needs to process the unit


@dataclass(frozen=True, slots=True)
class Task:
    """The input of one Spark task; ``options`` are those of the job."""

    paths: tuple[str, ...]
    units: tuple[WorkUnit, ...]
    files: Files
    options: Any = None


def process_units(task: Task, process: Callable[[Files, WorkUnit], Result]) -> list[Result | str]:
    """In an executor: for each unit its result, or its error as text."""
    check_visible(task.files, task.paths)
    return [result_or_error(process, task.files, unit) for unit in task.units]


def result_or_error(function: Callable[..., Result], *arguments: Any) -> Result | str:
    """What the function returns, or the text of the KStoreError that it raises."""
    try:
        return function(*arguments)
    except KStoreError as error:
        return str(error)


def _write_checksums(task: tuple[tuple[str, ...], tuple[tuple[str, int], ...], Files]) -> int:
    paths, segments, files = task
    check_visible(files, paths)
    return sum(header_checksums.write(files, path, base_offset) for path, base_offset in segments)


class PartitionJob(ABC, Generic[Partition, Report]):
    """A job over the partitions of a store. One run each; not thread safe."""

    name: ClassVar[str]  # of its tasks, its session and its resume file
    max_task_size: ClassVar[int | None] = None  # bytes; None: the default of plan_tasks

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

    # --- what each job defines ----------------------------------------------------------------

    @abstractmethod
    def list_partitions(self, store: Store) -> list[Partition]:
        """All partitions of the job; raises InvalidConfigError if no topic matches."""

    @abstractmethod
    def fingerprint(self, partition: Partition) -> Any:
        """A value that is equal as long as a report of an earlier run is valid."""

    @abstractmethod
    def process(
        self, partitions: Sequence[Partition]
    ) -> Generator[tuple[Partition, Report], None, None]:
        """Yield each partition with its report when it is done."""

    @abstractmethod
    def describe_plan(self, partitions: Sequence[Partition], parallelism: int) -> str:
        """The text of ``--dry-run`` for the remaining partitions."""

    @abstractmethod
    def load(self, tree: dict[str, Any]) -> Report:
        """A report from an entry of the resume file."""

    @staticmethod
    @abstractmethod
    def format_lines(reports: Any, /) -> list[str]:
        """All reports as lines of text."""

    def dump(self, report: Report) -> dict[str, Any]:
        tree: dict[str, Any] = asdict(report)  # type: ignore[call-overload]  # a dataclass
        tree.pop("from_file", None)
        return tree

    def is_final(self, report: Report) -> bool:
        """Whether a later run skips the partition, as long as it is unchanged."""
        return bool(report.ok)  # type: ignore[attr-defined]

    def has_more_to_do(self, partition: Partition) -> bool:
        """Whether the partition is to be processed again although it is unchanged."""
        return False

    def resume_options(self) -> dict[str, Any]:
        """The job's name, and the options that must be equal to resume from a file."""
        return {"name": self.name}

    def open_store(self) -> AbstractContextManager[Store]:
        """The store while the job runs."""
        return nullcontext(open_store(self.paths))

    # --- what all jobs share --------------------------------------------------------------------

    def run(self) -> list[Report]:
        """Process the remaining partitions, and return all reports, by topic and number."""
        check_executors(self.spark, self.paths, self.files)
        known = self._load_resume_file()
        with self.open_store() as store, closing(known):
            partitions = self.list_partitions(store)
            for partition in self._find_done(partitions, known):
                if self.has_more_to_do(partition):
                    known.forget(partition.path)
            remaining = [partition for partition in partitions if partition.path not in known]
            with closing(self.process(remaining)) as results:
                for partition, report in results:
                    final, fingerprint = self.is_final(report), self.fingerprint(partition)
                    known.add(partition.path, report, final=final, of=fingerprint)
            reports = [known[partition.path] for partition in partitions]
            if all(map(self.is_final, reports)):
                known.end()
            return [
                cast(
                    "Report", replace(cast("Any", report), from_file=known.taken_at(partition.path))
                )
                for partition, report in zip(partitions, reports, strict=True)
            ]

    @classmethod
    def run_command(
        cls, arguments: argparse.Namespace, progress: Progress, command: str = "", **options: Any
    ) -> int:
        """Run from the command line, in a session of its own, and return the exit status."""
        options |= {"topic": arguments.topic, "resume": arguments.resume, "progress": progress}
        if hasattr(arguments, "lock_timeout"):
            options["lock_timeout_ms"] = int(arguments.lock_timeout * 1000)
        job = cls(None, paths_of(arguments), **options)
        if arguments.dry_run:
            known = job._load_resume_file()
            partitions = job.list_partitions(open_store(job.paths))
            done = {partition.path for partition in job._find_done(partitions, known)}
            remaining = [partition for partition in partitions if partition.path not in done]
            print(job.describe_plan(remaining, cores_of(arguments.master)))
            return 0
        with open_session(arguments.master, f"kstore {command or cls.name}") as job._spark:
            reports = job.run()
        return job.show(reports, arguments)

    def show(self, reports: list[Report], arguments: argparse.Namespace) -> int:
        """Print reports as JSON or as lines, and return the exit status."""
        results = cast("list[PartitionResult]", reports)
        return show(arguments.json, results, self.format_lines(reports))

    def _load_resume_file(self) -> ResumeFile[Report]:
        return ResumeFile(self.resume, self.resume_options(), self.load, self.dump, self.files)

    def _find_done(
        self, partitions: Sequence[Partition], known: ResumeFile[Report]
    ) -> list[Partition]:
        """The partitions with a valid report of an earlier run."""
        known.forget_changed({each.path: self.fingerprint(each) for each in partitions})
        return [partition for partition in partitions if partition.path in known]

    # --- for jobs whose tasks process segments ------------------------------------------------

    def plan_units(self, units: Iterable[WorkUnit], parallelism: int) -> list[list[WorkUnit]]:
        """Group consecutive units into tasks."""
        return plan_tasks([(unit, unit.size) for unit in units], parallelism, self.max_task_size)

    def run_units(
        self,
        partitions: Sequence[Partition],
        units: Sequence[WorkUnit],
        run_task: Callable[[Task], list[Any]],
        *,
        options: Any = None,
        on_result: Callable[[WorkUnit, Any], None] = lambda unit, result: None,
    ) -> Iterator[tuple[Partition, list[Any]]]:
        """Yield each partition with the results of its units, in order, once it has all of them.

        ``run_task`` is a function of a module that returns a result for each unit of its task.
        """
        expected = Counter(unit.number for unit in units)
        yield from ((each, []) for n, each in enumerate(partitions) if not expected[n])
        groups = self.plan_units(units, cores(self.spark))
        tasks = [Task(self.paths, tuple(group), self.files, options) for group in groups]
        total, done = sum(unit.size for unit in units), 0
        results_by_key: dict[int, dict[int, Any]] = {number: {} for number in expected}
        with closing(run_tasks(self.spark, tasks, run_task, f"kstore {self.name}")) as outcomes:
            for number, results in outcomes:
                of_task = zip(groups[number], results, strict=True)
                for n, of_partition in groupby(of_task, key=lambda pair: pair[0].number):
                    partition, by_key = partitions[n], results_by_key[n]
                    for unit, result in of_partition:
                        on_result(unit, result)
                        by_key[unit.key] = result
                        done += unit.size
                    if len(by_key) == expected[n]:
                        del results_by_key[n]
                        yield partition, [by_key[key] for key in sorted(by_key)]
                    self.on_progress(done, total, f"{partition.topic}-{partition.partition}")


class ChangingJob(PartitionJob[Partition, Report]):
    """A job that holds the store's one-writer lock and removes staged files if it fails."""

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
        """The current fingerprint, so that the job's own changes do not count as changes."""
        return fingerprint_segments(self.files, cast("Log", partition))

    def write_checksums(self, segments: Sequence[tuple[Log, int]]) -> None:
        """Write the header checksums of new segments, given as log and base offset.

        Executors read the segments under their final names, so call this after the renames.
        """
        size = min(max(1, len(segments) // cores(self.spark)), _CHECKSUM_BATCH)
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
        """Yield each partition with its report when it is changed."""

    def process(
        self, partitions: Sequence[Partition]
    ) -> Generator[tuple[Partition, Report], None, None]:
        paths = [partition.path for partition in partitions]
        for path in paths:  # left by an interrupted run
            remove_staged(self.files, path)
        with remove_staged_on_failure(self.files, paths):
            yield from self.change(partitions)
