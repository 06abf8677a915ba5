"""Commits and group records are on disk before their answer where that is asked for.

By the broker's setting or that of __consumer_offsets; without it an answer waits for no sync.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import kstore
from kstore.broker import durable_commits
from kstore.errors import StorageError
from kstore.log.log import Log
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kstore.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from kstore.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from support.raw_client import RawClient

OFFSETS = "__consumer_offsets"
DURABLE = "kstore.acks.durable"
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
WAIT = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders")
        yield store


@contextmanager
def serving(
    store: kstore.Store, *, by_broker: bool = False, by_topic: bool | None = None
) -> Iterator[kstore.Broker]:
    """A broker with these settings, of which the topic's counts over the broker's."""
    with kstore.Broker(store, port=0, settings={**SETTINGS, DURABLE: by_broker}) as broker:
        with RawClient(broker.port) as client:
            client.find_coordinators("g")
        if by_topic is not None:
            assert broker._metadata is not None
            config = {"cleanup.policy": "compact", DURABLE: str(by_topic).lower()}
            broker._metadata.replace_topic_config(OFFSETS, config)
        yield broker


def log_of(store: kstore.Store) -> Log:
    return store[OFFSETS][0]


def send_commit(client: RawClient, group: str = "g") -> None:
    partition = OffsetCommitRequest.Topics.Partitions(0, 5)
    topics = [OffsetCommitRequest.Topics("orders", [partition])]
    client.send(OffsetCommitRequest(group, topics=topics), 8)


def receive_commit(client: RawClient) -> int:
    answer = client.receive(OffsetCommitRequest.API_KEY, 8)
    return int(answer.topics[0].partitions[0].error_code)


def commit(client: RawClient) -> int:
    send_commit(client)
    return receive_commit(client)


def join_and_sync(client: RawClient) -> int:
    """A classic group becomes Stable: its record is stored before the leader's answer."""
    joined = client.ask(
        JoinGroupRequest(
            "g", 10_000, 10_000, protocol_type="x", protocols=[JoinGroupRequest.Protocols("p", b"")]
        ),
        3,
    )
    assert joined.error_code == 0
    mine = SyncGroupRequest.Assignments(joined.member_id, b"mine")
    synced = client.ask(
        SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=[mine]), 3
    )
    return int(synced.error_code)


def consumer_joins(client: RawClient) -> int:
    """A member joins a consumer group (KIP-848): its records are stored before the answer."""
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"], topic_partitions=[],
    )  # fmt: skip
    return int(client.ask(request, 1).error_code)


def commit_in_transaction(client: RawClient) -> int:
    """A producer commits offsets in its transaction, which stays open."""
    producer = client.begin_producer("p")
    assert client.ask(AddOffsetsToTxnRequest("p", *producer, "g"), 3).error_code == 0
    partition = TxnOffsetCommitRequest.Topics.Partitions(0, 5)
    topics = [TxnOffsetCommitRequest.Topics("orders", [partition])]
    answer = client.ask(TxnOffsetCommitRequest("p", "g", *producer, topics=topics), 3)
    return int(answer.topics[0].partitions[0].error_code)


Act = Callable[[RawClient], int]
ACTS: list[Act] = [commit, join_and_sync, consumer_joins, commit_in_transaction]
EACH = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)


@EACH
@pytest.mark.parametrize(("by_broker", "by_topic"), [(True, None), (False, True)])
def test_the_answer_follows_the_sync(
    store: kstore.Store, act: Act, by_broker: bool, by_topic: bool | None
) -> None:
    with (
        serving(store, by_broker=by_broker, by_topic=by_topic) as broker,
        RawClient(broker.port) as client,
    ):
        assert act(client) == ErrorCode.NONE
        assert log_of(store).recovery_point == log_of(store).end_offset > 0


@EACH
@pytest.mark.parametrize(("by_broker", "by_topic"), [(False, None), (True, False)])
def test_otherwise_the_answer_waits_for_no_sync(
    store: kstore.Store, act: Act, by_broker: bool, by_topic: bool | None
) -> None:
    with (
        serving(store, by_broker=by_broker, by_topic=by_topic) as broker,
        RawClient(broker.port) as client,
    ):
        assert act(client) == ErrorCode.NONE
        assert log_of(store).recovery_point == 0 < log_of(store).end_offset


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (commit, ErrorCode.NOT_COORDINATOR),
        (join_and_sync, ErrorCode.NOT_COORDINATOR),
        (consumer_joins, ErrorCode.NOT_COORDINATOR),
        (commit_in_transaction, ErrorCode.NOT_COORDINATOR),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_failed_sync_is_no_acknowledgement(
    store: kstore.Store, act: Act, error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = durable_commits.flush_together

    def fail(logs: list[Log]) -> dict[Log, BaseException]:
        failing = [log for log in logs if log.topic == OFFSETS]  # a producer begins all the same
        others = [log for log in logs if log.topic != OFFSETS]
        done = sync(others) if others else {}
        return done | dict.fromkeys(failing, StorageError("the sync failed"))

    with serving(store, by_broker=True) as broker, RawClient(broker.port) as client:
        monkeypatch.setattr(durable_commits, "flush_together", fail)
        assert act(client) == error
        monkeypatch.undo()


class HeldSyncs:
    """Counts the syncs of a broker's logs; the first waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.begun, self.release = threading.Event(), threading.Event()
        self._sync = durable_commits.flush_together
        monkeypatch.setattr(durable_commits, "flush_together", self.sync)

    def sync(self, logs: list[Log]) -> dict[Log, BaseException]:
        self.count += 1
        self.begun.set()
        assert self.release.wait(WAIT)
        return self._sync(logs)


def waiting(broker: Any) -> int:
    """How many requests wait for a sync."""
    return sum(map(len, list(broker._services.commits._waiting.values())))


def test_commits_of_many_clients_share_a_sync(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = HeldSyncs(monkeypatch)
    with serving(store, by_broker=True) as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(20)]
        send_commit(clients[0], "g0")
        assert syncs.begun.wait(WAIT)
        for number, client in enumerate(clients[1:], 1):
            send_commit(client, f"g{number}")
        deadline = monotonic() + WAIT
        while waiting(broker) < len(clients) and monotonic() < deadline:
            sleep(0.001)
        assert log_of(store).recovery_point == 0  # none of them is answered
        syncs.release.set()
        assert [receive_commit(client) for client in clients] == [0] * len(clients)
        assert syncs.count <= 2  # the first covers what was appended before it began
        assert log_of(store).recovery_point == log_of(store).end_offset == len(clients)
