"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the members of classic groups."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.member_requests import MemberRequests
from kstore.broker.request import Answer, Pending, Request
from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kstore.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kstore.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kstore.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services

# The first versions of JoinGroup with these features.
_REBALANCE_TIMEOUT_FROM, _MEMBER_ID_REQUIRED_FROM, _NULL_PROTOCOL_FROM = 1, 4, 7
_SKIP_ASSIGNMENT_FROM = 9
_PROTOCOL_REQUIRED_FROM = 5  # of SyncGroup
_LEAVE_MANY_FROM = 3  # of LeaveGroup


class GroupHandlers:
    """Serves the APIs for members."""

    def __init__(self, services: "Services") -> None:
        self._service = group_service(services)
        self._members = MemberRequests(self._service)

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.JOIN_GROUP, 0, 9, self.join_group),
            Api(ApiKey.HEARTBEAT, 0, 4, self.heartbeat),
            Api(ApiKey.LEAVE_GROUP, 0, 5, self.leave_group),
            Api(ApiKey.SYNC_GROUP, 0, 5, self.sync_group),
        ]

    def join_group(self, request: Request) -> Answer:
        """Respond once the rebalance that the member starts or joins is complete."""
        version = request.api_version
        message = JoinGroupRequest.decode(request.reader, version)
        pending = Pending()
        reply = partial(_answer_join, pending, version)
        _answer_when_stopping(pending, partial(_stop_join, pending, version))
        error = self._service.check(message.group_id)
        if error != ErrorCode.NONE:
            reply(JoinAnswer(reply=None, error=error, member_id=message.member_id))
            return pending
        self._members.join(_as_join(message, request, reply), request.image, reply)
        return pending

    def sync_group(self, request: Request) -> Answer:
        """Respond once the leader's assignments have arrived and are stored."""
        version = request.api_version
        message = SyncGroupRequest.decode(request.reader, version)
        pending = Pending()
        reply = partial(_answer_sync, pending)
        _answer_when_stopping(pending, partial(_stop_sync, pending))
        error = self._service.check(message.group_id)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance is lost, but the coordinator is the same, so the member must only
            # rejoin.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        has_protocol = message.protocol_type is not None and message.protocol_name is not None
        if error == ErrorCode.NONE and version >= _PROTOCOL_REQUIRED_FROM and not has_protocol:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error != ErrorCode.NONE:
            reply(SyncAnswer(reply=None, error=error))
            return pending
        self._members.sync(
            Sync(
                group_id=message.group_id,
                generation=message.generation_id,
                member_id=message.member_id,
                instance_id=message.group_instance_id,
                protocol_type=message.protocol_type,
                protocol=message.protocol_name,
                assignments={each.member_id: each.assignment for each in message.assignments},
                reply=reply,
            ),
            request.image,
            reply,
        )
        return pending

    def heartbeat(self, request: Request) -> Answer:
        """Renew a session; while the group is being loaded, every member counts as alive."""
        message = HeartbeatRequest.decode(request.reader, request.api_version)
        error = self._service.check(message.group_id)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE
        elif error == ErrorCode.NONE:
            error = self._members.heartbeat(
                message.group_id,
                message.member_id,
                message.group_instance_id,
                message.generation_id,
            )
        return HeartbeatResponse(error_code=int(error))

    def leave_group(self, request: Request) -> Answer:
        """Remove members immediately."""
        version = request.api_version
        message = LeaveGroupRequest.decode(request.reader, version)
        error = self._service.check(message.group_id)
        if error != ErrorCode.NONE:
            return LeaveGroupResponse(error_code=int(error))
        if version >= _LEAVE_MANY_FROM:
            leaving = [
                LeavingMember(each.member_id, each.group_instance_id) for each in message.members
            ]
        else:
            leaving = [LeavingMember(message.member_id)]
        pending = Pending()

        def done(errors: list[ErrorCode]) -> None:
            if not pending.is_answered:
                pending.complete(_left(leaving, errors, version))

        pending.on_stop = lambda: done([ErrorCode.NOT_COORDINATOR for _ in leaving])
        self._members.leave(message.group_id, leaving, done)
        return pending


def _as_join(message: JoinGroupRequest, request: Request, reply: object) -> Join:
    version = request.api_version
    has_own = version >= _REBALANCE_TIMEOUT_FROM
    return Join(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=f"/{request.connection.peer[0]}",
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=(
            message.rebalance_timeout_ms if has_own else message.session_timeout_ms
        ),
        protocol_type=message.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in message.protocols),
        needs_member_id=version >= _MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
        reply=reply,
    )


def _left(
    leaving: list[LeavingMember], errors: list[ErrorCode], version: int
) -> LeaveGroupResponse:
    if version < _LEAVE_MANY_FROM:
        return LeaveGroupResponse(error_code=int(errors[0]))
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.Members(each.member_id, each.instance_id, int(code))
            for each, code in zip(leaving, errors, strict=True)
        ]
    )


def _answer_when_stopping(pending: Pending, answer: "partial[None]") -> None:
    """Respond when the broker stops, without waiting for rebalances; members then look up their
    coordinator."""
    pending.on_stop = answer


def _stop_join(pending: Pending, version: int) -> None:
    _answer_join(pending, version, JoinAnswer(reply=None, error=ErrorCode.NOT_COORDINATOR))


def _stop_sync(pending: Pending) -> None:
    _answer_sync(pending, SyncAnswer(reply=None, error=ErrorCode.NOT_COORDINATOR))


def _answer_join(pending: Pending, version: int, answer: JoinAnswer) -> None:
    if pending.is_answered:
        return
    protocol = answer.protocol
    if protocol is None and version < _NULL_PROTOCOL_FROM:
        protocol = ""
    pending.complete(
        JoinGroupResponse(
            error_code=int(answer.error),
            generation_id=answer.generation,
            protocol_type=answer.protocol_type,
            protocol_name=protocol,
            leader=answer.leader,
            skip_assignment=answer.skip_assignment,
            member_id=answer.member_id,
            members=[
                JoinGroupResponse.Members(each.member_id, each.instance_id, each.metadata)
                for each in answer.members
            ],
        )
    )


def _answer_sync(pending: Pending, answer: SyncAnswer) -> None:
    if pending.is_answered:
        return
    pending.complete(
        SyncGroupResponse(
            error_code=int(answer.error),
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol,
            assignment=answer.assignment,
        )
    )
