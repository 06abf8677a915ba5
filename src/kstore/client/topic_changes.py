"""What a consumer does when a topic that it reads was deleted and recreated."""

import logging
from typing import TYPE_CHECKING

from kstore.client.assignment import Assignment

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


def replaced_topics(store: "Store", assignment: Assignment) -> set[str]:
    """The assigned topics that were deleted and recreated since."""
    identities = store._manager.identities
    return {
        topic
        for topic, known in assignment.topic_ids().items()
        if topic in store._catalog.topics and not identities.is_same(topic, known)
    }


def restart_topic(
    store: "Store", assignment: Assignment, topic: str, auto_offset_reset: str
) -> None:
    """Reset the positions in a topic that was deleted and recreated.

    Kafka's consumer gets UNKNOWN_TOPIC_ID (KIP-516), refreshes its metadata and continues at
    its old position, which it resets only if it is out of range; it misses the new topic's
    records below that position.
    """
    topic_id = store._manager.identities.identity_of(topic)
    tps = [tp for tp in assignment if tp.topic == topic]
    _LOGGER.warning(
        "topic %s was deleted and recreated: its partitions (%s) are read from their committed "
        "offsets, or by auto.offset.reset=%s",
        topic, ", ".join(str(tp.partition) for tp in tps), auto_offset_reset,
    )  # fmt: skip
    for tp in tps:
        assignment.restart(tp, topic_id)
