"""Connections in a forked child, which shares its parent's sockets."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore.errors import ForkedError, KStoreError
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kstore.remote import groups
from kstore.remote.cluster import Cluster
from kstore.remote.store import RemoteStore
from support.fake_broker import LIST_OFFSETS, fake_brokers

REQUEST = ListOffsetsRequest(replica_id=-1, topics=[])


def is_refused_in_a_child(call: Callable[[], object], after: Callable[[], object]) -> bool:
    """Whether a call raises ForkedError in a child, where another works."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call()
        except ForkedError:
            after()
            status = 0
        except KStoreError:
            status = 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("way", ["ask", "node", "each", "metadata"])
def test_a_child_cannot_use_its_parents_connections(way: str) -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[LIST_OFFSETS] = lambda _: ListOffsetsResponse()
        calls: dict[str, Callable[[], object]] = {
            "ask": lambda: cluster.ask(REQUEST, ListOffsetsResponse),
            "node": lambda: cluster.ask(REQUEST, ListOffsetsResponse, node=1),
            "each": lambda: cluster.ask_each([(1, REQUEST)], ListOffsetsResponse),
            "metadata": lambda: cluster.metadata([]),
        }
        calls[way]()
        asked = len(broker.asked)
        assert is_refused_in_a_child(calls[way], cluster.close)
        assert len(broker.asked) == asked
        calls[way]()
        assert broker.connections == 1 + (way in ("node", "each")), "the parent's stay open"


def test_a_child_does_not_leave_the_group_of_its_parent(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with (
        kstore.serve(tmp_path, port=0, settings=settings) as broker,
        RemoteStore(broker.bootstrap_servers) as store,
    ):
        store.create_topic("t")
        with store.group_consumer("g", lambda: ["t"], auto_offset_reset="earliest") as member:
            assert list(member.batches(0.0)) == []
            assert member.assignment == (("t", 0),)
            member.commit({("t", 0): 0})

            def leave() -> None:
                member.close()
                member._membership.leave()

            assert is_refused_in_a_child(lambda: store.cluster.metadata([]), leave)
            assert len(groups.describe_group(store.cluster, "g").members) == 1
            assert member.commit_sync({("t", 0): 0})
