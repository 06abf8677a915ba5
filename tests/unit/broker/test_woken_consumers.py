"""Embedded consumers of a group look again when it may have got members at the broker.

One with partitions assigned by hand finds then that it may no longer read for the group.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from support.raw_client import RawClient
from unit.coordinator.test_group_migration import subscription

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
LOADING = 14
Join = Callable[[RawClient], int]


class Waiting:
    """Stands for a consumer that waits: asks for the members of its group when it is woken."""

    def __init__(self, store: kstore.Store) -> None:
        self._store, self.has_found_members = store, False
        store._manager.changes.add_listener(self)

    def topics_noted(self, names: object) -> None: ...

    def topics_changed(self) -> None:
        has_members = self._store._has_group_members
        self.has_found_members |= has_members is not None and has_members("g")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
        yield store


def ask_once_loaded(client: RawClient, request: Any, version: int) -> Any:
    while (answer := client.ask(request, version)).error_code == LOADING:
        pass
    return answer


def join_classic(client: RawClient) -> int:
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocols("range", subscription("t"))],
    )  # fmt: skip
    joined = ask_once_loaded(client, request, 3)
    sync = SyncGroupRequest("g", joined.generation_id, joined.member_id)  # stores the group
    return int(joined.error_code or client.ask(sync, 3).error_code)


def join_consumer(client: RawClient, **subscribed: Any) -> int:
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, topic_partitions=[], **subscribed
    )
    return int(ask_once_loaded(client, request, 1).error_code)


def join_by_names(client: RawClient) -> int:
    return join_consumer(client, subscribed_topic_names=["t"])


def join_by_pattern(client: RawClient) -> int:
    return join_consumer(client, subscribed_topic_regex="t")


@pytest.mark.parametrize("join", [join_classic, join_by_names, join_by_pattern])
def test_a_joining_member_wakes_consumers(store: kstore.Store, join: Join) -> None:
    with (
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        consumer = Waiting(store)
        assert join(client) == 0
        assert consumer.has_found_members


@pytest.mark.parametrize("join", [join_classic, join_by_names])
def test_members_of_a_loaded_group_wake_consumers(store: kstore.Store, join: Join) -> None:
    """They have joined at an earlier broker, which they may not know to be gone."""
    with (
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        assert join(client) == 0
    consumer = Waiting(store)
    with (
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
        RawClient(broker.port) as client,
    ):
        assert ask_once_loaded(client, OffsetFetchRequest("g", None), 7).error_code == 0
        assert consumer.has_found_members
