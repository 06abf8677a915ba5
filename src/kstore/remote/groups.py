"""Group administration: states, members, committed offsets."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kstore.coordinator.group.member_description import MemberDescription
from kstore.errors import InvalidMessageError, KStoreError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kstore.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kstore.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kstore.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kstore.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kstore.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kstore.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from kstore.protocol.wire import Reader
from kstore.remote.answer_errors import error_of, raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.connection import UNSUPPORTED_VERSION
from kstore.remote.coordinators import ask_coordinator, find_coordinator
from kstore.remote.remote_log import only
from kstore.topic_partition import TopicPartition

_Member = ConsumerGroupDescribeResponse.Groups.Members
_Assignment = _Member.Assignment | _Member.TargetAssignment
CONSUMER_TYPES = ("", "consumer")  # protocol types of groups that hold consumers' offsets
DEAD = "Dead"
_NO_GENERATION = -1


class ListedGroup(NamedTuple):
    """A group of ListGroups; state and type are empty if the broker does not report them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupDescription(NamedTuple):
    """State and members of a group; an unknown group is Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int
    epoch: int | None = None  # of a group of KIP-848, like the next
    target_epoch: int | None = None


class CommittedOffset(NamedTuple):
    """A committed offset with its metadata, and the leader epoch that was committed with it.

    ``leader_epoch`` is -1 if there is none.
    """

    offset: int
    metadata: str
    leader_epoch: int


def list_groups(
    cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """The consumer groups of all brokers, optionally only with these states and types."""
    found = list_all_groups(cluster, states=states, types=types)
    return [each for each in found if each.protocol_type in CONSUMER_TYPES]


def list_all_groups(
    cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """The groups of all brokers and of any protocol type, not only consumer groups."""
    wanted, kinds = list(states), list(types)
    cluster.metadata([])
    request = ListGroupsRequest(states_filter=wanted, types_filter=kinds)
    found: dict[str, ListedGroup] = {}
    for node in cluster.nodes:

        def ask(node: int = node) -> ListGroupsResponse:
            answer = cluster.ask(request, ListGroupsResponse, node=node)
            raise_for(answer.error_code, None, "")
            return answer

        for each in cluster.retrying(ask, forget=None).groups:
            found[each.group_id] = ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
    return list(found.values())


def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """State and members of one group, from its coordinator; tries the KIP-848 request first."""
    found = _describe_consumer_group(cluster, group)
    if found is not None:
        return found
    answer = ask_coordinator(
        cluster,
        group,
        DescribeGroupsRequest(groups=[group]),
        DescribeGroupsResponse,
        code_of=lambda answer: only(answer.groups, group).error_code,
    )
    entry = only(answer.groups, group)
    node = find_coordinator(cluster, group)
    if entry.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # since version 6
        return GroupDescription(group, DEAD, "", "", (), node)
    raise_for(entry.error_code, None, group)
    if entry.protocol_type not in CONSUMER_TYPES:
        raise KStoreError(f"GroupId {group} is not a consumer group ({entry.protocol_type}).")
    members = tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id or "",
            each.client_id,
            each.client_host,
            assigned_partitions(each.member_assignment),
        )
        for each in entry.members
    )
    return GroupDescription(
        group, entry.group_state, entry.protocol_type, entry.protocol_data, members, node
    )


def _describe_consumer_group(cluster: Cluster, group: str) -> GroupDescription | None:
    """A consumer group (KIP-848); None for a classic group, or if the broker lacks KIP-848."""
    try:
        answer = ask_coordinator(
            cluster,
            group,
            ConsumerGroupDescribeRequest(group_ids=[group]),
            ConsumerGroupDescribeResponse,
            code_of=lambda answer: only(answer.groups, group).error_code,
        )
    except KStoreError as error:
        if error.code == UNSUPPORTED_VERSION:
            return None
        raise
    entry = only(answer.groups, group)
    if entry.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_for(entry.error_code, entry.error_message, group)
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id or "",
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            each.member_epoch,
            _partitions(each.target_assignment),
        )
        for each in entry.members
    )
    node = find_coordinator(cluster, group)
    return GroupDescription(
        group,
        entry.group_state,
        "consumer",
        entry.assignor_name,
        members,
        node,
        entry.group_epoch,
        entry.assignment_epoch,
    )


def _partitions(assignment: "_Assignment") -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a consumer's assignment; empty if the assignment is empty or unreadable.

    Versions newer than the known ones begin with the known fields.
    """
    if not data:
        return ()
    try:
        reader = Reader(data)
        reader.int16()
        assignment = ConsumerProtocolAssignment.decode(reader, 0)
    except InvalidMessageError:
        return ()
    return tuple(
        TopicPartition(each.topic, number)
        for each in assignment.assigned_partitions
        for number in each.partitions
    )


def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """A group's committed offsets, for all partitions or for these; omits partitions without one.

    With ``require_stable``, retries while a transaction has a pending commit.
    """
    topics = None if partitions is None else by_topic(partitions)
    Groups = OffsetFetchRequest.Groups  # noqa: N806 (a class)
    request = OffsetFetchRequest(
        group_id=group,
        topics=(
            None
            if topics is None
            else [OffsetFetchRequest.Topics(name, numbers) for name, numbers in topics.items()]
        ),
        groups=[
            Groups(
                group_id=group,
                topics=(
                    None
                    if topics is None
                    else [Groups.Topics(name, numbers) for name, numbers in topics.items()]
                ),
            )
        ],
        require_stable=require_stable,
    )

    def attempt() -> dict[TopicPartition, CommittedOffset]:
        answer = ask_coordinator(cluster, group, request, OffsetFetchResponse, code_of=_code)
        raise_for(_code(answer), None, group)
        entries = answer.groups[0].topics if answer.groups else answer.topics
        found = {}
        for topic in entries:
            for each in topic.partitions:
                raise_for(each.error_code, None, f"{topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    tp = TopicPartition(topic.name, each.partition_index)
                    found[tp] = CommittedOffset(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        return found

    return cluster.retrying(attempt, forget=None)


def _code(answer: OffsetFetchResponse) -> int:
    return answer.groups[0].error_code if answer.groups else answer.error_code


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str = "",
    generation: int = _NO_GENERATION,
    group_instance_id: str | None = None,
) -> None:
    """Commit offsets for a member or, as tools do, for a group without members.

    Raises the error of the first partition that fails.
    """
    if not offsets:
        return
    Topics = OffsetCommitRequest.Topics  # noqa: N806 (a class)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[
            Topics(
                name=topic,
                partitions=[
                    Topics.Partitions(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )

    def code_of(answer: OffsetCommitResponse) -> int:
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        return next(filter(None, codes), 0)

    answer = ask_coordinator(cluster, group, request, OffsetCommitResponse, code_of=code_of)
    for topic in answer.topics:
        for each in topic.partitions:
            raise_for(each.error_code, None, f"{topic.name}-{each.partition_index}")


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group without members. Raises NonEmptyGroupError, GroupIdNotFoundError and
    others."""
    answer = ask_coordinator(
        cluster,
        group,
        DeleteGroupsRequest(groups_names=[group]),
        DeleteGroupsResponse,
        code_of=lambda answer: only(answer.results, group).error_code,
    )
    raise_for(only(answer.results, group).error_code, None, "")


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KStoreError | None]:
    """Delete committed offsets; return each partition's error, or None on success.

    Raises the error of the group, such as GroupIdNotFoundError.
    """
    Topics = OffsetDeleteRequest.Topics  # noqa: N806 (a class)
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            Topics(name=topic, partitions=[Topics.Partitions(each) for each in numbers])
            for topic, numbers in by_topic(partitions).items()
        ],
    )
    answer = ask_coordinator(
        cluster, group, request, OffsetDeleteResponse, code_of=lambda answer: answer.error_code
    )
    raise_for(answer.error_code, None, group)
    return {
        TopicPartition(topic.name, each.partition_index): (
            error_of(each.error_code, None, "") if each.error_code else None
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, sorted."""
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found
