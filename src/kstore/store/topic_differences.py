"""The events of a topic between two states of it.

Every change is found by comparing, however it came about: by a call in this process, by one that an
error interrupted half way, or by another process.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from kstore.errors import KStoreError
from kstore.store.topic_identity import TopicIdentities, TopicIdentity
from kstore.store.topic_registry import TopicRegistry


class TopicEventType(Enum):
    """What has happened to a topic."""

    CREATED = "created"
    DELETED = "deleted"
    PARTITIONS_ADDED = "partitions added"
    PARTITIONS_DELETED = "partitions deleted"
    CONFIG_CHANGED = "config changed"


class TopicEvent(NamedTuple):
    """One change of a topic of a store, for the callbacks of :meth:`kstore.Store.watch`.

    ``partitions`` are those that were created, deleted or added; empty for CONFIG_CHANGED.
    ``config`` has the settings that were changed, by Kafka's names, with None for one that was
    unset; all that were set, for CREATED.
    """

    type: TopicEventType
    topic: str
    partitions: tuple[int, ...] = ()
    config: Mapping[str, str | None] = {}


class TopicState(NamedTuple):
    """A topic at one time."""

    identity: TopicIdentity
    partitions: frozenset[int]
    config: Mapping[str, str]


def state_of(catalog: TopicRegistry, identities: TopicIdentities, topic: str) -> TopicState | None:
    """A topic now; None if it does not exist. The caller holds the store's lock."""
    partitions = catalog.topics.get(topic)
    if partitions is None:
        return None
    try:
        identity = identities.find(topic)
    except KStoreError:  # of its files, which a use of the topic reports
        identity = TopicIdentity()
    try:
        config = catalog.set_properties(topic)
    except KStoreError:
        config = {}
    return TopicState(identity, frozenset(partitions), config)


def differences(
    topic: str, before: TopicState | None, now: TopicState | None
) -> Iterator[TopicEvent]:
    """What has happened to a topic, in order."""
    if before is not None and (now is None or not now.identity.is_same(before.identity.text)):
        yield TopicEvent(TopicEventType.DELETED, topic, tuple(sorted(before.partitions)))
        before = None
    if now is None:
        return
    if before is None:
        yield TopicEvent(
            TopicEventType.CREATED, topic, tuple(sorted(now.partitions)), dict(now.config)
        )
        return
    if gone := before.partitions - now.partitions:
        yield TopicEvent(TopicEventType.PARTITIONS_DELETED, topic, tuple(sorted(gone)))
    if added := now.partitions - before.partitions:
        yield TopicEvent(TopicEventType.PARTITIONS_ADDED, topic, tuple(sorted(added)))
    changed: dict[str, str | None] = {
        name: value for name, value in now.config.items() if before.config.get(name) != value
    }
    changed |= {name: None for name in before.config if name not in now.config}
    if changed:
        yield TopicEvent(TopicEventType.CONFIG_CHANGED, topic, (), changed)
