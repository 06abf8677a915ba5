"""One Spark session for all tests: two threads, four attempts a task, as small as it gets."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import kstore
from interop.kafka_jars import CONNECTOR, CONNECTOR_SPARK, prepare

SRC = Path(kstore.__file__).resolve().parents[1]
TESTS = Path(__file__).resolve().parents[1]


def what_is_missing() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed (make spark does)"
    return None if shutil.which("java") else "there is no java on the path (version 17 or newer)"


def version() -> str:
    """Of pyspark; empty where there is none."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return ""


def everything() -> bool:
    """What takes minutes is asked for, too."""
    return os.environ.get("KSTORE_SPARK_ALL") == "1"


def with_connector() -> bool:
    """Spark's own Kafka connector is asked for, and this is a Spark that it works in."""
    return everything() and version().startswith(CONNECTOR_SPARK)


def pytest_report_header() -> str:
    return f"pyspark: {version() or 'none'}{', with the Kafka connector' * with_connector()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = [] if with_connector() else ["connector"]
    without += [] if everything() else ["cluster"]
    if without:
        left_out = [item for item in items if any(map(item.get_closest_marker, without))]
        config.hook.pytest_deselected(items=left_out)  # counted in the last line: not in silence
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if TESTS / "spark" in item.path.parents:
            item.add_marker(pytest.mark.spark)


def connector_jars() -> str:
    directory, reason = prepare(CONNECTOR)
    if reason is not None:
        pytest.fail(reason)
    return ",".join(str(path) for path in sorted(directory.glob("*.jar")))


@pytest.fixture(scope="session")
def java() -> None:
    """Spark can run here; else the test fails or is skipped, as asked for."""
    missing = what_is_missing()
    if missing is not None:
        if os.environ.get("KSTORE_SPARK") == "require":
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The planner and the workers are processes of their own: they find kstore and the tests so.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(SRC), str(TESTS), os.environ.get("PYTHONPATH", "")]
    )
    builder = SparkSession.builder
    if with_connector():
        builder = builder.config("spark.jars", connector_jars())
    session = (
        builder.master("local[2,4]")
        .appName("kstore-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
        .config("spark.python.worker.faulthandler.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def registered(spark: Any) -> Any:
    """The session, with the format known to it."""
    from kstore.spark import register

    register(spark)
    return spark
