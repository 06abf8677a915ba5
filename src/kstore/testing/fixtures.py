"""pytest fixtures that give a test a Kafka broker.

In ``conftest.py``: ``pytest_plugins = ["kstore.testing.fixtures"]``. The marker
``kafka_topics("orders", payments=3)`` creates topics before the test: positional names get one
partition, keywords the given number.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore.broker.broker import Broker, serve
from kstore.testing.broker_process import BrokerProcess
from kstore.testing.settings import IN_OWN_DIRECTORY, settings_for_tests

MARKER = "kafka_topics"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(*names, **partitions): topics that the test's Kafka broker has"
    )


def topics_of(request: pytest.FixtureRequest) -> dict[str, int]:
    """The topics of a test's markers, with their number of partitions."""
    found: dict[str, int] = {}
    for marker in request.node.iter_markers(MARKER):
        found |= dict.fromkeys(marker.args, 1)
        found |= marker.kwargs
    return found


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A Kafka broker in a child process, with ``kill``, ``restart`` and ``bootstrap_servers``."""
    with BrokerProcess(tmp_path / "kafka") as broker:
        for name, partitions in topics_of(request).items():
            broker.create_topic(name, partitions)
        yield broker


@pytest.fixture
def in_process_kafka_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A Kafka broker on a thread of the test's process; ``broker.store`` is its store.

    It starts in milliseconds, and the test can read the store without a client.
    """
    settings = settings_for_tests(IN_OWN_DIRECTORY)
    with serve(tmp_path / "kafka", port=0, settings=settings) as broker:
        for name, partitions in topics_of(request).items():
            broker.store.create_topic(name, partitions)
        yield broker
