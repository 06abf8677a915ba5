"""``kstore reassign-partitions --generate``: proposes brokers for the replicas of topics."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kstore.cli.common import WrongFileError, WrongOptionsError
from kstore.errors import KStoreError
from kstore.integers import parse_integer
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore

_ANY = "any"


def parse_topics(text: str, path: str) -> list[str]:
    """The topics of a file. Raises WrongFileError for another form, and for duplicates."""
    try:
        names = [entry["topic"] for entry in json.loads(text)["topics"]]
        if not all(isinstance(name, str) for name in names):
            raise TypeError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise WrongFileError(
            f'{path} is not a file as {{"version": 1, "topics": [{{"topic": "orders"}}]}}'
        ) from None
    if repeated := _repeated(names):
        raise WrongFileError(f"List of topics to reassign contains duplicate entries: {repeated}")
    return names


def parse_brokers(text: str) -> list[int]:
    """The brokers of --broker-list. Raises WrongOptionsError."""
    try:
        brokers = [parse_integer(each) for each in text.split(",")]
    except ValueError:
        raise WrongOptionsError(
            f"--broker-list takes ids of brokers such as 1,2, not {text[:80]!r}"
        ) from None
    if repeated := _repeated(brokers):
        raise WrongOptionsError(f"Broker list contains duplicate entries: {repeated}")
    return brokers


def _repeated(things: Sequence[object]) -> str:
    return ", ".join(map(str, dict.fromkeys(each for each in things if things.count(each) > 1)))


def propose(
    store: "RemoteStore", topics: Sequence[str], brokers: Sequence[int], *, uses_racks: bool
) -> None:
    """Print the replicas of the topics as they are, and as they could be on these brokers."""
    current = {
        TopicPartition(name, number): list(entry.replica_nodes)
        for name in topics
        for number, entry in store[name].entries.items()
    }
    for each in brokers:
        if each not in store.cluster.nodes:
            raise KStoreError(f"Unknown broker id {each}")
    if uses_racks and len(brokers) > 1 and any(map(store.cluster.rack, brokers)):
        raise WrongOptionsError(
            "the brokers have racks, which kstore's proposal does not respect: pass "
            "--disable-rack-aware, or use Kafka's own tool"
        )
    print(f"Current partition replica assignment\n{as_json(current)}\n")
    proposed: dict[TopicPartition, list[int]] = {}
    for name in topics:
        own = sorted(tp for tp in current if tp.topic == name)
        factor = len(current[own[0]])
        if factor > len(brokers):
            raise KStoreError(
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}."
            )
        shift = random.randrange(len(brokers)), random.randrange(len(brokers))
        for index, tp in enumerate(own):
            proposed[tp] = spread(index, factor, brokers, *shift)
    print(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


def spread(index: int, factor: int, brokers: Sequence[int], first: int, distance: int) -> list[int]:
    """The brokers of one partition's replicas (AdminUtils.assignReplicasToBrokersRackUnaware).

    Leaders go round the brokers. Followers of the next round are further away from theirs, so that
    the partitions of a broker that stops get their leaders on several others.
    """
    count = len(brokers)
    leader = (index + first) % count
    distance += index // count
    followers = [
        (leader + 1 + (distance + each) % (count - 1)) % count for each in range(factor - 1)
    ]
    return [brokers[each] for each in (leader, *followers)]


def as_json(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A file for --reassignment-json-file that leaves the log directories open."""
    entries = [
        {
            "topic": tp.topic, "partition": tp.partition, "replicas": list(nodes),
            "log_dirs": [_ANY] * len(nodes),
        }
        for tp, nodes in sorted(replicas.items())
    ]  # fmt: skip
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))
