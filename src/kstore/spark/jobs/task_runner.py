"""Tasks of a job on Spark: each one a job of Spark's own, so that results come as they are ready.

The driver keeps a few times as many of them under way as there are cores. So it can show what is
done, write it down, and stop at any moment; an executor that is busy does not hold up the others.
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
Piece = TypeVar("Piece")
LEAST_TASK = 32 << 20  # bytes of a store that are worth a task
MOST_TASK = 1 << 30
_WAVES = 4  # tasks a core, so that the last ones end together
_TOLD = re.compile(r"<kstore:([A-Za-z0-9+/=]+)>")  # in what Spark tells of a failed task
_PLACES = ("path", "position", "offset")
Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, what is done


class MissingSparkError(KStoreError, ImportError):
    """A job was asked for where pyspark is not installed."""


def silent(done: int, total: int, name: str) -> None:
    """Progress where nobody looks."""


@contextmanager
def open_session(master: str | None = None, name: str = "kstore") -> "Iterator[SparkSession]":
    """The running session, which stays, else a new one, which is stopped at the end.

    Without a master: what spark-submit says, else all cores of this machine. Raises
    MissingSparkError, which names what to install, and KStoreError where Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingSparkError(
            f"this needs Apache Spark ({error}): pip install 'kstore[spark]', and Java 17 or newer"
        ) from None
    found = SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.ui.enabled", "false")
    try:
        made = builder.getOrCreate()
    except Exception as error:  # of py4j, of Java's processes, of Spark: each has its own kinds
        raise KStoreError(
            f"no session of Spark's came up at {master or 'its default master'}: "
            f"{_first_line(error)}. --master is local[N], spark://HOST:PORT, yarn or k8s://...; "
            "is Java 17 or newer there (JAVA_HOME), and the cluster?"
        ) from error
    try:
        yield made
    finally:
        made.stop()


def cores(spark: "SparkSession") -> int:
    """How many tasks the cluster runs at a time."""
    return max(int(spark.sparkContext.defaultParallelism), 1)


def cores_of(master: str | None) -> int:
    """How many tasks it would run at a time, as far as its name tells; else this machine's."""
    told = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master or "")
    return int(told[1]) if told is not None else os.cpu_count() or 1


def run_tasks(
    spark: "SparkSession",
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    description: str,
) -> Generator[tuple[int, Result], None, None]:
    """The number of each task with its result, as they are done.

    ``work`` is a function of a module, tasks and results are pickled. A task that raises is tried
    again as Spark is set to, then its error is raised here and the others are cancelled; so they
    are when the caller stops asking. Two tasks a core are under way at a time.

    Raises an error of kstore's as the task raised it, and KStoreError with the first line of any
    other (Spark's own among them), which names the task; what Spark told is its cause.
    """
    context = spark.sparkContext
    group = f"kstore-{uuid.uuid4().hex}"

    def run(number: int) -> Result:
        name = f"{description} ({number + 1} of {len(tasks)})"
        context.setJobGroup(group, name, True)
        try:
            telling = context.parallelize([tasks[number]], 1).map(partial(_told, work))
            found: list[Result] = telling.collect()
        except Exception as error:
            raise _as_raised(error, name) from error
        return found[0]

    waiting = iter(range(len(tasks)))
    running: dict[Future[Any], int] = {}
    most = 2 * cores(spark)
    pool = ThreadPoolExecutor(most, "kstore-job")
    try:
        while True:
            while len(running) < most and (number := next(waiting, None)) is not None:
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


def _told(work: Callable[[Task], Result], task: Task) -> Result:
    """Do a task; of an error Spark carries nothing but its text, so that holds the error.

    As JSON: names of files and what a damaged record says stand in that text, too, and must not
    be able to do more than to be read.
    """
    try:
        return work(task)
    except KStoreError as error:
        told = {name: getattr(error, name) for name in ("reason", *_PLACES)}
        told |= {"class": type(error).__name__, "errno": getattr(error, "errno", None)}
        text = base64.b64encode(json.dumps(told).encode()).decode()
        raise RuntimeError(f"{error} <kstore:{text}>") from error
    except Exception as error:
        text = base64.b64encode(json.dumps({"other": _first_line(error)}).encode()).decode()
        raise RuntimeError(f"{error} <kstore:{text}>") from error


def _as_raised(error: Exception, name: str) -> KStoreError:
    """The error of a task, from what Spark tells of it: ours comes last there."""
    found = _TOLD.findall(str(error))
    if not found:  # an executor that died, a job that was cancelled
        return KStoreError(f"{name} failed: {_first_line(error)}")
    told = json.loads(base64.b64decode(found[-1]))
    if "other" in told:
        return KStoreError(f"{name} failed: {told['other']}")
    kind = getattr(errors, told["class"], KStoreError)
    places = {place: told[place] for place in _PLACES}
    if not (isinstance(kind, type) and issubclass(kind, KStoreError)):
        kind = KStoreError
    raised = kind(told["reason"], **places)
    if isinstance(raised, StorageError):
        raised.errno = told["errno"]
    return raised


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)  # py4j's own first line tells only the call
    text = str(error if java is None else java.getMessage())
    kind = "" if java is not None else f"{type(error).__name__}: "
    return kind + (text.strip().splitlines() or [""])[0]


def task_size(total: int, parallelism: int, most: int | None = None) -> int:
    """How many of so many bytes a task is to have: at least LEAST_TASK, some for each core."""
    return min(max(total // (_WAVES * parallelism), LEAST_TASK), most or MOST_TASK)


def plan_tasks(
    pieces: Sequence[tuple[Piece, int]], parallelism: int, most: int | None = None
) -> list[list[Piece]]:
    """Pieces of a store, each with its bytes, as tasks: neighbours are put together."""
    target = task_size(sum(size for _, size in pieces), parallelism, most)
    groups: list[list[Piece]] = []
    filled = 0
    for piece, size in pieces:
        if not groups or filled + size > target:
            groups.append([])
            filled = 0
        groups[-1].append(piece)
        filled += size
    return groups
