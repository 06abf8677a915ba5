"""The requests of groups, with what every question about groups has in common."""

import time
from typing import Any

from interop.same_bytes.asker import Asker
from interop.same_bytes.topics_used import PATIENCE
from kstore.protocol.api_keys import ApiKey

TOPIC, OTHER = "grouped", "grouped.too"
SESSION, REBALANCE = 10_000, 60_000  # ms


def subscription(*topics: str) -> bytes:
    """A member's metadata in version 0 of the consumer protocol."""
    names = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


SUBSCRIBED = subscription(TOPIC)
PROTOCOLS = (("range", SUBSCRIBED), ("sticky", SUBSCRIBED))


def joining(group: str, member: str = "", **fields: Any) -> dict[str, Any]:
    """A JoinGroup; ``protocols`` are pairs."""
    protocols = fields.pop("protocols", PROTOCOLS)
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout_ms": SESSION,
        "rebalance_timeout_ms": REBALANCE,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        **fields,
    }


def syncing(group: str, generation: int, member: str, *assigned: str, **fields: Any) -> Any:
    """A SyncGroup, which gives each of ``assigned`` its assignment."""
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [
            {"member_id": each, "assignment": b"part %d" % number}
            for number, each in enumerate(assigned)
        ],
        **fields,
    }


def leaving(version: int, group: str, *members: tuple[str, str | None]) -> dict[str, Any]:
    """A LeaveGroup of member ids with instance ids; before version 3 of the first."""
    if version < 3:
        return {"group_id": group, "member_id": members[0][0]}
    kinds = [{"member_id": each, "group_instance_id": instance} for each, instance in members]
    return {"group_id": group, "members": kinds}


def committing(group: str, *partitions: tuple[str, int], **fields: Any) -> dict[str, Any]:
    """An OffsetCommit of offset 5, by a consumer without membership unless fields say more."""
    partition = {"committed_offset": 5, "committed_metadata": fields.pop("metadata", "note")}
    topics: dict[str, list[dict[str, Any]]] = {}
    for name, number in partitions or ((TOPIC, 0),):
        topics.setdefault(name, []).append({"partition_index": number, **partition})
    items = [{"name": name, "partitions": each} for name, each in topics.items()]
    return {"group_id": group, "topics": items, **fields}


def fetching(version: int, *groups: str, topics: Any = (), **fields: Any) -> dict[str, Any]:
    """An OffsetFetch of three partitions, or of the given topics; before version 8 of the first
    group."""
    if topics == ():
        topics = [
            {"name": TOPIC, "partition_indexes": [0, 9]},
            {"name": "none", "partition_indexes": [0]},
        ]
    if version < 8:
        return {"group_id": groups[0], "topics": topics, **fields}
    return {"groups": [{"group_id": each, "topics": topics} for each in groups], **fields}


def deleting(group: str, *topics: str) -> dict[str, Any]:
    """An OffsetDelete of the first partition of each topic."""
    partitions = {"partitions": [{"partition_index": 0}]}
    return {"group_id": group, "topics": [{"name": each, **partitions} for each in topics]}


def wait_for_coordinators(asker: Asker) -> None:
    """Wait until both coordinators are found, and that of groups has loaded its partition: the
    first request makes the brokers create the topics."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = [
            asker.look(ApiKey.FIND_COORDINATOR, 2, key="a", key_type=kind).error_code
            for kind in (0, 1)
        ]
        group = asker.look(ApiKey.DESCRIBE_GROUPS, 0, groups=["a"]).groups[0]
        fields = {"transactional_id": "a", "transaction_timeout_ms": 1000}
        found += [group.error_code, asker.look(ApiKey.INIT_PRODUCER_ID, 4, **fields).error_code]
        if not any(found):
            return
        time.sleep(0.02)
    raise AssertionError(f"{asker.address}: no coordinators: {found}")
