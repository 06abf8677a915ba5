"""When committed offsets expire (``offsets.retention.minutes``), by the state of their group."""

from collections.abc import Collection
from dataclasses import dataclass

from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.offset_records import Commits, PartitionKey
from kstore.coordinator.group.subscription import CONSUMER


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """What the expiry of a group's offsets depends on; times in Unix ms.

    ``expires`` is False while the group's state keeps every offset. ``since`` is when the group
    became empty; None: each commit counts from its own time.
    """

    expires: bool
    since: int | None = None
    kept_topics: Collection[str] = ()


def retention_facts(group: ClassicGroup, now: float, now_ms: int) -> RetentionFacts:
    """The facts of a group at a time of the coordinator's clock, and of the wall clock.

    Offsets of a group that became empty count from then on, or from a later commit; those of a
    Stable consumer group only
    where no member subscribes to the topic; those of a consumer without group management count
    from their commit.
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
    """The facts of a consumer group (KIP-848): what its members subscribe to is kept."""
    since = group.empty_since
    empty_ms = None if since is None else now_ms - round((now - since) * 1000)
    return RetentionFacts(True, empty_ms, group.topics)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a committed offset is kept without use, in ms (``offsets.retention.minutes``).

    No commit counts from before ``served_since`` (Unix ms): what another process left in the
    directory has the complete retention from then on.
    """

    retention_ms: int
    served_since: int

    def expired(self, commits: Commits, facts: RetentionFacts, now_ms: int) -> set[PartitionKey]:
        """The partitions whose committed offset has expired at a time (Unix ms).

        A commit with an expire timestamp of its own honours that one, but it is kept as long as
        the others if it was committed before ``served_since``.
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
