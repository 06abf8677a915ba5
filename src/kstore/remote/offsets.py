"""Offsets of many partitions of a cluster, with one request to each leader."""

from collections.abc import Iterable

from kstore.errors import KStoreError, SourceError
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
    return cluster.retrying(lambda: ask_offsets(cluster, wanted, when), forget=None)


def ask_offsets(
    cluster: Cluster, wanted: Iterable[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    """As :func:`list_offsets`, without retries; the next attempt asks for leaders that failed."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for tp in wanted:
        try:
            leader = cluster.leader(tp.topic, tp.partition)
        except KStoreError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise
        by_leader.setdefault(leader, {}).setdefault(tp.topic, []).append(tp.partition)
    requests = [(leader, _request(topics, when)) for leader, topics in by_leader.items()]
    answers = cluster.ask_each(requests, ListOffsetsResponse)
    found: dict[TopicPartition, int] = {}
    problem: KStoreError | None = None
    for topics, answer in zip(by_leader.values(), answers, strict=True):
        asked = {TopicPartition(name, each) for name, numbers in topics.items() for each in numbers}
        try:
            if isinstance(answer, KStoreError):
                if isinstance(answer, SourceError):
                    for tp in asked:
                        cluster.forget_leader(*tp)
                raise answer
            found |= _read(cluster, answer, asked)
        except KStoreError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return found


def _request(topics: dict[str, list[int]], when: int) -> ListOffsetsRequest:
    Topics = ListOffsetsRequest.Topics  # noqa: N806 (a class)
    return ListOffsetsRequest(
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


def _read(
    cluster: Cluster, answer: ListOffsetsResponse, asked: set[TopicPartition]
) -> dict[TopicPartition, int]:
    found = {}
    problem: KStoreError | None = None
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if tp not in asked:
                continue
            if each.error_code:
                if is_retriable(each.error_code):
                    cluster.forget_leader(*tp)
                if each.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                problem = problem or error_of(each.error_code, None, f"{tp.topic}-{tp.partition}")
                continue
            offset = each.old_style_offsets[0] if each.old_style_offsets else each.offset
            if offset >= 0:
                found[tp] = offset
    if problem is not None:
        raise problem
    return found
