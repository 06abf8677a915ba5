"""Formats keys and values of Kafka's internal topics as DumpLogSegments does.

Each decoder is a function ``(offset, key, value) -> text``, the text that follows a record's
metadata. The formats are those of Kafka 4.3. An undecodable record gets an error in its line.
"""

import re
from typing import Any

from kstore.errors import CorruptRecordError
from kstore.partition_files import kafka_messages

_CONTROL_MARKERS = {0: "ABORT", 1: "COMMIT"}
_CONTROL_MESSAGES = {
    2: ("LeaderChange:", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
}


def offsets(offset: int, key: bytes | None, value: bytes | None) -> str:
    """A record of ``__consumer_offsets``."""
    return _coordinator(offset, key, value, ("", "offset"))


def transactions(offset: int, key: bytes | None, value: bytes | None) -> str:
    """A record of ``__transaction_state``."""
    return _coordinator(offset, key, value, ("TransactionLog", "transaction"))


def share_group_state(offset: int, key: bytes | None, value: bytes | None) -> str:
    """A record of ``__share_group_state``."""
    return _coordinator(offset, key, value, ("Share", "share group"))


def _coordinator(
    offset: int, key: bytes | None, value: bytes | None, topic: tuple[str, str]
) -> str:
    if key is None:
        return f" key: Error at offset {offset}, skipping. The record has no key."
    try:
        kind = kind_of(key)
        name = _key_names(topic[0]).get(kind) if len(key) >= 2 else None
        if name is None:
            return f" key: Unknown record type {kind} at offset {offset}, skipping."
        shown = kafka_messages.compact(
            {"type": str(kind), "data": kafka_messages.decode(name, 0, key[2:])}
        )
        if value is None:
            return f" key: {shown} payload: <DELETE>"
        version, data = kafka_messages.decode_prefixed(f"{name[:-3]}Value", value)
        if name == "GroupMetadataKey" and data.get("protocolType") == "consumer":
            _open_members(data)
        text = kafka_messages.compact({"version": str(version), "data": data})
    except CorruptRecordError as error:
        return f" key: Error at offset {offset}, skipping. {error}"
    return f" key: {shown} payload: {text}"


def kind_of(key: bytes) -> int:
    """The record type in a key's prefix, -1 if the key is too short."""
    return int.from_bytes(key[:2], "big", signed=True) if len(key) >= 2 else -1


def _key_names(topic: str) -> dict[int, str]:
    names = kafka_messages.names_by_key("KEY", topic)
    others = ("TransactionLog", "ShareSnapshot", "ShareUpdate")
    if topic == "Share":  # not the share groups of __consumer_offsets
        return {key: name for key, name in names.items() if name.startswith(others)}
    if topic:
        return names
    return {
        message: name
        for prefix in ("Legacy", "Offset", "Group", "Consumer", "Share", "Streams")
        for message, name in kafka_messages.names_by_key("KEY", prefix).items()
        if not name.startswith(others)
    }


def _open_members(data: dict[str, Any]) -> None:
    """Decode members' subscriptions and assignments, which are messages of the consumer
    protocol."""
    from base64 import b64decode

    for member in data.get("members") or ():
        for field, name in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            if member.get(field):
                member[field] = kafka_messages.decode_prefixed(name, b64decode(member[field]))[1]


def cluster_metadata(offset: int, key: bytes | None, value: bytes | None) -> str:
    """A record of ``__cluster_metadata``, which has no keys."""
    try:
        name, version, rest = kafka_messages.metadata_record(value or b"")
        shown = {
            "type": re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(),
            "version": version,
            "data": kafka_messages.decode(name, version, rest),
        }
    except CorruptRecordError as error:
        return f" payload: Error at {offset}, skipping. {error}"
    return f" payload: {kafka_messages.compact(shown)}"


def control(key: bytes | None, value: bytes | None) -> str:
    """The contents of a control record."""
    if key is None or value is None or len(key) < 4:
        return " controlType: UNKNOWN(-1)"
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind in _CONTROL_MARKERS and len(value) >= 6:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
        return f" endTxnMarker: {_CONTROL_MARKERS[kind]} coordinatorEpoch: {epoch}"
    if kind in _CONTROL_MESSAGES:
        title, name = _CONTROL_MESSAGES[kind]
        try:
            # The version is the first field of these messages in all versions.
            data = kafka_messages.decode(name, int.from_bytes(value[:2], "big", signed=True), value)
        except CorruptRecordError as error:
            return f" {title} {error}"
        return f" {title} {kafka_messages.compact(data)}"
    return f" controlType: UNKNOWN({kind})"
