"""What a client counts: totals, and rates, averages and maxima of the last minute as in Kafka."""

import math
from pathlib import Path

import pytest

from kstore.broker.broker import serve
from kstore.errors import KStoreError, MessageTooLargeError, SourceError
from kstore.record.builder import BatchBuilder
from kstore.remote import client_metrics
from kstore.remote.client_metrics import ClientMetrics
from kstore.remote.produce_counts import ProduceCounts
from kstore.remote.store import RemoteStore

ONE = "{client-id=one}"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(client_metrics, "monotonic", clock)
    return clock


def values(metrics: ClientMetrics) -> dict[str, float]:
    """The metrics of a producer without what all names share."""
    found = metrics.values("producer", "one")
    return {name.split(":")[1] + name.partition(ONE[:-1])[2][:-1]: found[name] for name in found}


def test_the_time_of_a_rate_is_one_interval_at_least(clock: Clock) -> None:
    metrics = ClientMetrics()
    metrics.count("record-send", 60)
    assert values(metrics) == {"record-send-total": 60, "record-send-rate": 60 / 30}
    clock.now += 10
    assert values(metrics)["record-send-rate"] == 60 / 40
    clock.now += 30
    metrics.count("record-send", 20)
    assert values(metrics)["record-send-rate"] == 80 / 40


def test_values_older_than_two_intervals_are_forgotten_except_in_totals(clock: Clock) -> None:
    metrics = ClientMetrics()
    metrics.count("fetch", 8)
    metrics.measure("batch-size", 50)
    clock.now += 40
    metrics.count("fetch", 3)
    metrics.measure("batch-size", 10)
    assert values(metrics)["batch-size-max"] == 50
    assert values(metrics)["batch-size-avg"] == 30
    clock.now += 25  # the first sample is 65 s old
    found = values(metrics)
    assert (found["batch-size-max"], found["batch-size-avg"]) == (10, 10)
    assert found["fetch-total"] == 11
    assert found["fetch-rate"] == 3 / 55
    clock.now += 100
    found = values(metrics)
    assert (found["fetch-total"], found["fetch-rate"]) == (11, 0)
    assert math.isnan(found["batch-size-avg"])
    assert math.isnan(found["batch-size-max"])


def test_tags_follow_the_client_id() -> None:
    metrics = ClientMetrics()
    metrics.count("byte", 7, group="topic-metrics", topic="orders")
    metrics.add("rebalance", 1, group="coordinator-metrics")
    assert {name for name in metrics.values("c", "one") if "total" in name} == {
        "c-topic-metrics:byte-total:{client-id=one, topic=orders}",
        "c-coordinator-metrics:rebalance-total:{client-id=one}",
    }


@pytest.mark.parametrize(
    ("count", "error", "failed"),
    [
        (3, SourceError("no response"), 3),
        (3, MessageTooLargeError("split"), None),  # its records are sent again
        (1, MessageTooLargeError("one record"), 1),
    ],
)
def test_records_that_fail_and_are_sent_again(
    count: int, error: KStoreError, failed: int | None
) -> None:
    builder = BatchBuilder(size_limit=1000)
    for _ in range(count):
        builder.append(b"v", timestamp=0)
    batch = builder.build()
    metrics = ClientMetrics()
    counts = ProduceCounts(metrics, "orders", batch)
    counts.attempt()
    assert "record-retry-total" not in values(metrics)
    counts.attempt()
    counts.fail(error)
    found = values(metrics)
    assert found["record-send-total"] == found["record-retry-total"] == count
    assert found.get("record-error-total") == failed
    assert found["byte-total, topic=orders"] == found["batch-size-max"] == len(batch)


def test_connections_count_their_bytes(tmp_path: Path) -> None:
    with serve(tmp_path, port=0) as broker:
        broker.store.create_topic("orders")
        with RemoteStore(broker.bootstrap_servers, client_id="one") as store:
            before = values(store.cluster.metrics)
            with store.producer("orders") as producer:
                producer.send(b"v").result(30)
            assert [each.client_id for each in store._of_producers] == ["one"]
            store.cluster.metadata([])
            found = values(store.cluster.metrics)
    assert before["connection-creation-total"] == 1
    assert found["connection-creation-total"] > 1  # those of the producer, too
    assert found["request-total"] == found["response-total"] > before["request-total"]
    assert found["network-io-total"] == 2 * found["request-total"]
    size = found["outgoing-byte-total"]
    assert size == pytest.approx(found["request-size-avg"] * found["request-total"])
    assert found["record-send-total"] == 1
    assert found["record-error-total"] == found["record-retry-total"] == 0
