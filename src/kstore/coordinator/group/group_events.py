"""What comes into the group coordinator and what goes out of it, as plain values."""

from dataclasses import dataclass, field

from kstore.coordinator.group.classic_member import Protocols
from kstore.protocol.error_codes import ErrorCode

NO_GENERATION = -1
NO_MEMBER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request; timeouts in ms. ``reply`` comes back in the :class:`JoinAnswer`.

    ``needs_member_id`` is False for versions before 4, whose clients do not know error 79.
    ``can_skip_assignment`` is True from version 9 on.
    """

    group_id: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str = "consumer"
    protocols: Protocols
    needs_member_id: bool = True
    can_skip_assignment: bool = True
    reply: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request; ``assignments`` by member id, from the leader only."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)
    reply: object


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One member of a LeaveGroup request; a static one may leave by its instance id alone."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it, with its metadata for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """Answers a :class:`Join`. Only the leader gets ``members``."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """Answers a :class:`Sync`."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member as it is stored and described; timeouts in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group as it is stored: what a record of ``__consumer_offsets`` has of it.

    ``state_age`` is for how many seconds the group has been in its state; None if the record,
    of an old version, does not have that.
    """

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_age: float | None
    members: tuple[MemberSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreGroupMetadata:
    """Append this record of a group; then call ``stored`` with ``ticket`` and the error."""

    snapshot: GroupSnapshot
    ticket: object


Effect = JoinAnswer | SyncAnswer | StoreGroupMetadata


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """What DescribeGroups shows; ``state`` is Kafka's name of it."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberSnapshot, ...] = ()
