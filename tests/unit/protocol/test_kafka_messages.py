"""Records of internal topics as JSON trees, by the table of records."""

import pytest

from kstore.errors import CorruptRecordError, InvalidRecordError
from kstore.protocol import kafka_messages
from kstore.protocol.records import decode_record, encode_record, first_string, prefix_of
from kstore.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from kstore.protocol.records.offset_commit import OffsetCommitKey
from kstore.protocol.schema import table
from kstore.protocol.wire import Reader

# client id "c", host "h", no topics, timeout 5; what may be null, is
MEMBER = bytes.fromhex("00" + "00" + "0263" + "0268" + "01" + "00" + "00000005" + "00")


def test_names_are_kafkas() -> None:
    fields = {
        kafka_messages.json_name(each)
        for message in kafka_messages.definitions().values()
        for each in message.fields
    }
    assert {"topicId", "isMigratingZkBroker", "kRaftVersion"} <= fields


def test_record_types_are_found_by_their_key() -> None:
    assert kafka_messages.names_by_key("METADATA")[2] == "TopicRecord"
    assert kafka_messages.names_by_key("KEY", "Transaction") == {0: "TransactionLogKey"}
    assert kafka_messages.names_by_key("KEY", "Offset") == {1: "OffsetCommitKey"}


def test_tagged_fields_are_shown_where_they_differ_from_the_default() -> None:
    # epoch 7, then the tags: validatedTopologyEpoch (0) or none
    epoch = (7).to_bytes(4, "big") + (9).to_bytes(8, "big")
    shown = kafka_messages.decode("StreamsGroupMetadataValue", 0, epoch + b"\0")
    assert shown == {"epoch": 7, "metadataHash": 9}
    shown = kafka_messages.decode("StreamsGroupMetadataValue", 0, epoch + b"\1\0\4\0\0\0\5")
    assert shown == {"epoch": 7, "metadataHash": 9, "validatedTopologyEpoch": 5}
    empty = kafka_messages.decode("StreamsGroupMetadataValue", 0, epoch + b"\1\1\1\1")
    assert empty == {"epoch": 7, "metadataHash": 9}


@pytest.mark.parametrize("null", [b"\xff", b"\0"])
def test_a_null_struct_behind_a_tag_is_decoded_as_none(null: bytes) -> None:
    shown = kafka_messages.decode("ConsumerGroupMemberMetadataValue", 0, MEMBER + b"\0")
    assert shown["classicMemberMetadata"] is None
    assert shown["clientHost"] == "h"
    tagged = MEMBER + b"\1\0\1" + null
    assert kafka_messages.decode("ConsumerGroupMemberMetadataValue", 0, tagged) == shown
    member = ConsumerGroupMemberMetadataValue.decode(Reader(tagged), 0)
    assert (member.client_host, member.classic_member_metadata) == ("h", None)


def test_text_that_is_not_utf_8_is_shown() -> None:
    shown = kafka_messages.decode("GroupMetadataKey", 0, b"\0\2a\xff")
    assert shown == {"group": "a\ufffd"}


@pytest.mark.parametrize("name", kafka_messages.definitions())
def test_truncated_records_are_corrupt(name: str) -> None:
    message = kafka_messages.definitions()[name]
    with pytest.raises(CorruptRecordError, match="no version"):
        kafka_messages.decode(name, message.versions.high + 1, bytes(100))
    if message.fields or message.flexible_from != table.NEVER:
        with pytest.raises(CorruptRecordError):
            kafka_messages.decode(name, message.versions.high, b"")


@pytest.mark.parametrize("data", [b"", b"\x80", b"\1\2", b"\2\2\0", b"\1\x63\0", b"\x80" * 6])
def test_a_metadata_record_of_no_kind_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        kafka_messages.metadata_record(data)
    assert kafka_messages.metadata_record(b"\1\2\0abc") == ("TopicRecord", 0, b"abc")


def test_a_record_is_decoded_behind_its_prefix_or_refused() -> None:
    key = OffsetCommitKey("group", "topic", 3)
    data = encode_record(key, OffsetCommitKey.RECORD_TYPE, 0)
    assert data == b"\0\1\0\5group\0\5topic\0\0\0\3"
    assert (prefix_of(data), first_string(data)) == (1, "group")
    assert decode_record(OffsetCommitKey, 0, data) == key
    with pytest.raises(CorruptRecordError, match="1 bytes too many"):
        decode_record(OffsetCommitKey, 0, data + b"\0")
    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            decode_record(OffsetCommitKey, prefix_of(data[:size]) - 1, data[:size])
    with pytest.raises(InvalidRecordError, match="32767"):
        encode_record(OffsetCommitKey("a" * 32768), 1, 0)
