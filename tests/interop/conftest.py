"""Interop tests run against each version of Kafka in turn; all of them carry the marker."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import VERSIONS, libs
from interop.node import Node


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("KSTORE_INTEROP_ALL") != "1":
        left_out = [item for item in items if item.get_closest_marker("all_versions")]
        config.hook.pytest_deselected(items=left_out)  # counted in the last line: not in silence
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.interop)
            # A busy machine gives them longer by --timeout.
            if item.get_closest_marker("timeout") is None and config.getoption("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> str:
    """A version whose jars were fetched; without them the test fails or is skipped."""
    libs(request.param)
    return request.param


@pytest.fixture
def node(kafka: str, tmp_path: Path) -> Iterator[Node]:
    """A broker that is not started yet, in a folder of its own."""
    root = tmp_path / "node"
    root.mkdir()
    broker = Node(kafka, root)
    try:
        yield broker
    finally:
        broker.kill()
