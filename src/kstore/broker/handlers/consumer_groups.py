"""ConsumerGroupHeartbeat, ConsumerGroupDescribe: the members of consumer groups (KIP-848)."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.handlers.group_admin import GROUP_OPERATIONS
from kstore.broker.request import Answer, Pending, Request
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.coordinator.group.consumer_events import (
    JOIN_EPOCH,
    Assignment,
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerMemberDescription,
    HeartbeatAnswer,
    PlainHeartbeat,
)
from kstore.coordinator.group.subscription import CONSUMER
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kstore.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kstore.security.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.cluster.image import ClusterImage

T = TypeVar("T")
DescribedGroup = ConsumerGroupDescribeResponse.Groups
DescribedMember = DescribedGroup.Members
# of ConsumerGroupHeartbeat: in earlier versions the broker generates the id
_MEMBER_ID_REQUIRED_FROM = 1
# What follows the instance id where a member says nothing new, by version: null, or -1 for the
# rebalance timeout.
_NO_NEWS = (b"\0\xff\xff\xff\xff\0\0\0\0", b"\0\xff\xff\xff\xff\0\0\0\0\0")
_DESCRIBE, _TOPIC = AclOperation.DESCRIBE, ResourceType.TOPIC
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1  # the type of a member, by the protocol that it uses


class ConsumerGroupHandlers:
    """Serves the APIs of consumer groups, unless a setting disables the protocol."""

    def __init__(self, services: "Services") -> None:
        config = services.metadata.image.broker_config
        protocols = config.get(_PROTOCOLS) or BROKER_SETTINGS[_PROTOCOLS].default or ""
        self._is_on = CONSUMER in {each.strip() for each in protocols.split(",")}
        self._service = group_service(services)
        self._consumers = self._service.consumers

    def apis(self) -> list[Api]:
        if not self._is_on:
            return []
        return [
            Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, self.heartbeat),
            Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, self.describe),
        ]

    # --- ConsumerGroupHeartbeat -------------------------------------------------------------

    def heartbeat(self, request: Request) -> Answer:
        """A member joins, stays or leaves; respond once the resulting records are stored."""
        beat = _plain_heartbeat(request)
        if beat is not None and self._renews(beat, request.image):
            return ConsumerGroupHeartbeatResponse(
                member_id=beat.member_id,
                member_epoch=beat.member_epoch,
                heartbeat_interval_ms=self._consumers.heartbeat_interval_ms(beat.group_id),
            )
        version = request.api_version
        message = ConsumerGroupHeartbeatRequest.decode(request.reader, version)
        error = self._service.check(message.group_id)
        if error == ErrorCode.INVALID_GROUP_ID:
            return _refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        if error != ErrorCode.NONE:
            return _refused(error)
        if version >= _MEMBER_ID_REQUIRED_FROM and not message.member_id:
            return _refused(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
        interval_ms = self._consumers.heartbeat_interval_ms(message.group_id)
        pending = Pending()

        def done(answer: HeartbeatAnswer) -> None:
            if not pending.is_answered:
                pending.complete(_heartbeat_response(answer, interval_ms))

        pending.on_stop = lambda: pending.complete(_refused(ErrorCode.NOT_COORDINATOR))
        access = request.access
        may_describe = None if access is None else partial(access.may, _DESCRIBE, _TOPIC)
        self._consumers.heartbeat(
            _as_heartbeat(message, request), request.image, done, may_describe
        )
        return pending

    def _renews(self, beat: PlainHeartbeat, image: "ClusterImage") -> bool:
        is_here = self._service.check(beat.group_id) == ErrorCode.NONE
        return is_here and self._consumers.renew(beat, image)

    # --- ConsumerGroupDescribe --------------------------------------------------------------

    def describe(self, request: Request) -> Answer:
        """Return state, epochs, and members with their current and target assignments."""
        message = ConsumerGroupDescribeRequest.decode(request.reader, request.api_version)
        described = [self._describe(each, request.image) for each in message.group_ids]
        if message.include_authorized_operations:
            for group in described:
                if not group.error_code:
                    group.authorized_operations = request.operations(
                        ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                    )
        return ConsumerGroupDescribeResponse(groups=described)

    def _describe(self, group_id: str, image: "ClusterImage") -> DescribedGroup:
        error = self._service.check(group_id)
        if error != ErrorCode.NONE:
            return DescribedGroup(int(error), error.message, group_id)
        group = self._consumers.find(group_id)
        if group is None:
            is_classic = self._service.coordinator.find(group_id) is not None
            what = "is not a consumer group" if is_classic else "not found"
            return DescribedGroup(
                int(ErrorCode.GROUP_ID_NOT_FOUND), f"Group {group_id} {what}.", group_id
            )
        return _described(group.describe(), image)


def _plain_heartbeat(request: Request) -> PlainHeartbeat | None:
    """A heartbeat without news, read in a third of the time of a general one; None: there is news
    in it."""
    reader = request.reader
    start = reader.position
    group_id, member_id, epoch = reader.string(True), reader.string(True), reader.int32()
    instance_id = reader.nullable_string(True)
    is_plain = reader.data[reader.position : reader.end] == _NO_NEWS[request.api_version]
    reader.position = start  # the general way reads it again
    if not is_plain:
        return None
    host = f"/{request.connection.peer[0]}"
    return PlainHeartbeat(group_id, member_id, epoch, instance_id, request.client_id, host)


def _as_heartbeat(message: ConsumerGroupHeartbeatRequest, request: Request) -> ConsumerHeartbeat:
    owned = message.topic_partitions
    names = message.subscribed_topic_names
    if names is None and message.member_epoch == JOIN_EPOCH and message.subscribed_topic_regex:
        names = []
    return ConsumerHeartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        client_id=request.client_id,
        client_host=f"/{request.connection.peer[0]}",
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        subscribed_topics=None if names is None else tuple(names),
        subscribed_pattern=message.subscribed_topic_regex,
        server_assignor=message.server_assignor,
        owned=None
        if owned is None
        else {each.topic_id: frozenset(each.partitions) for each in owned},
    )


def _refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=int(error), error_message=message or error.message
    )


def _heartbeat_response(
    answer: HeartbeatAnswer, interval_ms: int
) -> ConsumerGroupHeartbeatResponse:
    if answer.error != ErrorCode.NONE:
        return _refused(answer.error, answer.message)
    response = ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=interval_ms if answer.member_epoch >= JOIN_EPOCH else 0,
    )
    if answer.assignment is not None:
        kind = ConsumerGroupHeartbeatResponse.Assignment
        response.assignment = kind(
            _each_topic(answer.assignment, lambda *each: kind.TopicPartitions(*each))
        )
    return response


def _each_topic(assignment: Assignment, make: Callable[[bytes, list[int]], T]) -> list[T]:
    return [make(topic_id, sorted(found)) for topic_id, found in sorted(assignment.items())]


def _described(found: ConsumerGroupDescription, image: "ClusterImage") -> DescribedGroup:
    return DescribedGroup(
        group_id=found.group_id,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_described_member(each, image) for each in found.members],
    )


def _described_member(each: ConsumerMemberDescription, image: "ClusterImage") -> DescribedMember:
    names = image.names_by_id

    def of_topics(assignment: Assignment, make: Callable[[bytes, str, list[int]], T]) -> list[T]:
        """Without deleted topics, as in Kafka's ModernGroupMember."""
        left = {key: found for key, found in assignment.items() if key in names}
        return _each_topic(left, lambda key, all_: make(key, names[key], all_))

    current, target = DescribedMember.Assignment, DescribedMember.TargetAssignment
    return DescribedMember(
        each.member_id,
        each.instance_id,
        each.rack_id,
        each.member_epoch,
        each.client_id,
        each.client_host,
        list(each.subscribed_topics),
        each.subscribed_pattern,
        current(of_topics(each.assignment, current.TopicPartitions)),
        target(of_topics(each.target, target.TopicPartitions)),
        _CLASSIC_MEMBER if each.is_classic else _CONSUMER_MEMBER,
    )
