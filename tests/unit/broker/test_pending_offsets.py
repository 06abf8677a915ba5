"""Offsets that an open transaction may commit, beside the deletion of their group."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore.protocol.messages.delete_groups import DeleteGroupsRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.offset_delete import OffsetDeleteRequest
from support.raw_client import RawClient
from support.waiting import until
from unit.broker.test_transaction_requests import TransactionClient

SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
NONE = (0, -1)  # neither an error nor an offset


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t")
        yield store


@pytest.fixture
def client(store: kstore.Store) -> Iterator[TransactionClient]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        yield TransactionClient(raw)


def commit(client: TransactionClient) -> None:
    topics = [OffsetCommitRequest.Topics("t", [OffsetCommitRequest.Topics.Partitions(0, 3)])]
    request = OffsetCommitRequest("g", topics=topics)
    until(lambda: client.raw.ask(request, 2).topics[0].partitions[0].error_code == 0)


def delete_group(client: TransactionClient) -> None:
    [result] = client.raw.ask(DeleteGroupsRequest(["g"]), 1).results
    assert result.error_code == 0


def delete_offset(client: TransactionClient) -> None:
    partitions = [OffsetDeleteRequest.Topics.Partitions(0)]
    request = OffsetDeleteRequest("g", [OffsetDeleteRequest.Topics("t", partitions)])
    answer = client.raw.ask(request, 0)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)


def check_deletion(
    client: TransactionClient, delete: Callable[[TransactionClient], None], *, had_offset: bool
) -> None:
    """A transaction that began before a deletion brings no offset back."""
    if had_offset:
        commit(client)
    producer = client.raw.begin_producer("x")
    assert client.add_offsets(producer) == 0
    until(lambda: client.commit_offsets(producer, 8) == 0)
    assert client.committed() == (88, -1)
    delete(client)
    assert client.committed() == NONE
    assert client.end(producer) == 0
    client.wait_for("CompleteCommit")
    assert client.committed() == NONE


@pytest.mark.parametrize("had_offset", [True, False])
@pytest.mark.parametrize("delete", [delete_group, delete_offset])
def test_a_transaction_brings_no_deleted_offset_back(
    store: kstore.Store,
    client: TransactionClient,
    delete: Callable[[TransactionClient], None],
    had_offset: bool,
) -> None:
    check_deletion(client, delete, had_offset=had_offset)


def test_a_group_with_nothing_but_a_pending_offset_is_deleted_after_a_restart(
    store: kstore.Store,
) -> None:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        producer = client.producer()
        assert client.add_offsets(producer) == 0
        assert client.commit_offsets(producer, 8) == 0
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        until(lambda: client.committed() == (88, -1))
        delete_group(client)
        until(lambda: client.end(producer) == 0)
        client.wait_for("CompleteCommit")
        assert client.committed() == NONE
