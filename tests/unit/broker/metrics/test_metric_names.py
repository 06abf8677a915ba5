"""Names and labels of the metrics are those of Kafka 3.9.2 behind the Prometheus JMX exporter."""

from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

import kstore

NAMES = Path(__file__).parents[3] / "data" / "metrics-3.9.2.txt"
# Not in the recording, with the reason.
OTHERS = {
    "kafka_log_logflushstats_logflushrateandtimems_sum": "the exporter's rules lose the sum",
    "kafka_network_requestmetrics_totaltimems_sum": "likewise",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total topic": "from a first failure on",
    "kafka_server_brokertopicmetrics_failedproducerequests_total topic": "likewise",
    "kafka_log_logmanager_remaininglogstorecover": "Kafka has one for each directory, at its start",
    # Metrics of Kafka's other library, for which the exporter's example has no rule.
    "kafka_server_fetch_throttle_time": "",
    "kafka_server_produce_throttle_time": "",
    "kafka_server_request_throttle_time": "",
    "kafka_server_group_coordinator_metrics_group_count": "",
    "kafka_server_group_coordinator_metrics_consumer_group_count": "",
    "kafka_server_socket_server_metrics_connection_count": "",
    "kafka_server_socket_server_metrics_connection_creation_total": "",
}
LEAST_COMMON = 40
WAIT = 60.0


def shown(broker: kstore.Broker) -> set[str]:
    """Name and sorted labels of each sample that Kafka has, too."""
    with urlopen(f"http://{broker.metrics_address}/metrics", timeout=WAIT) as answer:
        text = answer.read().decode()
    return {
        f"{sample.name} {','.join(sorted(sample.labels))}".rstrip()
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("kafka_")
    }


def use(address: str) -> None:
    """A transaction and a group, so that their metrics exist."""
    servers = {"bootstrap.servers": address}
    producer = Producer(servers | {"transactional.id": "x"})
    producer.init_transactions(WAIT)
    producer.begin_transaction()
    producer.produce("t", b"value")
    producer.commit_transaction(WAIT)
    consumer = Consumer(servers | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(WAIT)
    assert message is not None
    assert message.value() == b"value"
    consumer.commit(asynchronous=False)
    consumer.close()


def test_each_name_is_kafkas_or_has_a_reason(tmp_path: Path) -> None:
    recorded = {line.rstrip() for line in NAMES.read_text().splitlines()}
    with kstore.open(tmp_path) as store:
        store.create_topic("t")
        with kstore.Broker(store, port=0, settings={"kstore.metrics.port": 0}) as broker:
            use(broker.bootstrap_servers)
            found = shown(broker)
    exceptions = {each for each in found | recorded if {each, each.split()[0]} & OTHERS.keys()}
    assert found - recorded - exceptions == set()
    assert len(found & recorded) >= LEAST_COMMON
    assert recorded & exceptions == set(), "no longer an exception"
