"""Metrics of the broker, under the names that Kafka's JMX exporters use.

The names are Kafka's MBeans in lower case: ``kafka.server:type=BrokerTopicMetrics,
name=BytesInPerSec`` is ``kafka_server_brokertopicmetrics_bytesin_total``. A scrape reads the
values, on a thread other than those that change them.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from kstore.broker.metrics.counters import BrokerCounters, TopicCounters, request_name
from kstore.broker.metrics.time_summary import TimeSummary
from kstore.cluster.local_image import LocalPartitions
from kstore.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kstore.broker.listener_set import ListenerSet
    from kstore.broker.services import Services

# As the exporters format Kafka's percentiles.
_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
_TOPIC_FAMILIES = (
    ("bytesin", "bytes_in", "Bytes of records that clients have produced"),
    ("messagesin", "messages_in", "Records that clients have produced"),
    ("bytesout", "bytes_out", "Bytes of records that consumers were sent"),
    ("totalproducerequests", "produces", "Produce requests, counted for each partition"),
    ("failedproducerequests", "failed_produces", "Produce requests that got an error, likewise"),
    ("totalfetchrequests", "fetches", "Answers to Fetch requests, counted for each partition"),
    ("failedfetchrequests", "failed_fetches", "Answers to Fetch requests with an error, likewise"),
)
_GROUP_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_RUNNING, _RECOVERING = 3, 2  # Kafka's broker states


class BrokerFamilies:
    """The metrics of a scrape, except those of partitions. ``collect`` is thread safe."""

    def __init__(
        self,
        services: "Services",
        counters: BrokerCounters,
        listeners: "ListenerSet",
        loop_clock: int | None,
    ) -> None:
        self._services = services
        self._counters = counters
        self._listeners = listeners
        self._loop_clock = loop_clock  # clock for the CPU time of the event loop's thread
        self._deleted = TopicCounters()  # totals of deleted topics

    def collect(self) -> Iterator[Metric]:
        yield from self._topics()
        yield from self._requests()
        yield from self._waiting()
        yield from self._connections()
        yield from self._partitions()
        yield from self._logs()
        yield from self._groups()
        yield from self._throttling()

    # --- clients --------------------------------------------------------------------------

    def _topics(self) -> Iterator[Metric]:
        existing, counters = self._services.metadata.image.topics, self._counters.topics
        for name in list(counters):
            if name not in existing:
                self._deleted.add(counters.pop(name))
        for suffix, attribute, text in _TOPIC_FAMILIES:
            family = CounterMetricFamily(
                f"kafka_server_brokertopicmetrics_{suffix}", text, labels=("topic",)
            )
            total = getattr(self._deleted, attribute)
            for name, found in list(counters.items()):
                value = getattr(found, attribute)
                total += value
                family.add_metric((name,), value)
            # as in Kafka: the total of all topics
            family.add_sample(f"{family.name}_total", {}, total)
            yield family

    def _requests(self) -> Iterator[Metric]:
        count = CounterMetricFamily(
            "kafka_network_requestmetrics_requests", "Requests that were answered",
            labels=("request", "version"),
        )  # fmt: skip
        for (key, version), number in sorted(self._counters.requests.items()):
            for name in _names(key):
                count.add_metric((name, str(version)), number)
        yield count
        times = SummaryMetricFamily(
            "kafka_network_requestmetrics_totaltimems",
            "Milliseconds from the last byte of a request until its answer is queued to be sent",
            labels=("request",),
        )
        for key, summary in sorted(self._counters.times.items()):
            for name in _names(key):
                _add_summary(times, {"request": name}, summary)
        yield times

    def _waiting(self) -> Iterator[Metric]:
        services = self._services
        sizes = {
            "Fetch": services.delayed_fetches.requests,
            "Produce": services.delayed_produces.requests,
            "Rebalance": self._classic_groups()["PreparingRebalance"],
        }
        for suffix in ("purgatorysize", "numdelayedoperations"):
            yield _labelled(
                f"kafka_server_delayedoperationpurgatory_{suffix}",
                "Requests that wait: for records, for an acknowledgement, for members of a group",
                "delayedOperation",
                sizes,
            )
        yield GaugeMetricFamily(
            "kafka_network_requestchannel_requestqueuesize",
            "Work for the disk that is not finished",
            services.workers.unfinished,
        )

    def _connections(self) -> Iterator[Metric]:
        counts = self._listeners.counts()
        prefix = "kafka_server_socket_server_metrics_connection"
        yield _labelled(
            f"{prefix}_count", "Connections that are open", "listener",
            {name: is_open for name, (is_open, _) in counts.items()},
        )  # fmt: skip
        created = CounterMetricFamily(
            f"{prefix}_creation", "Connections that were accepted", labels=("listener",)
        )
        for name, (_, accepted) in counts.items():
            created.add_metric((name,), accepted)
        yield created

    def _throttling(self) -> Iterator[Metric]:
        throttling, now = self._services.throttling, self._services.loop.time()
        for kind in ("produce", "fetch", "request"):
            yield GaugeMetricFamily(
                f"kafka_server_{kind}_throttle_time",
                "Milliseconds that the latest client throttled by this quota had to wait, 0 if the "
                "last eleven seconds had none",
                throttling.latest_ms(kind, now),
            )

    # --- partitions and logs --------------------------------------------------------------

    def _partitions(self) -> Iterator[Metric]:
        found = self._count_replicas()
        names = {
            "kafka_server_replicamanager_partitioncount": "partitions",
            "kafka_server_replicamanager_leadercount": "leaders",
            "kafka_server_replicamanager_underreplicatedpartitions": "under_replicated",
            "kafka_server_replicamanager_offlinereplicacount": "offline_replicas",
            "kafka_controller_kafkacontroller_offlinepartitionscount": "leaderless",
            "kafka_controller_kafkacontroller_globalpartitioncount": "partitions",
            "kafka_controller_kafkacontroller_globaltopiccount": "topics",
        }
        for name, key in names.items():
            yield GaugeMetricFamily(name, _HELP[key], found[key])
        transactions = self._services.transactions
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            "Partitions whose last stable offset hangs: `kstore transactions abort` ends that",
            0 if transactions is None else transactions.hanging.partition_count,
        )
        yield GaugeMetricFamily(
            "kafka_controller_kafkacontroller_activecontrollercount", "The only node controls", 1
        )

    def _count_replicas(self) -> Counter[str]:
        found, node = Counter[str](), self._services.metadata.node_id
        for topic in self._services.metadata.image.topics.values():
            found["topics"] += 1
            if isinstance(topic.partitions, LocalPartitions):  # one replica each
                here, offline = topic.partitions.count_here(), topic.partitions.count_offline()
                found["partitions"] += here
                found["offline_replicas"] += offline
                found["leaderless"] += offline
                found["leaders"] += here - offline
                continue
            found["partitions"] += len(topic.partitions)
            for each in topic.partitions.values():
                found["leaders"] += each.leader == node
                found["leaderless"] += each.leader < 0
                found["offline_replicas"] += node in each.offline_replicas
                found["under_replicated"] += each.leader == node and len(each.isr) < len(
                    each.replicas
                )
        return found

    def _logs(self) -> Iterator[Metric]:
        manager = self._services.store._manager
        offline = {each.path: int(each.offline is not None) for each in manager._dirs}
        yield GaugeMetricFamily(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that have failed", sum(offline.values()),
        )  # fmt: skip
        yield _labelled(
            "kafka_log_logmanager_logdirectoryoffline", "1: the log directory has failed",
            "logDirectory", offline,
        )  # fmt: skip
        recovering = manager.recoveries.waiting_count
        yield GaugeMetricFamily(
            "kafka_log_logmanager_remaininglogstorecover",
            "Partitions that are not recovered yet after an unclean stop", recovering,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "kafka_server_kafkaserver_brokerstate",
            "Kafka's state of a broker: 3 runs, 2 recovers",
            _RECOVERING if recovering else _RUNNING,
        )
        flushes = SummaryMetricFamily(
            "kafka_log_logflushstats_logflushrateandtimems", "Milliseconds that syncs of logs took"
        )
        _add_summary(flushes, {}, self._counters.syncs)
        yield flushes
        if self._loop_clock is not None:
            with suppress(OSError):  # the thread has ended
                yield CounterMetricFamily(
                    "kstore_broker_loop_cpu_seconds",
                    "CPU time of the thread that answers all requests; 1 a second is all it has",
                    time.clock_gettime(self._loop_clock),
                )

    # --- groups ---------------------------------------------------------------------------

    def _classic_groups(self) -> Counter[str]:
        groups = self._services.groups
        if groups is None:
            return Counter()
        return Counter(group.state.value for group in groups.coordinator)

    def _groups(self) -> Iterator[Metric]:
        classic, groups = self._classic_groups(), self._services.groups
        prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
        yield GaugeMetricFamily(prefix, "Groups of the classic protocol", classic.total())
        for state in _GROUP_STATES:
            text = f"Groups of the classic protocol in the state {state}"
            yield GaugeMetricFamily(prefix + state.lower(), text, classic[state])
        states = Counter() if groups is None else groups.consumers.count_by_state()
        prefix = "kafka_server_group_coordinator_metrics"
        yield _labelled(
            f"{prefix}_consumer_group_count", "Groups of the consumer protocol (KIP-848)",
            "state", {state.lower(): count for state, count in states.items()},
        )  # fmt: skip
        yield _labelled(
            f"{prefix}_group_count", "Groups", "protocol",
            {"classic": classic.total(), "consumer": states.total()},
        )  # fmt: skip


_HELP = {
    "topics": "Topics",
    "partitions": "Partitions",
    "leaders": "Partitions that this node leads",
    "under_replicated": "Partitions without all of their in-sync replicas",
    "offline_replicas": "Replicas in log directories that have failed",
    "leaderless": "Partitions that no node leads",
}


def _names(key: int) -> tuple[str, ...]:
    """The names of a request; Kafka counts a consumer's Fetch under two."""
    return ("Fetch", "FetchConsumer") if key == ApiKey.FETCH else (request_name(key),)


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _add_summary(family: Metric, labels: dict[str, str], summary: TimeSummary) -> None:
    """Add a summary in milliseconds."""
    name = family.name
    values = summary.quantiles([float(each) for each in _QUANTILES])
    for quantile, seconds in zip(_QUANTILES, values, strict=True):
        family.add_sample(name, {**labels, "quantile": quantile}, seconds * 1000)
    family.add_sample(f"{name}_count", labels, summary.count)
    family.add_sample(f"{name}_sum", labels, summary.total * 1000)
