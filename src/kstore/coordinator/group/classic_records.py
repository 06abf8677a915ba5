"""Encodes and decodes the records of classic groups in ``__consumer_offsets``.

A key of version 2 has the group's name. Values are written as version 3, like those of every Kafka
since 2.3; versions 0 to 4 are read.
"""

from kstore.coordinator.group.classic_events import GroupSnapshot, MemberSnapshot
from kstore.errors import CorruptRecordError
from kstore.protocol.records import decode_record, encode_record, prefix_of
from kstore.protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue

GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION = 3
HIGHEST_VALUE_VERSION = 4


def encode_group_key(group_id: str) -> bytes:
    """Raises InvalidRecordError for a name that does not fit Kafka's int16 length."""
    return encode_record(GroupMetadataKey(group_id), GROUP_KEY_VERSION, 0)


def encode_group_value(group: GroupSnapshot, now_ms: int) -> bytes:
    """Encode a group's record as of a time in Unix ms."""
    age = group.state_age
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=-1 if age is None else now_ms - round(age * 1000),
        members=[
            GroupMetadataValue.Members(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                each.subscription,
                each.assignment,
            )
            for each in group.members
        ],
    )
    return encode_record(value, GROUP_VALUE_VERSION, GROUP_VALUE_VERSION)


def decode_group_value(group_id: str, data: bytes, now_ms: int) -> GroupSnapshot:
    """Decode a group's record of version 0 to 4. Raises CorruptRecordError."""
    version = prefix_of(data)
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"a group record has version {version}; known versions: 0 to {HIGHEST_VALUE_VERSION}"
        )
    value = decode_record(GroupMetadataValue, version, data)
    since = value.current_state_timestamp
    return GroupSnapshot(
        group_id,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        None if since < 0 else max(0, now_ms - since) / 1000,
        tuple(
            MemberSnapshot(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout,
                each.session_timeout if version == 0 else each.rebalance_timeout,
                each.subscription,
                each.assignment,
            )
            for each in value.members
        ),
    )
