"""Decides which committed offsets expire (``offsets.retention.minutes``)."""

from collections.abc import Collection

from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.offset_records import Commits, PartitionKey
from kstore.coordinator.group.subscription import CONSUMER
from kstore.lazy_dataclass import lazy_dataclass


@lazy_dataclass(frozen=True)
class RetentionFacts:
    """The properties of a group on which the expiry of its offsets depends; times in Unix ms.

    ``expires`` is False while the group's state retains all offsets. ``since`` is when the group
    became empty; None: each offset's retention begins at its commit.
    """

    expires: bool
    since: int | None = None
    kept_topics: Collection[str] = ()


def retention_facts(group: ClassicGroup, now: float, now_ms: int) -> RetentionFacts:
    """The facts of a group, given the coordinator's clock and the wall clock.

    In an empty group, retention begins when the group became empty, or at a later commit. In a
    Stable consumer group it applies only to topics without a subscriber. For a consumer without
    group management it begins at the commit.
    """
    if group.protocol_type is None:
        return RetentionFacts(True)
    if group.state is GroupState.EMPTY:
        since = group.state_since
        return RetentionFacts(True, None if since is None else now_ms - round((now - since) * 1000))
    if (
        group.state is GroupState.STABLE
        and group.protocol_type == CONSUMER
        and group.topics is not None
    ):
        return RetentionFacts(True, None, group.topics)
    return RetentionFacts(False)


def consumer_retention_facts(group: ConsumerGroup, now: float, now_ms: int) -> RetentionFacts:
    """The facts of a consumer group (KIP-848): offsets of subscribed topics are retained."""
    since = group.empty_since
    empty_ms = None if since is None else now_ms - round((now - since) * 1000)
    return RetentionFacts(True, empty_ms, group.topics)


@lazy_dataclass(frozen=True)
class Retention:
    """How long an unused committed offset is retained, in ms (``offsets.retention.minutes``).

    Retention never begins before ``served_since`` (Unix ms), so that offsets committed by another
    process before then get the full retention time.
    """

    retention_ms: int
    served_since: int

    def expired(self, commits: Commits, facts: RetentionFacts, now_ms: int) -> set[PartitionKey]:
        """The partitions whose committed offset has expired at a time in Unix ms.

        A commit's own expire timestamp takes precedence, unless it was committed before
        ``served_since``.
        """
        if not facts.expires:
            return set()
        expired: set[PartitionKey] = set()
        for key, commit in commits.items():
            if key[0] in facts.kept_topics:
                continue
            own = commit.expire_timestamp
            if own >= 0 and commit.commit_timestamp >= self.served_since:
                is_expired = now_ms >= own
            else:
                since = max(commit.commit_timestamp, facts.since or 0, self.served_since)
                is_expired = now_ms >= max(own, since + self.retention_ms)
            if is_expired:
                expired.add(key)
        return expired
