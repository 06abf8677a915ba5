"""The throttles of ``kstore reassign-partitions``: set for moves, removed when they have ended.

What is set, and in which order, is that of Kafka's ReassignPartitionsCommand: the throttled
replicas of topics and two rates for moves between brokers, a third rate for those between the log
directories of a broker.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import KStoreError
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.admin import Reassignment
    from kstore.remote.store import RemoteStore

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_RATE_OF_LOG_DIRS = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"

Replicas = Mapping[TopicPartition, Sequence[int]]


class _Route(NamedTuple):
    """The brokers that a partition's replicas are copied from, and those that get one."""

    sources: frozenset[int]
    destinations: frozenset[int]


def set_throttles(
    store: "RemoteStore",
    arguments: argparse.Namespace,
    replicas: Replicas,
    moving: Iterable[int],
    running: "Mapping[TopicPartition, Reassignment]",
) -> None:
    """Set the rates that the options ask for; a negative one means none, as in Kafka.

    Parameters
    ----------
    replicas
        The brokers that each partition is to have.
    moving
        The brokers with replicas that get another log directory.
    running
        The reassignments in progress, which are throttled too.
    """
    between, within = (
        -1 if rate is None else rate
        for rate in (arguments.throttle, arguments.replica_alter_log_dirs_throttle)
    )
    if between < 0 and within < 0:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
        "the throttle is removed."
    )
    if between >= 0:
        routes = _routes(store, replicas, running)
        _throttle_topics(store, routes)
        brokers = sorted({broker for route in routes.values() for each in route for broker in each})
        _throttle_brokers(store, brokers, dict.fromkeys(_RATES, str(between)))
        print(f"The inter-broker throttle limit was set to {between} B/s")
    if within >= 0:
        _throttle_brokers(store, sorted(moving), {_RATE_OF_LOG_DIRS: str(within)})
        print(f"The replica-alter-dir throttle limit was set to {within} B/s")


def _routes(
    store: "RemoteStore",
    replicas: Replicas,
    running: "Mapping[TopicPartition, Reassignment]",
) -> dict[TopicPartition, _Route]:
    """Kafka's calculateProposedMoveMap."""
    routes = {}
    for tp, each in running.items():
        added = frozenset(each.adding_replicas)
        routes[tp] = _Route(frozenset(each.replicas) - added, added)
    for tp, wanted in replicas.items():
        if tp in routes:
            sources = routes[tp].sources
        else:
            sources = frozenset(store[tp.topic].entries[tp.partition].replica_nodes)
        routes[tp] = _Route(sources, frozenset(wanted) - sources)
    return routes


def _throttle_topics(store: "RemoteStore", routes: Mapping[TopicPartition, _Route]) -> None:
    from kstore.remote.topic import TOPIC, alter_settings

    for topic in sorted({tp.topic for tp in routes}):
        of_topic = [(tp.partition, route) for tp, route in routes.items() if tp.topic == topic]
        leaders = {f"{number}:{broker}" for number, route in of_topic for broker in route.sources}
        followers = {
            f"{number}:{broker}" for number, route in of_topic for broker in route.destinations
        }
        replicas = {_LEADERS: ",".join(sorted(leaders)), _FOLLOWERS: ",".join(sorted(followers))}
        alter_settings(store, TOPIC, topic, replicas, ())


def _throttle_brokers(
    store: "RemoteStore", brokers: Iterable[int], rates: Mapping[str, str]
) -> None:
    from kstore.remote.topic import BROKER, alter_settings

    for broker in brokers:
        alter_settings(store, BROKER, str(broker), rates, ())


def clear_throttles(store: "RemoteStore", replicas: Replicas) -> None:
    """Remove the throttles of all brokers, and of the topics, that an earlier move had set.

    Raises KStoreError, as in Kafka before the topics, if a partition is to be on a broker that does
    not exist.
    """
    from kstore.remote.topic import BROKER, TOPIC, alter_settings

    nodes = store.cluster.nodes
    unknown = sorted({broker for of in replicas.values() for broker in of} - {*nodes})
    brokers = sorted([*nodes, *unknown])
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {_comma(brokers)}")
    for broker in nodes:
        alter_settings(store, BROKER, str(broker), {}, (*_RATES, _RATE_OF_LOG_DIRS))
    if unknown:
        raise KStoreError(f"the cluster has no broker {unknown[0]}: the throttles of topics remain")
    topics = sorted({tp.topic for tp in replicas})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {_comma(topics)}")
    for topic in topics:
        alter_settings(store, TOPIC, topic, {}, (_LEADERS, _FOLLOWERS))


def _s(things: Sequence[object]) -> str:
    return "s" if len(things) > 1 else ""


def _comma(things: Iterable[object]) -> str:
    return ",".join(map(str, things))
