"""Expiry of committed offsets deletes no offset that is committed meanwhile."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import kstore
from kstore.broker.group_service import group_service
from kstore.coordinator.group.offset_expiration import Retention, RetentionFacts
from kstore.coordinator.group.offsets_store import OffsetsStore
from kstore.protocol.messages.list_groups import ListGroupsRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from support.raw_client import RawClient
from support.waiting import on_loop, until
from unit.broker.test_group_admin import join
from unit.broker.test_transaction_requests import TransactionClient

SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
OFFSETS = ("__consumer_offsets", 0)
WAIT = 60.0
EXPIRED, LATER = 3, 8  # committed offsets
STAYS = -1  # retention in ms: that of the broker


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[TransactionClient]:
    with RawClient(broker.port) as raw:
        yield TransactionClient(raw)


def expire(broker: kstore.Broker) -> None:
    """Let offsets expire now, and wait for the end of that."""
    on_loop(broker._services.loop, group_service(broker._services)._expire)
    until(lambda: not broker._services.workers.unfinished)


def commit(
    client: TransactionClient, offset: int, retention_ms: int, *, partition: int = 0
) -> None:
    partitions = [OffsetCommitRequest.Topics.Partitions(partition, offset)]
    topics = [OffsetCommitRequest.Topics("t", partitions)]
    request = OffsetCommitRequest("g", retention_time_ms=retention_ms, topics=topics)
    [topic] = client.raw.ask(request, 2).topics
    assert topic.partitions[0].error_code == 0


def stable_offsets(client: TransactionClient) -> dict[int, int]:
    answer = client.raw.ask(OffsetFetchRequest("g", None), 7)
    return {
        each.partition_index: each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


def names(client: TransactionClient) -> set[str]:
    return {each.group_id for each in client.raw.ask(ListGroupsRequest(), 4).groups}


@pytest.mark.parametrize("had_offset", [True, False])
@pytest.mark.parametrize("is_committed", [True, False])
def test_an_offset_that_a_transaction_may_change_expires_once_it_has_ended(
    broker: kstore.Broker, client: TransactionClient, had_offset: bool, is_committed: bool
) -> None:
    if had_offset:
        commit(client, EXPIRED, 0)
    producer = client.producer()
    assert client.add_offsets(producer) == 0
    assert client.commit_offsets(producer, LATER) == 0
    expire(broker)
    before = EXPIRED if had_offset else -1
    assert client.committed(require_stable=False) == (0, before)
    assert names(client) == {"g"}
    assert client.end(producer, commit=is_committed) == 0
    until(lambda: client.committed()[0] == 0)
    assert client.committed() == (0, LATER if is_committed else before)
    expire(broker)
    assert client.committed() == (0, LATER if is_committed else -1)
    assert names(client) == ({"g"} if is_committed else set())


def test_an_offset_of_another_partition_expires_beside_an_open_transaction(
    store: kstore.Store, broker: kstore.Broker, client: TransactionClient
) -> None:
    client.raw.leave("g", join(client.raw))
    commit(client, EXPIRED, 0, partition=1)
    producer = client.producer()
    assert client.add_offsets(producer) == 0
    assert client.commit_offsets(producer, LATER) == 0
    assert stable_offsets(client) == {1: EXPIRED}
    expire(broker)
    assert stable_offsets(client) == {}
    [group] = OffsetsStore(store).load(0).groups  # not deleted
    assert group.group_id == "g"


@pytest.mark.parametrize("kind", ["simple", "embedded", "transactional"])
def test_a_commit_behind_the_expiry_is_kept_with_its_group(
    store: kstore.Store,
    broker: kstore.Broker,
    client: TransactionClient,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """It comes after the group had no offset left, and before the group is deleted."""
    client.raw.leave("g", join(client.raw))  # so that the group has a record
    commit(client, EXPIRED, 0)
    producer = client.producer()
    assert client.add_offsets(producer) == 0
    found: list[set[str]] = []
    in_expiry = threading.Event()
    expire_of_store = OffsetsStore.expire

    def expired(
        offsets: OffsetsStore,
        partition: int,
        facts: Mapping[str, RetentionFacts],
        retention: Retention,
    ) -> set[str]:
        found.append(expire_of_store(offsets, partition, facts, retention))
        in_expiry.set()
        if kind == "embedded":
            store.alter_group_offsets("g", {("t", 0): LATER})
        else:
            until(lambda: broker._services.workers.busy_keys[OFFSETS] > 1)
        return found[0]

    monkeypatch.setattr(OffsetsStore, "expire", expired)
    service = group_service(broker._services)
    on_loop(broker._services.loop, service._expire)
    assert in_expiry.wait(WAIT)
    if kind == "simple":
        commit(client, LATER, STAYS)
    elif kind == "transactional":
        assert client.commit_offsets(producer, LATER) == 0
    until(lambda: not broker._services.workers.unfinished)
    assert found == [{"g"}]
    group = service.coordinator.find("g")
    assert group is not None
    assert group.protocol_type is None
    assert OffsetsStore(store).load(0).groups == []  # as in memory
    assert client.end(producer) == 0
    until(lambda: client.committed()[0] == 0)
    assert client.committed() == (0, LATER)
    assert names(client) == {"g"}
