"""Which topics the members of a consumer group subscribe to."""

from collections.abc import Iterable

from kstore.errors import InvalidMessageError
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from kstore.protocol.wire import Reader

CONSUMER = "consumer"  # the type of the protocol that consumers use


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in these subscriptions; None if one does not decode.

    A later version than the known ones begins with the known fields.
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
