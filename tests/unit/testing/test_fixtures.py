"""The fixtures in a test suite of a user."""

import pytest

import kstore
from kstore.errors import PolicyViolationError
from kstore.remote.store import RemoteStore

pytest_plugins = ["pytester"]

_SUITE = """
import pytest
from kstore.remote.store import RemoteStore

@pytest.mark.kafka_topics("orders", payments=3)
def test_in_a_process(kafka_broker):
    with RemoteStore(kafka_broker.bootstrap_servers) as cluster:
        assert {name: len(topic) for name, topic in cluster.items()} == {"orders": 1, "payments": 3}
    assert kafka_broker.settings == {"group.initial.rebalance.delay.ms": 0}  # no wait of 3 s
    kafka_broker.kill()
    kafka_broker.start()

@pytest.mark.kafka_topics("orders")
def test_in_this_process(in_process_kafka_broker):
    broker = in_process_kafka_broker
    assert broker._settings.group_initial_rebalance_delay_ms == 0
    with RemoteStore(broker.bootstrap_servers) as cluster:
        with cluster.producer("orders") as producer:
            producer.send(b"paid")
        assert [record.value for record in broker.store["orders"][0]] == [b"paid"]
        broker.store.create_topic("of-the-store")
        for name in ("orders", "of-the-store"):
            cluster.delete_topic(name)
    assert broker.store.topics == []
"""


def test_both_fixtures_with_topics(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['kstore.testing.fixtures']")
    pytester.makepyfile(_SUITE)
    outcome = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2)


def test_clients_delete_the_topics_of_a_temporary_broker() -> None:
    with kstore.testing.broker({"orders": 2}) as broker:
        with RemoteStore(broker.bootstrap_servers) as cluster:
            cluster.delete_topic("orders")
        assert broker.store.topics == []
    unchanged = {"kstore.delete.existing.topics": False}
    with kstore.testing.broker(["orders"], settings=unchanged) as broker:
        with RemoteStore(broker.bootstrap_servers) as cluster, pytest.raises(PolicyViolationError):
            cluster.delete_topic("orders")
        assert broker.store.topics == ["orders"]
