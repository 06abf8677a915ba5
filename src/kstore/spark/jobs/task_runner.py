"""Runs the tasks of a job, each as a Spark job of its own, so that results arrive one by one.

The driver keeps twice as many tasks running as there are cores. So it can show and save progress
and stop at any moment, and a slow executor does not delay the others.
"""

import base64
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kstore import errors
from kstore.errors import KStoreError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")
LEAST_TASK = 32 << 20  # bytes; the smallest task, unless a store is smaller
MOST_TASK = 1 << 30
_WAVES = 4  # tasks for each core, so that the last ones end at about the same time
_ENCODED_ERROR = re.compile(r"<kstore:([A-Za-z0-9+/=]+)>")  # in Spark's text of a failed task
_POSITION_FIELDS = ("path", "position", "offset")
Progress = Callable[[int, int, str], None]  # bytes done, bytes in total, the current partition


class MissingSparkError(KStoreError, ImportError):
    """A job needs pyspark, which is not installed."""


def silent(done: int, total: int, name: str) -> None:
    """A progress callback that does nothing."""


@contextmanager
def open_session(master: str | None = None, name: str = "kstore") -> "Iterator[SparkSession]":
    """The active session, which stays open, else a new one, which is stopped at the end.

    Without a master: that of spark-submit, else all cores of this machine. Raises
    MissingSparkError, which says what to install, and KStoreError if Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSparkError(
            f"this needs Apache Spark ({error}): pip install 'kstore[spark]', and Java 17 or newer"
        ) from None
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.ui.enabled", "false")
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j, Java's processes and Spark have different classes
        raise KStoreError(
            f"Spark did not start a session at {master or 'its default master'}: "
            f"{_first_line(error)}. --master is local[N], spark://HOST:PORT, yarn or k8s://...; "
            "check that Java 17 or newer is installed (JAVA_HOME), and that the cluster runs"
        ) from error
    try:
        yield session
    finally:
        session.stop()


def cores(spark: "SparkSession") -> int:
    """How many tasks the cluster runs at a time."""
    return max(int(spark.sparkContext.defaultParallelism), 1)


def cores_of(master: str | None) -> int:
    """How many tasks ``local[N]`` runs at a time; for another master the cores of this machine."""
    local = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master or "")
    return int(local[1]) if local is not None else os.cpu_count() or 1


def run_tasks(
    spark: "SparkSession",
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    description: str,
) -> Generator[tuple[int, Result], None, None]:
    """Yields the number and the result of each task when it is done.

    ``work`` is a function of a module; tasks and results are pickled. Spark retries a task that
    raises; after the last attempt its error is raised here and the other tasks are cancelled. They
    are also cancelled when the caller closes the generator. Two tasks run for each core.

    Raises kstore's errors as the task raised them. For any other error, Spark's own included, it
    raises KStoreError with the task and the error's first line; the cause is Spark's exception.
    """
    context = spark.sparkContext
    group = f"kstore-{uuid.uuid4().hex}"

    def run(number: int) -> Result:
        name = f"{description} ({number + 1} of {len(tasks)})"
        context.setJobGroup(group, name, True)
        try:
            job = context.parallelize([tasks[number]], 1).map(partial(_run_encoding_errors, work))
            results: list[Result] = job.collect()
        except Exception as error:
            raise _decode_error(error, name) from error
        return results[0]

    waiting = iter(range(len(tasks)))
    running: dict[Future[Any], int] = {}
    max_running = 2 * cores(spark)
    pool = ThreadPoolExecutor(max_running, "kstore-job")
    try:
        while True:
            while len(running) < max_running and (number := next(waiting, None)) is not None:
                running[pool.submit(run, number)] = number
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        if running:
            context.cancelJobGroup(group)
        pool.shutdown(cancel_futures=True)


def _run_encoding_errors(work: Callable[[Task], Result], task: Task) -> Result:
    """Run a task; encode an error in the text of its exception, which is all that Spark transmits.

    Encoded as JSON, not pickled: the text also contains file names and bytes of corrupt records,
    which must not be able to execute code.
    """
    try:
        return work(task)
    except KStoreError as error:
        fields = {name: getattr(error, name) for name in ("reason", *_POSITION_FIELDS)}
        fields |= {"class": type(error).__name__, "errno": getattr(error, "errno", None)}
        text = base64.b64encode(json.dumps(fields).encode()).decode()
        raise RuntimeError(f"{error} <kstore:{text}>") from error
    except Exception as error:
        text = base64.b64encode(json.dumps({"other": _first_line(error)}).encode()).decode()
        raise RuntimeError(f"{error} <kstore:{text}>") from error


def _decode_error(error: Exception, name: str) -> KStoreError:
    """The error of a task, decoded from the last match in Spark's text."""
    found = _ENCODED_ERROR.findall(str(error))
    if not found:  # an executor that died, a job that was cancelled
        return KStoreError(f"{name} failed: {_first_line(error)}")
    fields = json.loads(base64.b64decode(found[-1]))
    if "other" in fields:
        return KStoreError(f"{name} failed: {fields['other']}")
    kind = getattr(errors, fields["class"], KStoreError)
    position = {field: fields[field] for field in _POSITION_FIELDS}
    if not (isinstance(kind, type) and issubclass(kind, KStoreError)):
        kind = KStoreError
    decoded = kind(fields["reason"], **position)
    if isinstance(decoded, StorageError):
        decoded.errno = fields["errno"]
    return decoded


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)  # py4j's own first line has only the call
    text = str(error if java is None else java.getMessage())
    kind = "" if java is not None else f"{type(error).__name__}: "
    return kind + (text.strip().splitlines() or [""])[0]


def task_size(total: int, parallelism: int, most: int | None = None) -> int:
    """The bytes of a task, for so many in total: a few tasks for each core, but not too small."""
    return min(max(total // (_WAVES * parallelism), LEAST_TASK), most or MOST_TASK)


def plan_tasks(
    items: Sequence[tuple[Item, int]], parallelism: int, most: int | None = None
) -> list[list[Item]]:
    """Group consecutive items of work, given with their bytes, into tasks."""
    target = task_size(sum(size for _, size in items), parallelism, most)
    groups: list[list[Item]] = []
    filled = 0
    for item, size in items:
        if not groups or filled + size > target:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups
