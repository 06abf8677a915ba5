"""Encodes and decodes the subscriptions and assignments of classic members, which brokers pass on
as bytes (Kafka's ConsumerProtocol)."""

from collections.abc import Iterable, Mapping

from kstore.errors import InvalidMessageError
from kstore.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from kstore.protocol.wire import Reader, Writer

CONSUMER = "consumer"  # the type of the protocol that consumers use
_VERSION = 1  # of the bytes that kstore writes; every client since 0.9 reads them


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None = None,
    *,
    owned: Iterable[tuple[str, int]] = (),
) -> bytes:
    """Encode a member's subscription for JoinGroup, with the partitions that it keeps."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in owned:
        by_topic.setdefault(topic, []).append(partition)
    writer = Writer()
    writer.int16(_VERSION)
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.OwnedPartitions(topic, numbers)
            for topic, numbers in by_topic.items()
        ],
    )
    subscription.encode(writer, _VERSION)
    return writer.to_bytes()


def assignment_of(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Encode an assignment for any client."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return encode_assignment(topics, _VERSION)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in these subscriptions; None if one does not decode.

    Versions newer than the known ones begin with the known fields.
    """
    topics: set[str] = set()
    try:
        for each in subscriptions:
            reader = Reader(each)
            reader.int16()
            topics.update(ConsumerProtocolSubscription.decode(reader, 0).topics)
    except InvalidMessageError:
        return None
    return frozenset(topics)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription. Raises InvalidMessageError."""
    version = Reader(data).int16()
    if version < 0:
        raise InvalidMessageError(f"a subscription of version {version}")
    known = min(version, ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.decode(Reader(data, 2), known)


def assignment_version(subscription: bytes) -> int:
    """The version in which a member with this subscription gets its assignment."""
    try:
        version = Reader(subscription).int16()
    except InvalidMessageError:
        return 0
    return max(0, min(version, ConsumerProtocolAssignment.MAX_VERSION))


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment; no bytes are no partitions. Raises InvalidMessageError."""
    if not data:
        return ConsumerProtocolAssignment()
    return ConsumerProtocolAssignment.decode(Reader(data, 2), 0)  # every version has these fields


def encode_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """An assignment for a member whose subscription has this version."""
    writer = Writer()
    writer.int16(version)
    topic = ConsumerProtocolAssignment.AssignedPartitions
    ConsumerProtocolAssignment(
        [topic(name, sorted(found)) for name, found in sorted(partitions.items())]
    ).encode(writer, version)
    return writer.to_bytes()
