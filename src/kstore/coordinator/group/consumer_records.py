"""Encodes and decodes the records of consumer groups (KIP-848) in ``__consumer_offsets``.

Keys and values are those of Kafka 3.9 and 4.x. Kafka before 4.1 also stores the partition counts
that a group has seen (type 4). kstore reads but does not write them, since they follow from the
topics.
"""

from collections.abc import Mapping

from kstore.coordinator.group.consumer_events import Assignment, ClassicMetadata, Records
from kstore.coordinator.group.consumer_member import ConsumerMember, MemberState
from kstore.errors import CorruptRecordError
from kstore.protocol.records import decode_record, encode_record, prefix_of
from kstore.protocol.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey as CurrentKey,
)
from kstore.protocol.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kstore.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey as MemberKey,
)
from kstore.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue as MemberValue,
)
from kstore.protocol.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey as GroupKey,
)
from kstore.protocol.records.consumer_group_metadata import (
    ConsumerGroupMetadataValue as GroupValue,
)
from kstore.protocol.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey as TargetKey,
)
from kstore.protocol.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberValue as TargetValue,
)
from kstore.protocol.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey as TargetEpochKey,
)
from kstore.protocol.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataValue as TargetEpochValue,
)
from kstore.protocol.wire import Encodable


def _key(key: Encodable, record_type: int) -> bytes:
    return encode_record(key, record_type, 0)


def group_key(group_id: str) -> bytes:
    return _key(GroupKey(group_id), GroupKey.RECORD_TYPE)


def group_record(group_id: str, epoch: int) -> Records:
    return [(group_key(group_id), encode_record(GroupValue(epoch), 0, 0))]


def group_tombstones(group_id: str) -> Records:
    target = _key(TargetEpochKey(group_id), TargetEpochKey.RECORD_TYPE)
    return [(target, None), (group_key(group_id), None)]


def target_epoch_record(group_id: str, epoch: int) -> Records:
    key = _key(TargetEpochKey(group_id), TargetEpochKey.RECORD_TYPE)
    return [(key, encode_record(TargetEpochValue(epoch), 0, 0))]


def target_record(group_id: str, member_id: str, target: Assignment) -> Records:
    value = TargetValue(
        [TargetValue.TopicPartitions(each, sorted(found)) for each, found in sorted(target.items())]
    )
    key = _key(TargetKey(group_id, member_id), TargetKey.RECORD_TYPE)
    return [(key, encode_record(value, 0, 0))]


def member_record(group_id: str, member: ConsumerMember) -> Records:
    value = MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=round(member.rebalance_timeout * 1000),
        server_assignor=member.assignor,
        classic_member_metadata=_classic_metadata(member.classic),
    )
    key = _key(MemberKey(group_id, member.member_id), MemberKey.RECORD_TYPE)
    return [(key, encode_record(value, 0, 0))]


def _classic_metadata(classic: ClassicMetadata | None) -> MemberValue.ClassicMemberMetadata | None:
    if classic is None:
        return None
    kind = MemberValue.ClassicMemberMetadata
    protocols = [kind.SupportedProtocols(name, data) for name, data in classic.protocols]
    return kind(classic.session_timeout_ms, protocols)


def current_record(group_id: str, member: ConsumerMember) -> Records:
    value = CurrentValue(
        member.epoch,
        member.previous_epoch,
        int(member.state),
        [
            CurrentValue.AssignedPartitions(each, sorted(found))
            for each, found in sorted(member.assigned.items())
        ],
        [
            CurrentValue.PartitionsPendingRevocation(each, sorted(found))
            for each, found in sorted(member.revoking.items())
        ],
    )
    key = _key(CurrentKey(group_id, member.member_id), CurrentKey.RECORD_TYPE)
    return [(key, encode_record(value, 0, 0))]


def member_tombstones(group_id: str, member_id: str) -> Records:
    return [
        (_key(CurrentKey(group_id, member_id), CurrentKey.RECORD_TYPE), None),
        (_key(TargetKey(group_id, member_id), TargetKey.RECORD_TYPE), None),
        (_key(MemberKey(group_id, member_id), MemberKey.RECORD_TYPE), None),
    ]


class StoredConsumerGroup:
    """A group, decoded from its records. Raises CorruptRecordError."""

    def __init__(self, group_id: str, records: Mapping[bytes, bytes]) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        by_type: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, value in records.items():
            by_type.setdefault(prefix_of(key), []).append((key, value))
        for _, value in by_type.get(GroupKey.RECORD_TYPE, ()):
            self.epoch = decode_record(GroupValue, _version(value), value).epoch
        for _, value in by_type.get(TargetEpochKey.RECORD_TYPE, ()):
            found = decode_record(TargetEpochValue, _version(value), value)
            self.target_epoch = found.assignment_epoch
        for key, value in by_type.get(MemberKey.RECORD_TYPE, ()):
            self._take_member(decode_record(MemberKey, 0, key).member_id, value)
        for key, value in by_type.get(TargetKey.RECORD_TYPE, ()):
            member_id = decode_record(TargetKey, 0, key).member_id
            target = decode_record(TargetValue, _version(value), value)
            self.targets[member_id] = {
                each.topic_id: frozenset(each.partitions) for each in target.topic_partitions
            }
        for key, value in by_type.get(CurrentKey.RECORD_TYPE, ()):
            self._take_current(decode_record(CurrentKey, 0, key).member_id, value)

    def _take_member(self, member_id: str, data: bytes) -> None:
        value = decode_record(MemberValue, _version(data), data)
        self.members[member_id] = ConsumerMember(
            member_id,
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            value.rebalance_timeout_ms / 1000,
            tuple(value.subscribed_topic_names),
            value.subscribed_topic_regex or None,
            value.server_assignor,
        )
        classic = value.classic_member_metadata
        if classic is not None:
            if not classic.supported_protocols:
                raise CorruptRecordError("a classic member without protocols")
            self.members[member_id].classic = ClassicMetadata(
                classic.session_timeout_ms,
                tuple((each.name, each.metadata) for each in classic.supported_protocols),
            )

    def _take_current(self, member_id: str, data: bytes) -> None:
        value = decode_record(CurrentValue, _version(data), data)
        member = self.members.get(member_id)
        if member is None:
            return
        if value.state not in (0, 1, 2):
            raise CorruptRecordError(f"a member has the unknown state {value.state}")
        member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
        member.state = MemberState(value.state)
        member.assigned = {
            each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions
        }
        member.revoking = {
            each.topic_id: frozenset(each.partitions)
            for each in value.partitions_pending_revocation
        }


def _version(value: bytes) -> int:
    version = prefix_of(value)
    if version != 0:
        raise CorruptRecordError(f"a consumer group record has version {version}, not 0")
    return version
