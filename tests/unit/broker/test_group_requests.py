"""The APIs of groups in every version: loading, empty group ids, errors of appends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import message_types
from kstore.protocol.messages.describe_groups import DescribeGroupsRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.list_groups import ListGroupsRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from support.group_client import GroupClient, group_client
from support.wire_client import build

NEW = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
NEW |= {"protocol_type": "consumer", "protocols": [{"name": "range"}]}
OFFSETS = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
NUMBERS = [{"name": "t", "partition_indexes": [0]}]
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}


def asked(api: ApiKey, version: int, group: str) -> Any:
    """A request about one group."""
    fields: dict[ApiKey, dict[str, Any]] = {
        ApiKey.JOIN_GROUP: {"group_id": group, **NEW},
        ApiKey.SYNC_GROUP: {"group_id": group, "generation_id": 1, "member_id": "x", **PROTOCOL},
        ApiKey.HEARTBEAT: {"group_id": group, "generation_id": 1, "member_id": "x"},
        ApiKey.LEAVE_GROUP: {"group_id": group, "members": [{"member_id": "x"}]},
        ApiKey.OFFSET_COMMIT: {"group_id": group, "topics": OFFSETS},
        ApiKey.OFFSET_FETCH: {
            "group_id": group,
            "topics": NUMBERS,
            "groups": [{"group_id": group, "topics": NUMBERS}],
        },
        ApiKey.TXN_OFFSET_COMMIT: {"transactional_id": "x", "group_id": group, "topics": OFFSETS},
        ApiKey.DESCRIBE_GROUPS: {"groups": [group]},
        ApiKey.LIST_GROUPS: {},
        ApiKey.DELETE_GROUPS: {"groups_names": [group]},
        ApiKey.OFFSET_DELETE: {"group_id": group, "topics": [{"name": "t"}]},
    }
    if api == ApiKey.LEAVE_GROUP and version < 3:
        return build(message_types(api)[0], {"group_id": group, "member_id": "x"})
    return build(message_types(api)[0], fields[api])


def code_of(api: ApiKey, version: int, answer: Any) -> int:
    """The error of an answer, where this version has it."""
    if api in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
        return int(answer.topics[0].partitions[0].error_code)
    if api == ApiKey.OFFSET_FETCH and version < 2:
        return int(answer.topics[0].partitions[0].error_code)
    if api == ApiKey.OFFSET_FETCH and version >= 8:
        return int(answer.groups[0].error_code)
    if api == ApiKey.DESCRIBE_GROUPS:
        return int(answer.groups[0].error_code)
    if api == ApiKey.DELETE_GROUPS:
        return int(answer.results[0].error_code)
    return int(answer.error_code)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[GroupClient]:
    with group_client(tmp_path / "data", "t") as client:
        yield client


# --- loading and empty group ids -------------------------------------------------------------

Expected = Callable[[int], int]
# by API: its newest version, the error while the group is loaded, and that of an empty group id
ANSWERS: dict[ApiKey, tuple[int, Expected, Expected]] = {
    ApiKey.JOIN_GROUP: (9, lambda _: 14, lambda _: 24),
    ApiKey.SYNC_GROUP: (5, lambda _: 27, lambda _: 24),
    ApiKey.HEARTBEAT: (4, lambda _: 0, lambda _: 24),
    ApiKey.LEAVE_GROUP: (5, lambda _: 14, lambda _: 24),
    ApiKey.OFFSET_COMMIT: (9, lambda _: 14, lambda _: 0),
    ApiKey.OFFSET_FETCH: (9, lambda _: 14, lambda _: 0),
    ApiKey.TXN_OFFSET_COMMIT: (4, lambda version: 15 if version < 2 else 14, lambda _: 24),
    ApiKey.DESCRIBE_GROUPS: (6, lambda _: 14, lambda version: 69 if version == 6 else 0),
    ApiKey.LIST_GROUPS: (5, lambda _: 14, lambda _: 0),  # it has no group id
    ApiKey.DELETE_GROUPS: (2, lambda _: 14, lambda _: 69),
    ApiKey.OFFSET_DELETE: (0, lambda _: 14, lambda _: 24),
}
EVERY_VERSION = [
    pytest.param(api, version, loading(version), empty(version), id=f"{api.name}-{version}")
    for api, (newest, loading, empty) in ANSWERS.items()
    for version in range(newest + 1)
]


@pytest.mark.parametrize(("api", "version", "loading", "empty"), EVERY_VERSION)
def test_group_that_is_loaded_and_empty_group_id(
    client: GroupClient, api: ApiKey, version: int, loading: int, empty: int
) -> None:
    answer = client.ask(asked(api, version, ""), version)
    assert code_of(api, version, answer) == empty
    client.groups.reload(0)  # which the disk workers have not begun yet
    answer = client.now(asked(api, version, "g"), version)
    assert code_of(api, version, answer) == loading
    client.run()
    answer = client.ask(asked(api, version, "g"), version) if api != ApiKey.JOIN_GROUP else None
    assert answer is None or code_of(api, version, answer) not in (14, 15)


def test_every_api_of_groups_is_in_the_table(client: GroupClient) -> None:
    served = {(key, version) for key, version in client.versions()}
    listed = {(int(api), v) for api, (newest, *_) in ANSWERS.items() for v in range(newest + 1)}
    assert served - listed == {(ApiKey.FIND_COORDINATOR, version) for version in range(7)}
    assert listed <= served


# --- errors of appends -----------------------------------------------------------------------


class AppendError(KStoreError):
    """An append that failed with one of Kafka's errors."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__("the append failed")
        self.code = int(code)  # type: ignore[misc]


# by error of the append: what a commit is answered, and the members that wait for assignments
APPEND_ERRORS = [
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 15, 15),
    (ErrorCode.NOT_ENOUGH_REPLICAS, 15, 15),
    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 15, 15),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, 16, 16),
    (ErrorCode.KAFKA_STORAGE_ERROR, 16, 16),
    (ErrorCode.MESSAGE_TOO_LARGE, 28, -1),
    (ErrorCode.RECORD_LIST_TOO_LARGE, 28, -1),
    (ErrorCode.INVALID_FETCH_SIZE, 28, -1),
    (ErrorCode.REQUEST_TIMED_OUT, 7, 27),
    (ErrorCode.INVALID_TIMESTAMP, 32, 32),
]


@pytest.mark.parametrize(("failure", "commit", "group"), APPEND_ERRORS)
def test_error_of_an_append_has_its_answer(
    client: GroupClient,
    monkeypatch: pytest.MonkeyPatch,
    failure: ErrorCode,
    commit: int,
    group: int,
) -> None:
    def fail(*_: object) -> None:
        raise AppendError(failure)

    offsets = client.groups._offsets
    for name in ("commit", "append_group"):
        monkeypatch.setattr(offsets, name, fail)
    for version in range(10):
        answer = client.ask(asked(ApiKey.OFFSET_COMMIT, version, "g"), version)
        assert code_of(ApiKey.OFFSET_COMMIT, version, answer) == commit
    joined = client.ask(asked(ApiKey.JOIN_GROUP, 3, "h"), 3)
    request = SyncGroupRequest("h", joined.generation_id, joined.member_id)
    assert client.ask(request, 3).error_code == group


def test_topic_that_cannot_be_created_makes_no_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with group_client(tmp_path / "data", found=False) as client:

        def fail(*_: object, **__: object) -> None:
            raise OSError(28, "no space left on device")

        monkeypatch.setattr(client.metadata, "create_topic", fail)
        for version in range(7):
            request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
            answer = client.ask(request, version)
            found = answer.coordinators[0] if version >= 4 else answer
            assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
        assert client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == 16
        monkeypatch.undo()
        assert client.ask(FindCoordinatorRequest(key="g"), 3).error_code == 0
        assert client.ask(ListGroupsRequest(), 4).error_code == 0


def test_each_key_has_its_coordinator_in_its_order(client: GroupClient) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["b", "a", "b"])
    assert [each.key for each in client.ask(request, 4).coordinators] == ["b", "a", "b"]
