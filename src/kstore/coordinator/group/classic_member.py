"""A member of a classic consumer group (Kafka's ClassicGroupMember)."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

Protocols = tuple[tuple[str, bytes], ...]  # name and the member's metadata, in order of preference


@dataclass(slots=True, eq=False)
class Member:
    """One member; timeouts in seconds. Only its group changes it.

    ``join_reply`` and ``sync_reply`` are the member's waiting requests. ``deadline`` is when its
    session ends, unless it is waiting; ``timer_at`` is when the coordinator checks it next. A
    member ``is_new`` until its first rebalance is complete.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    assignment: bytes = b""
    join_reply: object | None = None
    sync_reply: object | None = None
    is_new: bool = False
    deadline: float = 0.0
    timer_at: float = inf

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the member waits for the group, so that its session does not expire."""
        if self.is_new:  # its client may have disappeared without leaving
            return False
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata for a protocol; empty for one that the member does not support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)

    def vote(self, candidates: Collection[str]) -> str:
        """The member's first protocol among the candidates. Raises ValueError if there is none."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} supports none of {sorted(candidates)}")
