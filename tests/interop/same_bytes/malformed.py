"""Frames that are no requests: bodies cut or too long, versions and keys that do not exist."""

from typing import Any

from interop.same_bytes import bodies
from interop.same_bytes.asker import SILENCE, Asker
from interop.same_bytes.fetch import at
from interop.same_bytes.produce import data
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages import message_types
from support.wire_client import CLIENT_ID, Connection, encode, frame

SERVED = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS),
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.INIT_PRODUCER_ID),
    *(ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS),
    *(ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.ELECT_LEADERS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
    *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS),
    *(ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_PRODUCERS),
    *(ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_CONFIG_RESOURCES),
)


def ask(asker: Asker) -> None:
    create(asker, specification("malformed"))
    for api in SERVED:
        for version in versions(api):
            body = encode(api, version, _fields(api))
            _outcome(asker, api, version, "cut by a byte", body[:-1])
            _outcome(asker, api, version, "cut by half", body[: len(body) // 2])
            _outcome(asker, api, version, "without a body", b"")
            _outcome(asker, api, version, "with a byte behind", body + b"\0")
            _outcome(asker, api, version, "all ones", b"\xff" * len(body))
        newest = message_types(api)[0].MAX_VERSION + 3
        if api != ApiKey.API_VERSIONS:
            for version in (newest, -1):
                _outcome(asker, api, version, "of no such version", b"")
    for key in (500, -1, 4, 5, 6, 7, 58, 59, 62, 63, 64):
        _raw(asker, f"key {key}", key.to_bytes(2, "big", signed=True) + b"\0\0\0\0\0\1\0\0")
    _raw(asker, "an empty frame", b"")
    _raw(asker, "three bytes", b"\0\3\0")
    _raw(asker, "a header that ends in its client id", b"\0\3\0\1\0\0\0\7\0\x20abc")
    for size in (-1, -(1 << 31), (1 << 31) - 1, 100 * (1 << 20) + 1):
        _sized(asker, size)
    _pipelined(asker)


def _fields(api: ApiKey) -> dict[str, Any]:
    """A request that changes nothing where one can be had."""
    chosen: dict[ApiKey, dict[str, Any]] = {
        ApiKey.PRODUCE: {"acks": 1, "topic_data": data("none", bodies.good())},
        ApiKey.FETCH: {"topics": [{"topic": "malformed", "partitions": [at(0)]}]},
        ApiKey.METADATA: {"topics": [{"name": "malformed"}], "allow_auto_topic_creation": False},
        ApiKey.API_VERSIONS: {"client_software_name": "a", "client_software_version": "1"},
        ApiKey.INIT_PRODUCER_ID: {"transactional_id": None, "transaction_timeout_ms": 1},
        ApiKey.ELECT_LEADERS: {"topic_partitions": []},
        ApiKey.DESCRIBE_LOG_DIRS: {"topics": [{"topic": "none", "partitions": [0]}]},
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": []},
    }
    return chosen.get(api, {})


def _outcome(asker: Asker, api: ApiKey, version: int, title: str, body: bytes) -> None:
    """Whether the connection is closed or an answer comes, and with which error codes."""
    header = frame(api, version, 7, body)
    if version < 0 or version > message_types(api)[0].MAX_VERSION:
        flexible = b"\0" if version >= 0 else b""
        request = api.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7"
        request += len(CLIENT_ID).to_bytes(2, "big") + CLIENT_ID.encode() + flexible
        header = len(request).to_bytes(4, "big") + request
    asker.note(f"{api.name} {version} {title}", [_sent(asker, header)])


def _raw(asker: Asker, title: str, request: bytes) -> None:
    asker.note(f"raw: {title}", [_sent(asker, len(request).to_bytes(4, "big") + request)])


def _sized(asker: Asker, size: int) -> None:
    header = size.to_bytes(4, "big", signed=True) + b"\0\3\0\1\0\0\0\1"
    asker.note(f"raw: a size of {size}", [_sent(asker, header)])


def _sent(asker: Asker, data: bytes) -> str:
    connection = Connection(asker.address)
    try:
        connection.send(data)
        answer = connection.receive(SILENCE)
    except TimeoutError:
        return "silence"
    except ConnectionResetError:
        return "closed"
    finally:
        connection.close()
    return "closed" if answer is None else "answered"


def _pipelined(asker: Asker) -> None:
    """Several requests in one write are answered in their order."""
    connection = Connection(asker.address)
    body = encode(ApiKey.METADATA, 1, {"topics": []})
    requests = [frame(ApiKey.METADATA, 1, number, body) for number in range(20)]
    connection.send(b"".join(requests))
    found = []
    for _ in requests:
        answer = connection.receive()
        found.append("closed" if answer is None else int.from_bytes(answer[:4], "big"))
    connection.close()
    asker.note("raw: twenty at once", [str(found)])
