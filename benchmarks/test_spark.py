"""Every contest with Spark runs at 1/100 of its size, and all contestants agree."""

import importlib.util
import shutil
from importlib import import_module

import pytest

from interop.kafka_jars import unavailable

SUITES = {"spark": 5, "spark_write": 2, "spark_stream": 1, "spark_verify": 1, "spark_jobs": 5}


@pytest.mark.spark
@pytest.mark.parametrize("suite", SUITES)
def test_contests(monkeypatch, suite):
    if importlib.util.find_spec("pyspark") is None:
        unavailable("pyspark is not installed (make spark does)")
    if shutil.which("java") is None:
        unavailable("there is no java on the path (version 17 or newer)")
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.01")
    names = []
    for contest in import_module(f"contests_{suite}").contests():
        contest.check()
        names.append(contest.name)
    assert len(set(names)) == SUITES[suite]
