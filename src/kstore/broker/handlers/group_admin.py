"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete: the administration of groups."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.coordinator.group.classic_events import GroupDescription
from kstore.coordinator.group.offset_records import PartitionKey
from kstore.coordinator.group.subscription import CONSUMER
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kstore.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kstore.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kstore.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kstore.security.acl import ResourceType

if TYPE_CHECKING:
    from kstore.broker.services import Services

DescribedGroup = DescribeGroupsResponse.Groups
DeletedTopic = OffsetDeleteResponse.Topics
# All operations on groups, a bit for each of Kafka's AclOperation codes.
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8))
_UNKNOWN_GROUP_ERROR_FROM = 6  # of DescribeGroups; in earlier versions an unknown group is Dead
_CLASSIC, _CONSUMER_TYPE = "classic", "consumer"
_DEAD = "Dead"


class GroupAdminHandlers:
    """Serves the APIs for administrators."""

    def __init__(self, services: "Services") -> None:
        self._service = group_service(services)
        self._coordinator = self._service.coordinator

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_GROUPS, 0, 6, self.describe_groups),
            Api(ApiKey.LIST_GROUPS, 0, 5, self.list_groups),
            Api(ApiKey.DELETE_GROUPS, 0, 2, self.delete_groups),
            Api(ApiKey.OFFSET_DELETE, 0, 0, self.offset_delete),
        ]

    # --- DescribeGroups ---------------------------------------------------------------------

    def describe_groups(self, request: Request) -> Answer:
        """Return state and members; metadata and assignments only of a Stable group."""
        message = DescribeGroupsRequest.decode(request.reader, request.api_version)
        pending = Pending()

        def answer() -> None:
            described = [self._describe(group, request.api_version) for group in message.groups]
            if message.include_authorized_operations:
                for each in described:
                    if not each.error_code:
                        each.authorized_operations = request.operations(
                            ResourceType.GROUP, each.group_id, GROUP_OPERATIONS
                        )
            pending.complete(DescribeGroupsResponse(groups=described))

        self._service.with_names(answer)
        return pending

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        error = self._service.check(group_id, allows_empty=True)
        if error != ErrorCode.NONE:
            return DescribedGroup(error_code=int(error), group_id=group_id)
        found = self._coordinator.describe(group_id)
        if found.state == _DEAD and version >= _UNKNOWN_GROUP_ERROR_FROM:
            return DescribedGroup(
                int(ErrorCode.GROUP_ID_NOT_FOUND),
                f"Group {group_id} not found.",
                group_id,
                _DEAD,
            )
        return _described(found)

    # --- ListGroups -------------------------------------------------------------------------

    def list_groups(self, request: Request) -> Answer:
        """List all groups, or those with the requested states and types."""
        message = ListGroupsRequest.decode(request.reader, request.api_version)
        states = {each.lower() for each in message.states_filter}
        types = {each.lower() for each in message.types_filter}
        pending = Pending()

        def answer() -> None:
            error = ErrorCode.NONE
            if self._service.is_loading:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            groups = [
                ListGroupsResponse.Groups(
                    group.group_id, group.protocol_type or "", group.state.value, _CLASSIC
                )
                for group in self._coordinator
                if (not states or group.state.value.lower() in states)
                and (not types or _CLASSIC in types)
            ]
            groups += [
                ListGroupsResponse.Groups(group.group_id, CONSUMER, group.state, _CONSUMER_TYPE)
                for group in self._service.consumers.coordinator
                if (not states or group.state.lower() in states)
                and (not types or _CONSUMER_TYPE in types)
            ]
            pending.complete(ListGroupsResponse(error_code=int(error), groups=groups))

        self._service.with_names(answer)
        return pending

    # --- DeleteGroups -----------------------------------------------------------------------

    def delete_groups(self, request: Request) -> Answer:
        """Delete groups without members; respond once the deletions are on disk."""
        message = DeleteGroupsRequest.decode(request.reader, request.api_version)
        names = list(dict.fromkeys(message.groups_names))
        errors: dict[str, ErrorCode] = {}
        pending = Pending()

        def take(name: str, error: ErrorCode) -> None:
            errors[name] = error
            if len(errors) == len(names):
                pending.complete(
                    DeleteGroupsResponse(
                        results=[
                            DeleteGroupsResponse.Results(each, int(errors[each])) for each in names
                        ]
                    )
                )

        def delete() -> None:
            for name in names:
                error = self._service.check(name, allows_empty=True)
                if error == ErrorCode.NONE:
                    error = self._service.check_delete(name)
                if error != ErrorCode.NONE:
                    take(name, error)
                else:
                    self._service.delete_group(name, partial(take, name))

        if not names:
            return DeleteGroupsResponse()
        self._service.with_names(delete)
        return pending

    # --- OffsetDelete -----------------------------------------------------------------------

    def offset_delete(self, request: Request) -> Answer:
        """Delete committed offsets of topics that no member subscribes to."""
        message = OffsetDeleteRequest.decode(request.reader, request.api_version)
        pending = Pending()
        self._service.with_names(partial(self._delete_offsets, message, request, pending))
        return pending

    def _delete_offsets(
        self, message: OffsetDeleteRequest, request: Request, pending: Pending
    ) -> None:
        group = message.group_id
        error = self._service.check(group)
        if error == ErrorCode.NONE:
            error = self._service.check_delete_offsets(group, "")
            if error == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:  # depends on the topic
                error = ErrorCode.NONE
        if error != ErrorCode.NONE:
            pending.complete(OffsetDeleteResponse(error_code=int(error)))
            return
        response = OffsetDeleteResponse()
        deleted: list[tuple[PartitionKey, DeletedTopic.Partitions]] = []
        for topic in message.topics:
            entry = DeletedTopic(topic.name)
            response.topics.append(entry)
            refused = self._service.check_delete_offsets(group, topic.name)
            for each in topic.partitions:
                key = topic.name, each.partition_index
                error = refused
                if request.image.partition(*key) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer = DeletedTopic.Partitions(each.partition_index, int(error))
                entry.partitions.append(answer)
                if error == ErrorCode.NONE:
                    deleted.append((key, answer))

        def done(error: ErrorCode) -> None:
            for _, answer in deleted:
                answer.error_code = int(error)
            pending.complete(response)

        if deleted:
            self._service.delete_offsets(group, {key for key, _ in deleted}, done)
        else:
            pending.complete(response)


def _described(found: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        group_id=found.group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroup.Members(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.subscription,
                each.assignment,
            )
            for each in found.members
        ],
    )
