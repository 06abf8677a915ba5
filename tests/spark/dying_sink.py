"""A sink whose commit takes the driver with it, at a point of one's choice."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

import kstore.store.atomic_publish as publication
from kstore.spark.data_source import KStoreDataSource
from kstore.spark.sink.options import prepare_sink
from kstore.spark.sink.spark_writers import KStoreStreamWriter, KStoreWriter


def source(point: str) -> type[KStoreDataSource]:
    """``format("kstore")``, whose commits end at a point.

    before: nothing was done; machine: the JVM dies, and the commit continues; between: one
    partition is appended and another is not; unshown, shown: on both sides of the switch;
    after: everything is done, and Spark has not heard of it.
    """
    return type("KStoreDataSource", (Deadly,), {"point": point})


class Deadly(KStoreDataSource):
    point = ""

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return DeadlyWriter(prepare_sink(self.options, schema), self.point)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return DeadlyStreamWriter(prepare_sink(self.options, schema), self.point)


class DeadlyWriter(KStoreWriter):
    def __init__(self, options: Any, point: str) -> None:
        super().__init__(options)
        self._point = point

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        doomed(self._point, lambda: super(DeadlyWriter, self).commit(messages))


class DeadlyStreamWriter(KStoreStreamWriter):
    def __init__(self, options: Any, point: str) -> None:
        super().__init__(options)
        self._point = point

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        doomed(self._point, lambda: super(DeadlyStreamWriter, self).commit(messages, batchId))


def doomed(point: str, work: Callable[[], None]) -> None:
    """Do what a commit does, up to a point."""
    append, show = publication._append, publication.Publication.show
    count = 0

    def appended(*arguments: Any) -> None:
        nonlocal count
        append(*arguments)
        count += 1
        if point == "between":
            die()

    def shown(self: Any, published: str | None) -> None:
        if point == "unshown":
            die()
        show(self, published)
        if point == "shown":
            die()

    publication._append = appended
    publication.Publication.show = shown
    if point == "before":
        die()
    if point == "machine":
        machine, driver = above()
        os.kill(driver, signal.SIGKILL)
        os.kill(machine, signal.SIGKILL)
    work()
    die()


def die() -> None:
    """The driver, its JVM and this process at once."""
    machine, driver = above()
    for process in (driver, machine, os.getpid()):
        os.kill(process, signal.SIGKILL)


def above() -> tuple[int, int]:
    """The JVM above this process, and the Python program above that."""
    process = os.getpid()
    while b"java" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]:
        process = parent(process)
    return process, parent(process)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
