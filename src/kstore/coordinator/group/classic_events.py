"""The inputs and outputs of the coordinator of classic groups, as plain values."""

from dataclasses import field

from kstore.coordinator.group.classic_member import Protocols
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

NO_GENERATION = -1
NO_MEMBER = ""


@lazy_dataclass(frozen=True, kw_only=True)
class Join:
    """A JoinGroup request; timeouts in ms. The :class:`JoinAnswer` contains ``reply``.

    ``needs_member_id`` is False before version 4, whose clients do not know MEMBER_ID_REQUIRED.
    ``can_skip_assignment`` is True since version 9. ``skips_initial_delay``: the first member of a
    group does not wait for others, which no client can ask for.
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
    skips_initial_delay: bool = False
    reply: object


@lazy_dataclass(frozen=True, kw_only=True)
class Sync:
    """A SyncGroup request; ``assignments`` by member id, only from the leader."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)
    reply: object


@lazy_dataclass(frozen=True)
class LeavingMember:
    """One member of a LeaveGroup request; a static member may give only its instance id."""

    member_id: str
    instance_id: str | None = None


@lazy_dataclass(frozen=True)
class JoinedMember:
    """A member in the leader's JoinGroup response, with its metadata for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@lazy_dataclass(frozen=True, kw_only=True)
class JoinAnswer:
    """The response to a :class:`Join`. Only the leader gets ``members``."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@lazy_dataclass(frozen=True, kw_only=True)
class SyncAnswer:
    """The response to a :class:`Sync`."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@lazy_dataclass(frozen=True)
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


@lazy_dataclass(frozen=True)
class GroupSnapshot:
    """A group as stored in a record of ``__consumer_offsets``.

    ``state_age`` is the time in seconds since the group entered its state; None if the record's
    version lacks it.
    """

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_age: float | None
    members: tuple[MemberSnapshot, ...] = ()


@lazy_dataclass(frozen=True)
class StoreGroupMetadata:
    """Append this record of a group; then call ``stored`` with ``ticket`` and the error."""

    snapshot: GroupSnapshot
    ticket: object


Effect = JoinAnswer | SyncAnswer | StoreGroupMetadata


@lazy_dataclass(frozen=True)
class GroupDescription:
    """A group in DescribeGroups; ``state`` is Kafka's name of it."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberSnapshot, ...] = ()
