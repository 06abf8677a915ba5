"""Runs Spark jobs without Spark: their tasks run sequentially in the test's process."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

NO_SPARK: Any = None  # the session that such a job gets


def run_here(spark: Any, tasks: Any, work: Any, description: str) -> Iterator[Any]:
    """Replaces run_tasks of the jobs."""
    for number, task in enumerate(tasks):
        yield number, work(task)


def use_tasks_here(monkeypatch: pytest.MonkeyPatch, *jobs: ModuleType) -> None:
    """Replace these modules' calls of Spark: two cores, and all executors are usable."""
    fakes = {
        "run_tasks": run_here,
        "check_executors": lambda *_: None,
        "cores": lambda spark: 2,
    }
    for module in jobs:
        found = [name for name in fakes if hasattr(module, name)]
        assert found, f"{module.__name__} calls no Spark"
        for name in found:
            monkeypatch.setattr(module, name, fakes[name])
