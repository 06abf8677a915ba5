"""The inputs and outputs of the coordinator of consumer groups (KIP-848)."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kstore.coordinator.group.classic_member import Protocols
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
Assignment = Mapping[bytes, frozenset[int]]  # partitions by topic id
Records = list[tuple[bytes, bytes | None]]  # keys and values of ``__consumer_offsets``


class SeenTopic(Protocol):
    """A topic of the cluster image."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Mapping[int, object]: ...


class SeenTopics(Protocol):
    """The cluster image: immutable, so a different object means a change."""

    @property
    def topics(self) -> Mapping[str, SeenTopic]: ...


@lazy_dataclass(frozen=True)
class ClassicMetadata:
    """What a member of a consumer group has that uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@lazy_dataclass(frozen=True, kw_only=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request; None where it says nothing new. Timeouts in ms.

    ``classic`` is given where a JoinGroup request says the same.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_pattern: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    classic: ClassicMetadata | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all fields are set, as in a joining heartbeat and after a lost response."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topics is not None or self.subscribed_pattern is not None)
            and self.owned is not None
        )


class PlainHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat request that says nothing new, as nearly all of them."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    client_id: str
    client_host: str


@lazy_dataclass(frozen=True, kw_only=True)
class HeartbeatAnswer:
    """The response to a heartbeat. ``assignment`` is None if the member knows it.

    ``records`` must be stored before the response is sent.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    assignment: Assignment | None = None
    records: Records


@lazy_dataclass(frozen=True)
class ConsumerMemberDescription:
    """A member in ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    assignment: Assignment
    target: Assignment
    is_classic: bool = False


@lazy_dataclass(frozen=True)
class ConsumerGroupDescription:
    """A group in ConsumerGroupDescribe; ``state`` is Kafka's name of it."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...] = ()
