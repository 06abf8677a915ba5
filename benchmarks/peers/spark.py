"""Set-up of the contests with Spark: a folder for data, a session, the connector's jars."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import spark_data as bench
from peers.broker import connector_jars
from peers.provide_kafka import MissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def data_folder() -> Iterator[Path]:
    """The folder of the contests' data: KSTORE_BENCH_DIR, which is kept for another run."""
    kept = os.environ.get("KSTORE_BENCH_DIR")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def session() -> "Iterator[tuple[SparkSession, bool]]":
    """A session, and whether it has Spark's own Kafka connector; MissingError without Java.

    All contests of a process share one JVM, and so the same jars.
    """
    if shutil.which("java") is None:
        raise MissingError("there is no java on the path (version 17 or newer)")
    jars, missing = connector_jars(bench.SPARK_VERSION)
    if missing:
        print(f"without Spark's Kafka connector: {missing}", file=sys.stderr)
    with bench.session(jars) as spark:
        yield spark, bool(jars)
