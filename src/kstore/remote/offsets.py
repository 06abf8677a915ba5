"""Offsets of many partitions of a cluster, with one request to each leader."""

from collections.abc import Iterable

from kstore.errors import KStoreError
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kstore.remote.answer_errors import error_of, is_retriable
from kstore.remote.cluster import Cluster
from kstore.topic_partition import TopicPartition

UNKNOWN_TOPIC_OR_PARTITION = 3


def list_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    """The offset of each partition for a timestamp, -1 (latest) or -2 (earliest).

    Partitions that do not exist, and those without a record at or after the time, are omitted.
    Raises KStoreError if a leader returns an error, SourceError if it does not respond.
    """
    wanted = list(partitions)
    return cluster.retrying(lambda: _ask_leaders(cluster, wanted, when), forget=None)


def _ask_leaders(
    cluster: Cluster, wanted: list[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    by_leader: dict[int, dict[str, list[int]]] = {}
    for tp in wanted:
        try:
            leader = cluster.leader(tp.topic, tp.partition)
        except KStoreError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise
        by_leader.setdefault(leader, {}).setdefault(tp.topic, []).append(tp.partition)
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        found |= _ask(cluster, leader, topics, when)
    return found


def _ask(
    cluster: Cluster, leader: int, topics: dict[str, list[int]], when: int
) -> dict[TopicPartition, int]:
    Topics = ListOffsetsRequest.Topics  # noqa: N806 (a class)
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            Topics(
                name=topic,
                partitions=[
                    Topics.Partitions(partition_index=each, timestamp=when, max_num_offsets=1)
                    for each in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )
    found = {}
    for topic in cluster.ask(request, ListOffsetsResponse, node=leader).topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                if is_retriable(each.error_code):
                    cluster.forget_leader(*tp)
                if each.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                raise error_of(each.error_code, None, f"{tp.topic}-{tp.partition}")
            offset = each.old_style_offsets[0] if each.old_style_offsets else each.offset
            if offset >= 0:
                found[tp] = offset
    return found
