"""Kafka 4.3's kafka-configs (that of 3.9 knows no groups) says the same of kstore and of Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node

VERSION = "4.3.0"
TOOL = "kafka.admin.ConfigCommand"


@pytest.fixture(params=["kstore", VERSION])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node | KstoreNode]:
    libs(VERSION)
    with either_node(request.param, tmp_path) as broker:
        yield broker


def test_settings_of_a_group(served: Node | KstoreNode) -> None:
    def configs(*words: str) -> str:
        server = ("--bootstrap-server", served.address)
        done = run(VERSION, TOOL, "--entity-type", "groups", "--entity-name", "g", *words, *server)
        return done.stdout.decode()

    timeout = "consumer.session.timeout.ms=50000"
    assert configs("--alter", "--add-config", timeout).startswith("Completed updating config")
    of_broker = "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000"
    expected = (
        f"Dynamic configs for group g are: {timeout} sensitive=false "
        f"synonyms={{DYNAMIC_GROUP_CONFIG:{timeout}, {of_broker}}}"
    )
    assert configs("--describe").split() == expected.split()
    assert "consumer.heartbeat.interval.ms=5000" in configs("--describe", "--all").split()
    configs("--alter", "--delete-config", "consumer.session.timeout.ms")
    assert configs("--describe").split()[-2:] == ["dynamic", "config."]  # it has none
