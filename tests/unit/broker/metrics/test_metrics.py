"""``/metrics``: each value is compared with what clients really did, read by Prometheus' parser."""

import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

import kstore
from kstore.broker.metrics import partition_lines
from kstore.broker.metrics.counters import BrokerCounters
from kstore.broker.metrics.kafka_metrics import BrokerFamilies
from kstore.broker.metrics.partition_lines import SLICE, PartitionLines
from kstore.cluster.client_quotas import entity_of
from kstore.errors import AddressError, InvalidConfigError, StorageError
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.list_offsets import ListOffsetsRequest
from kstore.protocol.messages.produce import ProduceRequest
from support.handler_tester import HandlerTester, topic_image
from support.raw_client import RawClient

WAIT = 30
ON = {"kstore.metrics.port": 0}
NO_LISTENERS: Any = SimpleNamespace(counts=dict)


class Page:
    """One scrape."""

    def __init__(self, broker: kstore.Broker) -> None:
        with urlopen(f"http://{broker.metrics_address}/metrics", timeout=WAIT) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def has(self, name: str, **labels: str) -> bool:
        return (name, frozenset(labels.items())) in self.samples


def eventually(broker: kstore.Broker, name: str, wanted: float, **labels: str) -> Page:
    """Scrape until a value is reached that the broker's thread is about to reach."""
    for _ in range(1000):
        page = Page(broker)
        if page.has(name, **labels) and page.value(name, **labels) == wanted:
            return page
    raise AssertionError(f"{name} is not {wanted}: {page.samples.get((name, frozenset(labels)))}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        yield store


def batch_of(*values: bytes) -> bytes:
    """A record batch, as a log has it."""
    with tempfile.TemporaryDirectory() as path, kstore.open(path) as scratch:
        log = scratch.create_topic("t")[0]
        log.extend(values)
        records = log.read(0, 1 << 20)
        assert records is not None
        return bytes(memoryview(records))


def produce(client: RawClient, topic: str, batch: bytes, *, acks: int = 1, version: int = 8) -> Any:
    partition = ProduceRequest.TopicData.PartitionData(index=0, records=batch)
    asked = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicData(topic, partition_data=[partition])],
    )
    return client.ask(asked, version).responses[0].partition_responses[0]


def fetch_request(topic: str, offset: int, *, min_bytes: int = 1, wait_ms: int = 0) -> FetchRequest:
    wanted = FetchRequest.Topics.Partitions(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=1 << 20,
        topics=[FetchRequest.Topics(topic=topic, partitions=[wanted])],
    )  # fmt: skip


def test_what_clients_produce_and_fetch(store: kstore.Store) -> None:
    store.create_topic("orders")
    batch = batch_of(b"one", b"two", b"three")
    prefix = "kafka_server_brokertopicmetrics_"
    with (
        kstore.Broker(store, port=0, settings=ON) as broker,
        RawClient(broker.port) as client,
    ):
        for _ in range(3):  # the first by a disk worker, the others by the bytes of the frame
            assert produce(client, "orders", batch).error_code == 0
        assert produce(client, "orders", batch, version=3).error_code == 0
        assert produce(client, "orders", batch[:-1] + b"?").error_code == 2  # a wrong checksum
        assert produce(client, "absent", batch).error_code == 3
        answer = client.ask(fetch_request("orders", 0), 4)
        sent = len(answer.responses[0].partitions[0].records)
        answer = client.ask(fetch_request("orders", 9), 11)
        sent += len(answer.responses[0].partitions[0].records)
        assert client.ask(fetch_request("orders", 99), 4).responses[0].partitions[0].error_code
        page = Page(broker)
    expected = {
        "bytesin": 4 * len(batch),
        "messagesin": 12,
        "bytesout": sent,
        "totalproducerequests": 5,
        "failedproducerequests": 1,
        "totalfetchrequests": 3,
        "failedfetchrequests": 1,
    }
    for name, wanted in expected.items():
        assert page.value(f"{prefix}{name}_total", topic="orders") == wanted, name
        assert page.value(f"{prefix}{name}_total") == wanted, name
    assert not page.has(f"{prefix}bytesin_total", topic="absent")


def test_a_repeated_batch_is_a_request_without_bytes(store: kstore.Store) -> None:
    store.create_topic("orders")
    with kstore.open(os.path.join(store.paths[0], os.pardir, "other")) as other:
        log = other.create_topic("t")[0]
        with other.producer(enable_idempotence=True) as producer:
            producer.send("t", b"once")
            producer.flush()
        records = log.read(0, 1 << 20)
        assert records is not None
        batch = bytes(memoryview(records))
    with kstore.Broker(store, port=0, settings=ON) as broker, RawClient(broker.port) as client:
        assert produce(client, "orders", batch).base_offset == 0
        assert produce(client, "orders", batch).base_offset == 0
        page = Page(broker)
    assert page.value("kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 1
    assert page.value("kafka_server_brokertopicmetrics_bytesin_total", topic="orders") == len(batch)
    prefix = "kafka_server_brokertopicmetrics_totalproducerequests_total"
    assert page.value(prefix, topic="orders") == 2


def test_requests_are_counted_by_name_and_version(store: kstore.Store) -> None:
    store.create_topic("orders")
    name = "kafka_network_requestmetrics_requests_total"
    with kstore.Broker(store, port=0, settings=ON) as broker, RawClient(broker.port) as client:
        for version in (1, 1, 5):
            client.ask(ListOffsetsRequest(), version)
        produce(client, "orders", batch_of(b"x"), version=3)
        client.ask(fetch_request("orders", 0), 4)
        page = Page(broker)
    assert page.value(name, request="ListOffsets", version="1") == 2
    assert page.value(name, request="ListOffsets", version="5") == 1
    assert page.value(name, request="Produce", version="3") == 1
    assert page.value(name, request="Fetch", version="4") == 1
    assert page.value(name, request="FetchConsumer", version="4") == 1
    times = "kafka_network_requestmetrics_totaltimems"
    assert page.value(f"{times}_count", request="ListOffsets") == 3
    total = page.value(f"{times}_sum", request="ListOffsets")
    assert 0 < page.value(times, request="ListOffsets", quantile="0.50") <= total * 17 / 16 + 0.1


def test_versions_that_are_not_served_are_one(store: kstore.Store) -> None:
    """A client chooses the number: it must not make metrics."""
    with kstore.Broker(store, port=0, settings=ON) as broker:
        for version in (77, 78):
            with RawClient(broker.port) as client:
                client._socket.sendall(bytes([0, 0, 0, 10, 0, 18, 0, version]) + bytes(6))
                assert client._receive_exactly(4)
        page = Page(broker)
    name = "kafka_network_requestmetrics_requests_total"
    assert page.value(name, request="ApiVersions", version="0") == 2


def test_waiting_requests_are_counted_until_they_end(store: kstore.Store) -> None:
    store.create_topic("orders")
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    with kstore.Broker(store, port=0, settings=ON) as broker, RawClient(broker.port) as client:
        client.send(fetch_request("orders", 0, wait_ms=60_000), 4)
        page = eventually(broker, name, 1, delayedOperation="Fetch")
        assert page.value(name, delayedOperation="Produce") == 0
        store["orders"][0].append(b"x")
        client.receive(1, 4)
        eventually(broker, name, 0, delayedOperation="Fetch")
        with RawClient(broker.port) as other:
            other.send(fetch_request("orders", 1, wait_ms=60_000), 4)
            eventually(broker, name, 1, delayedOperation="Fetch")
        eventually(broker, name, 0, delayedOperation="Fetch")  # its connection was lost


def test_how_long_clients_are_throttled(store: kstore.Store) -> None:
    store.create_topic("orders")
    with kstore.Broker(store, port=0, settings=ON) as broker:
        name = "kafka_server_{}_throttle_time"
        assert Page(broker).value(name.format("produce")) == 0
        limits = {"producer_byte_rate": 10.0}
        broker._services.metadata.alter_client_quotas([(entity_of([("client-id", "c")]), limits)])
        data = ProduceRequest.TopicData
        partition = data.PartitionData(index=0, records=batch_of(os.urandom(1000)))
        topic = data(name="orders", partition_data=[partition])
        with RawClient(broker.port, "c") as client:
            answer = client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9)
        assert answer.throttle_time_ms > 10_000
        page = Page(broker)
        assert page.value(name.format("produce")) == answer.throttle_time_ms
        assert page.value(name.format("fetch")) == 0


def test_open_and_accepted_connections_are_counted(store: kstore.Store) -> None:
    prefix = "kafka_server_socket_server_metrics_connection"
    with kstore.Broker(store, port=0, settings=ON) as broker:
        with RawClient(broker.port) as one, RawClient(broker.port) as two:
            for each in (one, two):
                each.ask(ListOffsetsRequest(), 1)
            page = Page(broker)
            assert page.value(f"{prefix}_count", listener="PLAINTEXT") == 2
        page = eventually(broker, f"{prefix}_count", 0, listener="PLAINTEXT")
        assert page.value(f"{prefix}_creation_total", listener="PLAINTEXT") == 2


def test_metrics_show_sizes_and_offsets_of_logs(store: kstore.Store) -> None:
    log = store.create_topic("orders")[0]
    log.extend([b"x" * 50] * 7)
    log.roll()
    log.append(b"y")
    log.delete_records(2)
    with kstore.Broker(store, port=0, settings=ON) as broker:
        page = Page(broker)
        labels = {"topic": "orders", "partition": "0"}
        assert page.value("kafka_log_log_size", **labels) == log.size
        assert page.value("kafka_log_log_numlogsegments", **labels) == 2
        assert page.value("kafka_log_log_logstartoffset", **labels) == 2
        assert page.value("kafka_log_log_logendoffset", **labels) == 8
        assert page.value("kafka_cluster_partition_laststableoffsetlag", **labels) == 0
        log.append(b"z")
        assert Page(broker).value("kafka_log_log_logendoffset", **labels) == 9


def test_an_open_transaction_is_a_lag(store: kstore.Store) -> None:
    store.create_topic("orders")[0].append(b"before")
    labels = {"topic": "orders", "partition": "0"}
    with kstore.Broker(store, port=0, settings=ON) as broker:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="billing"
        )
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(3):
            producer.send("orders", b"open", partition=0).get(WAIT)
        assert Page(broker).value("kafka_cluster_partition_laststableoffsetlag", **labels) == 3
        producer.commit_transaction()
        eventually(broker, "kafka_cluster_partition_laststableoffsetlag", 0, **labels)
        producer.close()


def test_partitions_whose_logs_are_not_open(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("orders", partitions=2)[0]
        log.extend([b"x" * 50] * 7)
        log.roll()
        log.delete_records(3)
        size = log.size
    with kstore.serve(tmp_path, port=0, settings=ON) as broker:
        for _ in range(2):  # read, and remembered
            page = Page(broker)
            assert ("orders", 0) not in dict.fromkeys(
                (each.topic, each.partition) for each in broker.store._logs
            )
            labels = {"topic": "orders", "partition": "0"}
            assert page.value("kafka_log_log_size", **labels) == size
            assert page.value("kafka_log_log_numlogsegments", **labels) == 2
            assert page.value("kafka_log_log_logstartoffset", **labels) == 3
            assert page.value("kafka_log_log_logendoffset", **labels) == 7
            assert not page.has("kafka_cluster_partition_laststableoffsetlag", **labels)
        broker.store["orders"][0].append(b"more")
        assert Page(broker).value("kafka_log_log_logendoffset", **labels) == 8


def test_the_flush_metric_counts_syncs_of_the_broker(store: kstore.Store) -> None:
    name = "kafka_log_logflushstats_logflushrateandtimems"
    log = store.create_topic("orders")[0]
    log.append(b"before the broker")
    log.flush()
    with kstore.Broker(store, port=0, settings=ON) as broker:
        assert Page(broker).value(f"{name}_count") == 0
        for number in range(3):
            log.append(b"%d" % number)
            log.flush()
        log.flush()  # nothing to do
        page = Page(broker)
        assert page.value(f"{name}_count") == 3
        assert page.value(f"{name}_sum") > 0
        store.create_topic("later")[0].append(b"x")
        store["later"][0].flush()
        assert Page(broker).value(f"{name}_count") == 4
    log.append(b"after")
    log.flush()
    assert log._require_writer().flusher.on_synced is None


def test_groups_by_state(store: kstore.Store) -> None:
    store.create_topic("orders")
    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    settings = {**ON, "group.initial.rebalance.delay.ms": 60_000}
    with kstore.Broker(store, port=0, settings=settings) as broker, RawClient(broker.port) as one:
        while one.ask(FindCoordinatorRequest(key="g", key_type=0), 1).error_code:
            pass
        protocol = JoinGroupRequest.Protocols(name="range", metadata=b"")
        asked = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip
        one.send(asked, 1)
        page = eventually(broker, f"{prefix}preparingrebalance", 1)
        assert page.value(prefix) == 1
        assert page.value(f"{prefix}stable") == 0
        assert (
            page.value(
                "kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Rebalance"
            )
            == 1
        )
        assert page.value("kafka_server_group_coordinator_metrics_group_count", protocol="classic")


def test_partitions_and_directories_that_are_offline(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with kstore.open(paths) as store:
        store.create_topic("orders", partitions=4)
    with kstore.open(paths) as store:
        folder = next(each for each in store.log_dirs if each.partitions)
        failed = next(each for each in store._manager._dirs if each.path == folder.path)
        count = len(folder.partitions)
        with kstore.Broker(store, port=0, settings=ON) as broker:
            page = Page(broker)
            assert page.value("kafka_server_replicamanager_partitioncount") == 4
            assert page.value("kafka_server_replicamanager_leadercount") == 4
            assert page.value("kafka_controller_kafkacontroller_globaltopiccount") == 1
            assert page.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
            failed.fail(StorageError("planted", errno=5))
            name = "kafka_controller_kafkacontroller_offlinepartitionscount"
            page = eventually(broker, name, count)
            prefix = "kafka_server_replicamanager"
            assert page.value(f"{prefix}_underreplicatedpartitions") == 0  # as Kafka: no leader
            assert page.value(f"{prefix}_leadercount") == 4 - count
            assert page.value(f"{prefix}_offlinereplicacount") == count
            assert page.value("kafka_log_logmanager_offlinelogdirectorycount") == 1
            offline = "kafka_log_logmanager_logdirectoryoffline"
            assert page.value(offline, logDirectory=failed.path) == 1


def test_under_replicated_partitions_of_an_image(store: kstore.Store) -> None:
    """No partition of a single broker is: the image is the test's."""
    store.create_topic("orders", partitions=3)
    with HandlerTester(store) as tester:
        tester.metadata.follow(store, replicas=(0, 1), isr=(0,))
        families = BrokerFamilies(tester.services, BrokerCounters(), NO_LISTENERS, None)
        found = {each.name: each.samples for each in families.collect()}
    samples = found["kafka_server_replicamanager_underreplicatedpartitions"]
    assert [each.value for each in samples] == [3]


def test_a_deleted_topic_leaves_its_part_of_the_total(store: kstore.Store) -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    settings = {**ON, "kstore.delete.existing.topics": True}
    store.create_topic("orders")
    with (
        kstore.Broker(store, port=0, settings=settings) as broker,
        RawClient(broker.port) as client,
    ):
        produce(client, "orders", batch_of(b"a", b"b"))
        assert Page(broker).value(name, topic="orders") == 2
        asked = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=10_000)
        assert client.ask(asked, 5).responses[0].error_code == 0
        for _ in range(2):
            page = Page(broker)
            assert not page.has(name, topic="orders")
            assert not page.has("kafka_log_log_size", topic="orders", partition="0")
            assert page.value(name) == 2


def test_deleted_topics_are_not_remembered(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0) as broker:
        services: Any = broker._services
        lines = PartitionLines(services)
        for number in range(5):
            services.metadata.create_topic(f"t{number}", partitions=2)
            assert f't{number}",partition="1"' in lines.render()
            services.metadata.delete_topic(f"t{number}")
        lines.render()
        assert lines._idle._found == {}


def test_the_loop_does_nothing_for_a_scrape_of_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: calls on the broker's thread, and partitions read between pauses."""
    count = 10_000
    with kstore.open(tmp_path) as store, HandlerTester(store) as tester:
        topic = store.create_topic("t")
        topic[0].append(b"x")
        image = _many_partitions(store, tester, count)
        assert len(image.topics["t"].partitions) == count
        calls: list[str] = []
        slices: list[int] = []
        read = 0

        def note(*_: object) -> None:
            calls.append("loop")

        lines = PartitionLines(tester.services, pause=lambda _: slices.append(read))
        measure = partition_lines._add

        def counted(*arguments: Any) -> None:
            nonlocal read
            read += 1
            measure(*arguments)

        monkeypatch.setattr(tester.loop, "call_soon", note)
        monkeypatch.setattr(tester.loop, "call_soon_threadsafe", note)
        monkeypatch.setattr(partition_lines, "_add", counted)
        thread = threading.Thread(target=lambda: slices.append(len(lines.render())))
        thread.start()
        thread.join()
        assert calls == []
        text_size = slices.pop()
        assert text_size > count * 250
        assert read == count
        steps = [after - before for before, after in zip([0, *slices], slices, strict=False)]
        assert max(steps) <= SLICE


def _many_partitions(store: kstore.Store, tester: HandlerTester, count: int) -> Any:
    """An image with many partitions, all of the one log that exists."""
    topic = topic_image(store, "t")
    one = topic.partitions[0]
    log = store["t"][0]
    many = {number: replace(one, partition=number) for number in range(count)}
    tester.metadata.publish({"t": replace(topic, partitions=many)})
    for number in range(1, count):
        store._manager.logs._logs["t", number] = log
    return tester.metadata.image


def test_without_its_setting_no_metric_is_collected_or_served(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0) as broker:
        assert broker.metrics_address is None
        assert not [each for each in threading.enumerate() if each.name == "kstore-broker-metrics"]
        assert broker._services.counters is None
        assert store.create_topic("t")[0]._require_writer().flusher.on_synced is None


def test_a_port_in_use_is_an_error_and_nothing_stays_open(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0, settings=ON) as broker:
        assert broker.metrics_address is not None
        port = int(broker.metrics_address.rpartition(":")[2])
        with kstore.open(os.path.join(store.paths[0], os.pardir, "other")) as other:
            second = kstore.Broker(other, port=0, settings={"kstore.metrics.port": port})
            with pytest.raises(AddressError, match="cannot show metrics on"):
                second.start()
    with pytest.raises(OSError):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT)


def test_invalid_settings_of_metrics_are_errors(store: kstore.Store) -> None:
    with pytest.raises(InvalidConfigError, match=r"kstore\.metrics\.port"):
        kstore.Broker(store, settings={"kstore.metrics.port": 65_536})
    with pytest.raises(InvalidConfigError, match=r"kstore\.metrics\.host"):
        kstore.Broker(store, settings={"kstore.metrics.host": ""})
