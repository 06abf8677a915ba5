"""The assignors of classic members of a cluster's groups: what they send, and how a leader assigns.

A sticky member sends what it had, so that whichever member leads can leave it there.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from kstore.coordinator.group import range_assignor, roundrobin_assignor, sticky_assignor
from kstore.coordinator.group.range_assignor import Subscriber
from kstore.coordinator.group.subscription import decode_subscription, encode_subscription
from kstore.errors import InvalidMessageError
from kstore.protocol.messages.join_group import JoinGroupResponse
from kstore.protocol.wire import Reader, Writer
from kstore.topic_partition import TopicPartition

RANGE, ROUND_ROBIN = range_assignor.NAME, roundrobin_assignor.NAME
STICKY, COOPERATIVE = sticky_assignor.NAME, sticky_assignor.COOPERATIVE_NAME
NAMES = (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE)
_GENERATION = Struct(">i")
_NONE = -1


class _Had(NamedTuple):
    """The partitions that a member had, in which generation; -1 if it does not say."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = _NONE


def subscription_of(
    assignor: str, topics: Iterable[str], had: Sequence[TopicPartition], generation: int
) -> bytes:
    """What a member sends to the group for this assignor."""
    if assignor == STICKY:
        return encode_subscription(topics, _encode_had(had, generation) if had else None)
    if assignor == COOPERATIVE:
        user_data = None if generation < 0 else _GENERATION.pack(generation)
        return encode_subscription(topics, user_data, owned=had)
    return encode_subscription(topics)


def assign(
    assignor: str,
    members: Iterable[JoinGroupResponse.Members],
    partitions: Mapping[str, Sequence[int]],
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, as a leader decides."""
    subscribers, had = [], {}
    for each in members:
        subscription = decode_subscription(each.metadata)
        topics = tuple(subscription.topics)
        subscribers.append(Subscriber(each.member_id, each.group_instance_id, topics))
        if assignor == STICKY:
            had[each.member_id] = _decode_had(subscription.user_data)
        elif assignor == COOPERATIVE:
            generation = subscription.generation_id
            if generation < 0:
                generation = _decode_generation(subscription.user_data)
            owned = tuple(
                TopicPartition(owned.topic, number)
                for owned in subscription.owned_partitions
                for number in owned.partitions
            )
            had[each.member_id] = _Had(owned, generation)
    if assignor == RANGE:
        return range_assignor.assign(subscribers, partitions)
    if assignor == ROUND_ROBIN:
        return roundrobin_assignor.assign(subscribers, partitions)
    owned_now = _newest(had)
    found = sticky_assignor.assign(subscribers, partitions, owned_now)
    if assignor == COOPERATIVE:
        return sticky_assignor.without_transfers(found, owned_now)
    return found


def topics_of(members: Iterable[JoinGroupResponse.Members]) -> list[str]:
    """The topics that any member subscribes to."""
    return sorted({t for each in members for t in decode_subscription(each.metadata).topics})


def _newest(had: Mapping[str, _Had]) -> dict[str, list[TopicPartition]]:
    """What each member had, without what another one got in a later generation."""
    newest: dict[TopicPartition, int] = {}
    for each in had.values():
        for tp in each.partitions:
            newest[tp] = max(newest.get(tp, _NONE), each.generation)
    return {
        member: [tp for tp in each.partitions if newest[tp] == each.generation]
        for member, each in had.items()
    }


def _encode_had(had: Sequence[TopicPartition], generation: int) -> bytes:
    """Kafka's StickyAssignorUserData v1: the partitions by topic, and the generation."""
    topics: dict[str, list[int]] = {}
    for tp in had:
        topics.setdefault(tp.topic, []).append(tp.partition)
    writer = Writer()
    writer.int32(len(topics))
    for topic, numbers in topics.items():
        writer.string(topic, False)
        writer.integers("i", numbers, False)
    writer.int32(generation)
    return writer.to_bytes()


def _decode_had(data: bytes | None) -> _Had:
    """The same; nothing of data that are no such. Version 0 has no generation."""
    if not data:
        return _Had()
    reader = Reader(data)
    found = []
    try:
        for _ in range(reader.int32()):
            topic = reader.string(False)
            found += [TopicPartition(topic, number) for number in reader.integers("i", False)]
        generation = reader.int32() if reader.position < len(data) else _NONE
    except InvalidMessageError:
        return _Had()
    return _Had(tuple(found), generation)


def _decode_generation(data: bytes | None) -> int:
    try:
        return Reader(data or b"").int32()
    except InvalidMessageError:
        return _NONE
