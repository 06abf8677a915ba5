"""Batches of many partitions of a topic, with one request to each leader.

Each request has the highest version that both sides support, in which a broker returns batches as
they are on its disk: only a lower version than its own makes it convert them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kstore.errors import KStoreError, SourceError
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.remote.cluster import ZERO_UUID, Cluster
from kstore.remote.connection import UndecodableResponseError

_NO_SESSION = -1
_HIGHEST_WITH_NAMES = 12  # later versions identify topics by id
_FIRST_WITH_LIMIT = 3  # earlier versions limit the bytes of each partition only


class Position(NamedTuple):
    """Where to continue with a partition. ``epoch``: the last batch's leader epoch; -1 unknown.

    ``committed``: up to the last stable offset only, with the aborted transactions listed
    (read_committed), and without waiting for more.
    """

    offset: int
    epoch: int = -1
    committed: bool = False


class Fetched(NamedTuple):
    """What a leader answered for one partition; offsets are -1 if it did not send them.

    ``records`` is a view of the response. ``diverged`` is where the local log diverges from the
    leader's, by their leader epochs. ``aborted`` lists producer ids and first offsets, for a
    ``committed`` position.
    """

    error: int
    high_watermark: int
    log_start_offset: int
    records: bytes | memoryview
    diverged: int | None = None
    last_stable_offset: int = -1
    aborted: Sequence[tuple[int, int]] = ()


class TopicLeaders(NamedTuple):
    """A topic, and the brokers that lead its partitions; -1: none leads it."""

    topic: str
    topic_id: bytes
    """Zeros before Kafka 2.8."""
    leaders: Mapping[int, int]


def fetch_partitions(
    cluster: Cluster,
    topic: TopicLeaders,
    positions: Mapping[int, Position],
    *,
    max_wait_ms: int,
    max_bytes: int,
    partition_max_bytes: int,
    failed: dict[int, KStoreError] | None = None,
) -> dict[int, Fetched]:
    """Fetch each partition from its position; what was answered, by partition.

    A partition whose leader is unknown or does not respond is not in the result, and ``failed``
    gets the error of the connection. Raises SourceError for a response that cannot be decoded or is
    about another topic, and KStoreError if a broker does not authenticate the client or does not
    support the request.
    """
    requests: list[tuple[int, FetchRequest]] = []
    failed = {} if failed is None else failed
    for committed in (True, False):
        chosen = [number for number, at in positions.items() if at.committed is committed]
        for leader, numbers in _by_leader(topic, chosen).items():
            try:
                has_limit = _has_limit(cluster, leader)
            except SourceError as error:
                failed.update(dict.fromkeys(numbers, error))
                continue
            room = partition_max_bytes
            if not has_limit:
                room = max(min(room, max_bytes // len(numbers)), 1)
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=0 if committed else max_wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                isolation_level=int(committed),
                session_epoch=_NO_SESSION,
                topics=[_asked(topic, numbers, positions, room)],
            )
            requests.append((leader, request))
    highest = None if topic.topic_id != ZERO_UUID else _HIGHEST_WITH_NAMES
    answers = cluster.ask_each(requests, FetchResponse, timeout=max_wait_ms / 1000, highest=highest)
    found: dict[int, Fetched] = {}
    for (_, request), answer in zip(requests, answers, strict=True):
        if not isinstance(answer, KStoreError):
            _read(topic, request, answer, found)
        elif not isinstance(answer, SourceError) or isinstance(answer, UndecodableResponseError):
            raise answer
        else:
            failed.update(dict.fromkeys(_numbers(request), answer))
    return found


def _by_leader(topic: TopicLeaders, partitions: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition in partitions:
        leader = topic.leaders.get(partition, -1)
        if leader >= 0:
            found.setdefault(leader, []).append(partition)
    return found


def _has_limit(cluster: Cluster, node: int) -> bool:
    """Whether a response has a limit of bytes for all of its partitions (KIP-74)."""
    highest = cluster.versions(node).get(FetchRequest.API_KEY, (0, 0))[1]
    return highest >= _FIRST_WITH_LIMIT


def _asked(
    topic: TopicLeaders, numbers: Iterable[int], positions: Mapping[int, Position], room: int
) -> FetchRequest.Topics:
    return FetchRequest.Topics(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            FetchRequest.Topics.Partitions(
                partition=number,
                fetch_offset=positions[number].offset,
                last_fetched_epoch=positions[number].epoch,
                partition_max_bytes=room,
            )
            for number in numbers
        ],
    )


def check_topic(entry: FetchResponse.Responses, topic: str, topic_id: bytes) -> None:
    """Refuse a response about another topic; it has the name up to version 12, then the id."""
    same = entry.topic == topic if entry.topic else entry.topic_id == topic_id
    if not same:
        raise UndecodableResponseError(f"the response to a fetch is not about topic {topic!r}")


def _numbers(request: FetchRequest) -> set[int]:
    return {each.partition for each in request.topics[0].partitions}


def _read(
    topic: TopicLeaders, request: FetchRequest, answer: FetchResponse, found: dict[int, Fetched]
) -> None:
    wanted = _numbers(request)
    if answer.error_code:
        found.update(dict.fromkeys(wanted, Fetched(answer.error_code, -1, -1, b"")))
    for entry in answer.responses:
        check_topic(entry, topic.topic, topic.topic_id)
        for each in entry.partitions:
            if each.partition_index in wanted:
                found[each.partition_index] = _fetched(each)


def _fetched(answer: FetchResponse.Responses.Partitions) -> Fetched:
    diverging = answer.diverging_epoch
    records = answer.records
    return Fetched(
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        b"" if records is None else memoryview(records),
        None if diverging is None or diverging.epoch < 0 else diverging.end_offset,
        answer.last_stable_offset,
        [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()],
    )
