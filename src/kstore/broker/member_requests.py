"""Dispatches requests of classic members by the current protocol of their group."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.group_service import GroupService
    from kstore.cluster.image import ClusterImage


class MemberRequests:
    """Passes requests to the coordinator of classic groups, or, for a consumer group with members,
    to the coordinator of consumer groups. Loop's thread only."""

    def __init__(self, groups: "GroupService") -> None:
        self._groups = groups
        self._classic = groups.coordinator
        self._consumers = groups.consumers

    def join(
        self, request: Join, image: "ClusterImage", reply: Callable[[JoinAnswer], object]
    ) -> None:
        """A member joins; an empty consumer group becomes a classic one."""
        group = self._consumers.shared(request.group_id)
        if group is not None:
            self._consumers.join_classic(group, request, image, reply)
            return
        self._consumers.convert_to_classic(request.group_id)
        self._classic.join(request, self._groups.now)
        self._groups.carry_out()
        self._groups.tell_consumers()

    def sync(
        self, request: Sync, image: "ClusterImage", reply: Callable[[SyncAnswer], object]
    ) -> None:
        """A member requests its assignment."""
        group = self._consumers.shared(request.group_id)
        if group is not None:
            reply(self._consumers.sync_classic(group, request, image))
            return
        self._classic.sync(request, self._groups.now)
        self._groups.carry_out()

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Renew a member's session."""
        group = self._consumers.shared(group_id)
        if group is not None:
            return self._consumers.heartbeat_classic(group, member_id, instance_id, generation)
        return self._classic.heartbeat(
            group_id, member_id, instance_id, generation, self._groups.now
        )

    def leave(
        self,
        group_id: str,
        leaving: list[LeavingMember],
        done: Callable[[list[ErrorCode]], object],
    ) -> None:
        """Remove members; ``done`` gets an error code for each."""
        group = self._consumers.shared(group_id)
        if group is not None:
            self._consumers.leave_classic(group, leaving, done)
            return
        errors = self._classic.leave(group_id, leaving, self._groups.now)
        self._groups.carry_out()
        done(errors)
