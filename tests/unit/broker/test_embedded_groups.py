"""Embedded consumers as members of the coordinator of the broker that serves their store."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import confluent_kafka
import pytest

import kstore
from kstore import Consumer, TopicPartition
from kstore.broker.embedded_groups import EmbeddedGroups
from kstore.cli import main
from kstore.coordinator.group.embedded_member import EmbeddedMember
from kstore.errors import CommitFailedError, UnknownTopicIdError

PARTITIONS, RECORDS = 4, 10  # of each partition
TPS = frozenset(TopicPartition("t", n) for n in range(PARTITIONS))
WAIT = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        topic = store.create_topic("t", PARTITIONS)
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                topic[partition].append(b"%d" % number)
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0) as broker:  # also with an initial delay of 3 s
        yield broker


def share(*consumers: Consumer) -> None:
    """Poll in turn, reading nothing, until the members have all partitions."""
    end = time.monotonic() + WAIT
    while True:
        for each in consumers:
            with each._lock:  # what a poll does before it reads
                each._partitions.follow(each._metadata)
        owned = frozenset().union(*(each.assignment for each in consumers))
        if owned == TPS and all(each.assignment for each in consumers):
            assert sum(len(each.assignment) for each in consumers) == PARTITIONS
            return
        assert time.monotonic() < end, consumers


def test_embedded_consumers_are_members_of_the_brokers_group(
    store: kstore.Store, broker: kstore.Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.consumer("t", group="g") as one, store.consumer("t", group="g") as two:
        share(one, two)
        group = ["--bootstrap-server", broker.bootstrap_servers, "--group", "g"]
        assert main(["consumer-groups", "--describe", "--members", "--verbose", *group]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if "g " in line]
        members = [row for row in rows if row[0] == "g"]
        assert [row[2:5] for row in members] == [["/127.0.0.1", "kstore-embedded", "2"]] * 2
        assert sorted(row[5] for row in members) == ["t(0,1)", "t(2,3)"]
        found = {**one.poll(max_records=100), **two.poll(max_records=100)}
        assert {tp: len(records) for tp, records in found.items()} == dict.fromkeys(TPS, RECORDS)
        one.commit()
        two.commit()
    assert {each.offset for each in store.group("g").offsets.values()} == {RECORDS}
    assert main(["consumer-groups", "--describe", "--state", *group]) == 0
    assert "Empty" in capsys.readouterr().out


def test_a_session_lasts_without_polls(store: kstore.Store) -> None:
    """Three seconds pass on the clock of the broker's process: its sessions last 2.5 s."""
    settings = {"group.min.session.timeout.ms": 1, "group.max.session.timeout.ms": 2_500}
    with (
        kstore.Broker(store, port=0, settings=settings),
        store.consumer("t", group="g") as consumer,
    ):
        for batch in consumer.batches(0.0):
            time.sleep(3.0)
            with batch:
                pass
            break
        assert consumer.committed(batch.topic, batch.partition) == RECORDS


def test_a_consumer_that_does_not_poll_leaves(store: kstore.Store, broker: kstore.Broker) -> None:
    with store.consumer("t", group="g", max_poll_interval_ms=1) as one:
        batch = next(one.batches(0.0))
        with store.consumer("t", group="g", max_poll_interval_ms=1) as two:
            end = time.monotonic() + WAIT
            while two.assignment != TPS:
                two.poll(max_records=1, timeout=0.01)
                assert time.monotonic() < end
            with pytest.raises(CommitFailedError, match="max_poll_interval_ms"), batch:
                pass
            assert two.committed(batch.topic, batch.partition) is None


def test_a_dropped_member_leaves(store: kstore.Store, broker: kstore.Broker) -> None:
    with store.consumer("t", group="g") as one:
        two = store.consumer("t", group="g")
        share(one, two)
        with pytest.warns(ResourceWarning):
            del two
        share(one)


def test_consumers_follow_a_broker_that_starts_and_stops(store: kstore.Store) -> None:
    with store.consumer("t", group="g", max_poll_records=3) as one:
        batches = one.batches(0.0)
        with next(batches):
            pass
        with kstore.Broker(store, port=0), store.consumer("t", group="g") as two:
            share(one, two)
            with next(one.batches(0.0)):
                pass
        share(one)
        with next(one.batches(0.0)):
            pass
    assert sum(each.offset for each in store.group("g").offsets.values()) == 9


def test_a_broker_that_does_not_start_gets_no_members(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would wait for answers of an event loop that never runs."""
    found: list[bool] = []

    def fail(_: kstore.Broker) -> None:
        with store.consumer("t", group="g") as consumer:
            found.append(bool(consumer.poll()))
        raise MemoryError

    monkeypatch.setattr(kstore.Broker, "_apply_quotas", fail)
    with pytest.raises(MemoryError):
        kstore.Broker(store, port=0).start()
    assert found == [True]


def test_a_join_ends_when_its_broker_stops_without_an_answer(
    store: kstore.Store, broker: kstore.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(groups: EmbeddedGroups, *_: object) -> None:
        groups.leave_all()

    waits: list[bool] = []

    def take(member: EmbeddedMember, seconds: float) -> None:
        with suppress(Empty):
            member._join_signals.get(timeout=min(seconds, 1.0))
            return
        waits.append(seconds > 0)

    monkeypatch.setattr(EmbeddedGroups, "join", stop)
    monkeypatch.setattr(EmbeddedMember, "_take_signal", take)
    with store.consumer("t", group="g") as one:
        assert one.poll() == {}
        assert one._partitions._member.has_left
    assert not any(waits)


def test_a_commit_for_the_group_of_this_process_does_not_ask_a_new_broker(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    asked: list[object] = []

    def lose(consumer: Consumer, _: list[TopicPartition]) -> None:
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit()
        refused.append(str(caught.value))

    with store.consumer("t", group="g", on_lost=lose) as one:
        assert one.poll()
        with kstore.Broker(store, port=0):  # its coordinator does not know the group
            monkeypatch.setattr(EmbeddedGroups, "commit", lambda *each: asked.append(each))
            share(one)
            assert len(refused) == 1
            assert not asked
            monkeypatch.undo()


def test_a_commit_for_a_topic_that_was_recreated_is_refused(
    store: kstore.Store, broker: kstore.Broker
) -> None:
    with store.consumer("t", group="g") as consumer:
        batch = next(consumer.batches(0.0))
        store.delete_topic("t")
        store.create_topic("t", PARTITIONS)
        with pytest.raises(UnknownTopicIdError), batch:
            pass
        assert consumer.committed(batch.topic, batch.partition) is None


def test_a_transaction_commits_for_an_embedded_member(
    store: kstore.Store, broker: kstore.Broker
) -> None:
    with (
        store.consumer("t", group="g") as consumer,
        store.transactional_producer("id") as producer,
    ):
        assert len(consumer.poll(max_records=100)) == PARTITIONS
        with producer.transaction():
            producer.send_offsets_to_transaction(consumer)
        assert consumer.committed("t", 0) == RECORDS


def test_a_member_of_the_former_group_commits_nothing_in_the_new_brokers_group(
    store: kstore.Store,
) -> None:
    with (
        store.consumer("t", group="g") as one,
        store.consumer("t", group="g") as two,
        store.transactional_producer("id") as producer,
    ):
        share(one, two)
        assert two.poll(max_records=100)
        with kstore.Broker(store, port=0):
            share(one)  # the broker's group does not know the other one yet
            with pytest.raises(CommitFailedError):
                two.commit()
            with pytest.raises(CommitFailedError), producer.transaction():
                producer.send_offsets_to_transaction(two)
            assert not store.group("g").offsets


# --- confluent-kafka ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "assignor"), [("classic", ""), ("classic", "roundrobin"), ("consumer", "")]
)
def test_confluent_and_embedded_consumers_share_a_group(
    store: kstore.Store, broker: kstore.Broker, protocol: str, assignor: str
) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 100
    if assignor:
        settings["partition.assignment.strategy"] = assignor  # the only one
    client = confluent_kafka.Consumer(settings)
    try:
        client.subscribe(["t"])
        with store.consumer("t", group="g") as embedded:
            read: list[tuple[int, int]] = []
            theirs: list[Any] = []
            end = time.monotonic() + WAIT
            while len(embedded.assignment) != 2 or len(theirs) != 2:
                assert time.monotonic() < end, (embedded, theirs, read)
                for batch in embedded.batches(0.0):
                    with batch:
                        read += [(batch.partition, record.offset) for record in batch]
                for each in client.consume(100, 0.1):
                    read.append((each.partition(), each.offset()))
                with suppress(confluent_kafka.KafkaException):  # nothing read, or a rebalance
                    client.commit(asynchronous=False)
                theirs = client.assignment()
            assert not {(each.topic, each.partition) for each in theirs} & embedded.assignment
            for partition in range(PARTITIONS):
                store["t"][partition].append(b"later")
            wanted = {(p, n) for p in range(PARTITIONS) for n in range(RECORDS + 1)}
            while set(read) != wanted:
                assert time.monotonic() < end, (embedded, theirs, read)
                for batch in embedded.batches(0.0):
                    read += [(batch.partition, record.offset) for record in batch]
                for each in client.consume(100, 0.1):
                    read.append((each.partition(), each.offset()))
            assert [read.count((p, RECORDS)) for p in range(PARTITIONS)] == [1] * PARTITIONS
    finally:
        client.close()


def test_an_embedded_consumer_stays_a_member_when_the_last_client_of_kip_848_leaves(
    store: kstore.Store, broker: kstore.Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group is a classic one then, of another generation, and knows the member by its id."""
    client = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
        }
    )
    with store.consumer("t", group="g") as embedded:
        try:
            client.subscribe(["t"])
            end = time.monotonic() + WAIT
            while len(embedded.assignment) != 2 or len(client.assignment()) != 2:
                assert time.monotonic() < end, (embedded, client.assignment())
                embedded.poll(timeout=0)
                client.consume(100, 0.1)
        finally:
            client.close()
        while embedded.assignment != TPS:
            assert time.monotonic() < end, embedded
            embedded.poll(timeout=0)
            with embedded._lock:
                embedded._partitions.follow(embedded._metadata)
            group = ["--bootstrap-server", broker.bootstrap_servers, "--group", "g"]
            assert main(["consumer-groups", "--describe", "--members", *group]) == 0
            rows = [line for line in capsys.readouterr().out.splitlines() if "kstore-emb" in line]
            assert len(rows) == 1
