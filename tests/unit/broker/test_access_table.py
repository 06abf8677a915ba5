"""Each cell of API x resource x operation: denied, the answer has the error and the handler does
not see what was denied; allowed, the request arrives as it was sent."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kstore
from kstore.broker.access_table import RULES
from kstore.broker.api_table import Api
from kstore.broker.authorization import Guard
from kstore.broker.handlers import handler_classes
from kstore.broker.request import CloseConnection, Pending, Request
from kstore.cluster.image import ClusterImage, names_by_id
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer
from kstore.security.acl import AclOperation, ResourceType
from kstore.security.authorizer import Authorizer
from kstore.security.principal import user
from support.broker_requests import topic_image
from support.wire_client import build

T, G, C, X = (
    ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID,
)  # fmt: skip
A = AclOperation
CLUSTER = "kafka-cluster"
TOPICS = {name: replace(topic_image(name), topic_id=name.encode() * 16) for name in ("a", "b")}
IMAGE = ClusterImage("id", 0, {}, TOPICS, names_by_id(TOPICS))
ID = TOPICS["a"].topic_id

Cell = tuple[ResourceType, AclOperation, str]


class Sample:
    """A request, its versions, the cells that deny something and the error of each."""

    def __init__(self, low: int, high: int, fields: dict[str, Any], cells: dict[Cell, int]) -> None:
        self.low, self.high, self.fields, self.cells = low, high, fields, cells


def partitions(**fields: Any) -> list[dict[str, Any]]:
    return [{"partition_index": 0, **fields}]


TWO = [{"name": "a", "partitions": partitions()}, {"name": "b", "partitions": partitions()}]
NUMBERS = [{"name": "a", "partition_indexes": [0]}, {"name": "b", "partition_indexes": [0]}]
RESOURCES = {
    "resources": [
        {"resource_type": 2, "resource_name": "a"},
        {"resource_type": 4, "resource_name": "0"},
        {"resource_type": 8, "resource_name": "0"},
        {"resource_type": 32, "resource_name": "g"},
    ]
}
TRANSACTION = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}


def cluster(operation: AclOperation) -> dict[Cell, int]:
    return {(C, operation, CLUSTER): 31}


SAMPLES: dict[ApiKey, list[Sample]] = {
    ApiKey.PRODUCE: [
        Sample(3, 12, {"transactional_id": "t", "acks": 1, "topic_data": [
            {"name": "a", "partition_data": [{"index": 0}]},
            {"name": "b", "partition_data": [{"index": 0}]}]},
            {(X, A.WRITE, "t"): 53, (T, A.WRITE, "a"): 29, (T, A.WRITE, "b"): 29}),
        Sample(13, 13, {"transactional_id": "t", "acks": 1, "topic_data": [
            {"topic_id": ID, "partition_data": [{"index": 0}]},
            {"topic_id": b"?" * 16, "partition_data": [{"index": 0}]}]},
            {(X, A.WRITE, "t"): 53, (T, A.WRITE, "a"): 29}),
        Sample(0, 2, {"acks": -1, "topic_data": [{"name": "a", "partition_data": [{"index": 0}]}]},
               {(T, A.WRITE, "a"): 29}),
    ],
    ApiKey.LIST_OFFSETS: [Sample(0, 10, {"topics": TWO}, {(T, A.DESCRIBE, "a"): 29})],
    ApiKey.METADATA: [
        Sample(0, 13, {"topics": [{"name": "a"}, {"name": "b"}]}, {(T, A.DESCRIBE, "a"): 29}),
        Sample(12, 13, {"topics": [{"topic_id": ID, "name": None}]}, {(T, A.DESCRIBE, "a"): 100}),
        Sample(4, 13, {"topics": [{"name": "new"}]}, {(T, A.DESCRIBE, "new"): 29}),
    ],
    ApiKey.OFFSET_COMMIT: [Sample(0, 9, {"group_id": "g", "topics": TWO},
                                  {(G, A.READ, "g"): 30, (T, A.READ, "a"): 29})],
    ApiKey.OFFSET_FETCH: [
        Sample(0, 7, {"group_id": "g", "topics": NUMBERS}, {(G, A.DESCRIBE, "g"): 30}),
        Sample(8, 9, {"groups": [{"group_id": "g", "topics": NUMBERS}]},
               {(G, A.DESCRIBE, "g"): 30}),
    ],
    ApiKey.FIND_COORDINATOR: [
        Sample(0, 3, {"key": "g"}, {(G, A.DESCRIBE, "g"): 30}),
        Sample(1, 3, {"key": "t", "key_type": 1}, {(X, A.DESCRIBE, "t"): 53}),
        Sample(4, 6, {"coordinator_keys": ["g", "h"]}, {(G, A.DESCRIBE, "g"): 30}),
        Sample(4, 6, {"coordinator_keys": ["t"], "key_type": 1}, {(X, A.DESCRIBE, "t"): 53}),
    ],
    ApiKey.JOIN_GROUP: [Sample(0, 9, {"group_id": "g"}, {(G, A.READ, "g"): 30})],
    ApiKey.SYNC_GROUP: [Sample(0, 5, {"group_id": "g"}, {(G, A.READ, "g"): 30})],
    ApiKey.HEARTBEAT: [Sample(0, 4, {"group_id": "g"}, {(G, A.READ, "g"): 30})],
    ApiKey.LEAVE_GROUP: [Sample(0, 5, {"group_id": "g"}, {(G, A.READ, "g"): 30})],
    ApiKey.DESCRIBE_GROUPS: [Sample(0, 6, {"groups": ["g", "h"]}, {(G, A.DESCRIBE, "g"): 30})],
    ApiKey.CREATE_TOPICS: [Sample(0, 7, {"topics": [{"name": "n"}, {"name": "m"}]},
                                  {(T, A.CREATE, "n"): 29})],
    ApiKey.DELETE_TOPICS: [
        Sample(0, 5, {"topic_names": ["a", "b"]}, {(T, A.DELETE, "a"): 29}),
        Sample(6, 6, {"topics": [{"name": "a"}, {"name": None, "topic_id": TOPICS["b"].topic_id}]},
               {(T, A.DELETE, "a"): 29, (T, A.DELETE, "b"): 29}),
    ],
    ApiKey.DELETE_RECORDS: [Sample(0, 2, {"topics": TWO}, {(T, A.DELETE, "a"): 29})],
    ApiKey.INIT_PRODUCER_ID: [Sample(0, 5, {"transactional_id": "t"}, {(X, A.WRITE, "t"): 53})],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        Sample(0, 4, {"topics": [{"topic": "a", "partitions": [{"partition": 0}]}]},
               {(T, A.DESCRIBE, "a"): 29})],
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        Sample(0, 3, {"v3_and_below_transactional_id": "t",
                      "v3_and_below_topics": [{"name": "a", "partitions": [0]},
                                              {"name": "b", "partitions": [0]}]},
               {(X, A.WRITE, "t"): 53, (T, A.WRITE, "a"): 29}),
        Sample(4, 5, {"transactions": []}, cluster(A.CLUSTER_ACTION)),
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [Sample(0, 4, {**TRANSACTION, "group_id": "g"},
                                       {(X, A.WRITE, "t"): 53, (G, A.READ, "g"): 30})],
    ApiKey.END_TXN: [Sample(0, 5, TRANSACTION, {(X, A.WRITE, "t"): 53})],
    ApiKey.WRITE_TXN_MARKERS: [Sample(0, 1, {"markers": [
        {"producer_id": 1, "topics": [{"name": "a", "partition_indexes": [0]}]}]}, {})],
    ApiKey.TXN_OFFSET_COMMIT: [
        Sample(0, 5, {**TRANSACTION, "group_id": "g", "topics": TWO},
               {(X, A.WRITE, "t"): 53, (G, A.READ, "g"): 30, (T, A.READ, "a"): 29})],
    ApiKey.DESCRIBE_ACLS: [Sample(0, 3, {}, cluster(A.DESCRIBE))],
    ApiKey.CREATE_ACLS: [Sample(0, 3, {"creations": [{}]}, cluster(A.ALTER))],
    ApiKey.DELETE_ACLS: [Sample(0, 3, {"filters": [{}]}, cluster(A.ALTER))],
    ApiKey.DESCRIBE_CONFIGS: [Sample(0, 4, RESOURCES, {
        (T, A.DESCRIBE_CONFIGS, "a"): 29, (G, A.DESCRIBE_CONFIGS, "g"): 30,
        **cluster(A.DESCRIBE_CONFIGS)})],
    ApiKey.ALTER_CONFIGS: [Sample(0, 2, RESOURCES, {
        (T, A.ALTER_CONFIGS, "a"): 29, (G, A.ALTER_CONFIGS, "g"): 30, **cluster(A.ALTER_CONFIGS)})],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [Sample(0, 1, RESOURCES, {
        (T, A.ALTER_CONFIGS, "a"): 29, (G, A.ALTER_CONFIGS, "g"): 30, **cluster(A.ALTER_CONFIGS)})],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        Sample(0, 2, {"dirs": [{"path": "/x", "topics": [{"name": "a", "partitions": [0]}]}]},
               cluster(A.ALTER))],
    ApiKey.DESCRIBE_LOG_DIRS: [Sample(0, 4, {"topics": None}, cluster(A.DESCRIBE))],
    ApiKey.CREATE_PARTITIONS: [Sample(0, 3, {"topics": [{"name": "a", "count": 2}]},
                                      {(T, A.ALTER, "a"): 29})],
    ApiKey.DELETE_GROUPS: [Sample(0, 2, {"groups_names": ["g"]}, {(G, A.DELETE, "g"): 30})],
    ApiKey.ELECT_LEADERS: [
        Sample(0, 2, {"topic_partitions": [{"topic": "a", "partitions": [0]}]}, cluster(A.ALTER)),
        Sample(1, 2, {"topic_partitions": None}, cluster(A.ALTER)),
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [Sample(0, 0, {}, cluster(A.ALTER))],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [Sample(0, 0, {}, cluster(A.DESCRIBE))],
    ApiKey.OFFSET_DELETE: [Sample(0, 0, {"group_id": "g", "topics": TWO},
                                  {(G, A.DELETE, "g"): 30, (T, A.READ, "a"): 29})],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [Sample(0, 1, {}, cluster(A.DESCRIBE_CONFIGS))],
    ApiKey.ALTER_CLIENT_QUOTAS: [Sample(0, 1, {"entries": [{}]}, cluster(A.ALTER_CONFIGS))],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [Sample(0, 0, {"users": None}, cluster(A.DESCRIBE))],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        Sample(0, 0, {"deletions": [{"name": "alice", "mechanism": 1}]}, cluster(A.ALTER))],
    ApiKey.DESCRIBE_QUORUM: [Sample(0, 2, {}, cluster(A.DESCRIBE))],
    ApiKey.DESCRIBE_PRODUCERS: [Sample(0, 0, {"topics": NUMBERS}, {(T, A.READ, "a"): 29})],
    ApiKey.DESCRIBE_TRANSACTIONS: [Sample(0, 0, {"transactional_ids": ["t", "u"]},
                                          {(X, A.DESCRIBE, "t"): 53})],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [
        Sample(0, 1, {"group_id": "g", "subscribed_topic_names": ["a"]},
               {(G, A.READ, "g"): 30, (T, A.DESCRIBE, "a"): 29})],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [Sample(0, 1, {"group_ids": ["g"]},
                                            {(G, A.DESCRIBE, "g"): 30})],
    ApiKey.LIST_CONFIG_RESOURCES: [Sample(0, 1, {}, cluster(A.DESCRIBE_CONFIGS))],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [Sample(0, 0, {"topics": [{"name": "a"}, {"name": "b"}]},
                                              {(T, A.DESCRIBE, "a"): 29})],
}  # fmt: skip
# Free, or tested by tests of their own below and over sockets.
ELSEWHERE = {
    ApiKey.FETCH, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
}  # fmt: skip
# Versions whose answers have no field for the error.
WITHOUT_CODE = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}


class Denying(Authorizer):
    """Denies some cells, or allows some only."""

    def __init__(self, denied: set[Cell] | None = None, allowed: set[Cell] | None = None) -> None:
        super().__init__((), allows_everyone=True)
        self._denied, self._allowed = denied, allowed

    def may(self, principal: Any, host: str, operation: Any, kind: Any, name: str) -> bool:
        cell = (kind, operation, name)
        if self._denied is not None:
            return cell not in self._denied
        return self._allowed is not None and cell in self._allowed

    def may_with_any(self, principal: Any, host: str, operation: Any, kind: Any) -> bool:
        return self.may(principal, host, operation, kind, "*")


class Handler:
    """Stands for the handler of an API; keeps what it was given."""

    def __init__(self, key: int, response: Any = None) -> None:
        self.request_type, self.response_type = message_types(key)
        self.seen: Any = None
        self._response = response

    def handle(self, request: Request) -> Any:
        self.seen = self.request_type.decode(request.reader, request.api_version)
        return self._response if self._response is not None else self.response_type()


def ask(
    key: ApiKey, version: int, fields: dict[str, Any], authorizer: Authorizer, response: Any = None
) -> tuple[Any, Any, Any]:
    """The answer, what the handler saw, and the request as it was sent."""
    handler = Handler(key, response)
    api = Guard(authorizer, RULES, 1000).guarded(Api(key, 0, 99, handler.handle))
    writer = Writer()
    build(handler.request_type, fields).encode(writer, version)
    data = writer.to_bytes()
    connection: Any = SimpleNamespace(principal=user("alice"), peer=("127.0.0.1", 1))
    request = Request(
        api_key=key, api_version=version, correlation_id=1, client_id="c", reader=Reader(data),
        connection=connection, image=IMAGE, received=0.0,
    )  # fmt: skip
    answer = api.handle(request)
    sent = handler.request_type.decode(Reader(data), version)
    return answer, handler.seen, sent


def error_codes(message: Any) -> Iterator[int]:
    """All error codes of an answer."""
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            if value:
                yield value
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__dataclass_fields__"):
                    yield from error_codes(each)
        elif hasattr(value, "__dataclass_fields__"):
            yield from error_codes(value)


CELLS = [
    pytest.param(key, version, sample, cell, id=f"{key.name}-{version}-{cell[1].name}-{cell[2]}")
    for key, samples in SAMPLES.items()
    for sample in samples
    for version in range(sample.low, sample.high + 1)
    for cell in sample.cells
]


@pytest.mark.parametrize(("key", "version", "sample", "cell"), CELLS)
def test_each_denied_operation_is_in_the_response(
    key: ApiKey, version: int, sample: Sample, cell: Cell
) -> None:
    denied = {cell, (C, A.CREATE, CLUSTER), (C, A.CLUSTER_ACTION, CLUSTER)}
    answer, seen, sent = ask(key, version, sample.fields, Denying(denied))
    codes = set(error_codes(answer))
    assert sample.cells[cell] in codes
    assert codes <= {sample.cells[cell], 55}  # the others of a transaction are not attempted
    assert seen is None or seen != sent
    writer = Writer()
    answer.encode(writer, version)  # every field has a value that can be sent
    received = message_types(key)[1].decode(Reader(writer.to_bytes()), version)
    has_code = sample.cells[cell] in set(error_codes(received))
    assert has_code is ((key, version) not in WITHOUT_CODE)


@pytest.mark.parametrize(
    ("key", "version", "sample"),
    [
        pytest.param(key, version, sample, id=f"{key.name}-{version}")
        for key, samples in SAMPLES.items()
        for sample in samples
        for version in range(sample.low, sample.high + 1)
    ],
)
def test_what_is_allowed_arrives_unchanged(key: ApiKey, version: int, sample: Sample) -> None:
    answer, seen, sent = ask(key, version, sample.fields, Denying(set()))
    assert seen == sent
    assert not set(error_codes(answer))
    # And these cells, with nothing else, are enough.
    extra = {(C, A.CREATE, CLUSTER), (T, A.DESCRIBE, "b"), (T, A.DELETE, "b"), (T, A.READ, "b"),
             (T, A.WRITE, "b"), (G, A.DESCRIBE, "h"), (X, A.DESCRIBE, "u"), (T, A.CREATE, "m"),
             (T, A.DESCRIBE, "a"), (C, A.CLUSTER_ACTION, CLUSTER)}  # fmt: skip
    answer, seen, _ = ask(key, version, sample.fields, Denying(None, {*sample.cells, *extra}))
    assert seen == sent
    assert not set(error_codes(answer))


def test_every_api_that_is_served_has_a_row_and_a_test(tmp_path: Path) -> None:
    assert set(SAMPLES) | ELSEWHERE == {ApiKey(key) for key in RULES}
    with kstore.serve(tmp_path / "data", port=0) as broker:
        served = {api.key: api for api in broker._services.apis}
    assert served.keys() <= RULES.keys()
    for key, samples in SAMPLES.items():
        sampled = {v for sample in samples for v in range(sample.low, sample.high + 1)}
        versions = set(range(served[key].min_version, served[key].max_version + 1))
        assert versions <= sampled, f"{key.name}: no sample of {versions - sampled}"
    assert handler_classes()


def test_an_api_without_a_row_is_not_served() -> None:
    with pytest.raises(ValueError, match="no row"):
        Guard(Denying(set()), {}, 1).guarded(Api(ApiKey.PRODUCE, 0, 1, lambda request: None))


# --- rules with more than one way ------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_epochs_by_the_action_of_the_cluster_alone(version: int) -> None:
    [sample] = SAMPLES[ApiKey.OFFSET_FOR_LEADER_EPOCH]
    api, allowed = ApiKey.OFFSET_FOR_LEADER_EPOCH, {(C, A.CLUSTER_ACTION, CLUSTER)}
    answer, seen, sent = ask(api, version, sample.fields, Denying(None, allowed))
    assert seen == sent
    assert not set(error_codes(answer))
    answer, seen, _ = ask(api, version, sample.fields, Denying(None, set()))
    assert list(error_codes(answer)) == [29]
    assert seen.topics == []


def test_producer_ids_without_transactions() -> None:
    fields = {"transactional_id": None}
    for allowed in ({(C, A.IDEMPOTENT_WRITE, CLUSTER)}, {(T, A.WRITE, "*")}):
        answer, seen, _ = ask(ApiKey.INIT_PRODUCER_ID, 4, fields, Denying(None, allowed))
        assert seen is not None
        assert answer.error_code == 0
    answer, seen, _ = ask(ApiKey.INIT_PRODUCER_ID, 4, fields, Denying(None, set()))
    assert (seen, answer.error_code) == (None, 31)


def test_markers_by_either_operation_of_the_cluster() -> None:
    [sample] = SAMPLES[ApiKey.WRITE_TXN_MARKERS]
    for operation in (A.CLUSTER_ACTION, A.ALTER):
        allowed = {(C, operation, CLUSTER)}
        answer, seen, _ = ask(ApiKey.WRITE_TXN_MARKERS, 1, sample.fields, Denying(None, allowed))
        assert seen is not None
    answer, seen, _ = ask(ApiKey.WRITE_TXN_MARKERS, 1, sample.fields, Denying(None, set()))
    assert (seen, list(error_codes(answer))) == (None, [31])


def test_without_an_answer_the_connection_is_closed() -> None:
    fields = {"acks": 0, "topic_data": [{"name": "a", "partition_data": [{"index": 0}]}]}
    with pytest.raises(CloseConnection):
        ask(ApiKey.PRODUCE, 9, fields, Denying({(T, A.WRITE, "a")}))
    fields["transactional_id"] = "t"
    with pytest.raises(CloseConnection):
        ask(ApiKey.PRODUCE, 9, fields, Denying({(X, A.WRITE, "t")}))


@pytest.mark.parametrize("version", [0, 1, 4, 13])
def test_a_request_for_all_topics_gets_those_that_may_be_described(version: int) -> None:
    everything = {"topics": [] if version == 0 else None}
    _, seen, _ = ask(ApiKey.METADATA, version, everything, Denying({(T, A.DESCRIBE, "a")}))
    assert [each.name for each in seen.topics] == ["b"]
    kind = message_types(ApiKey.METADATA)[1]
    full = kind(topics=[kind.Topics(name="a")])
    answer, _, _ = ask(ApiKey.METADATA, version, everything, Denying(None, set()), full)
    assert version or answer.topics == []


def test_topics_are_created_on_demand_with_create_only() -> None:
    fields = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    for allowed, may in (
        ({(T, A.DESCRIBE, "new")}, False),
        ({(T, A.DESCRIBE, "new"), (T, A.CREATE, "new")}, True),
        ({(T, A.DESCRIBE, "new"), (C, A.CREATE, CLUSTER)}, True),
    ):
        answer, seen, _ = ask(ApiKey.METADATA, 9, fields, Denying(None, allowed))
        assert (set(error_codes(answer)) == {29}) is not may
        assert bool(seen.topics) is may


def test_lists_omit_what_may_not_be_described() -> None:
    kind: Any = message_types(ApiKey.LIST_GROUPS)[1]

    def groups() -> Any:
        return kind(groups=[kind.Groups("g"), kind.Groups("h")])

    answer, _, _ = ask(ApiKey.LIST_GROUPS, 4, {}, Denying(None, {(G, A.DESCRIBE, "h")}), groups())
    assert [each.group_id for each in answer.groups] == ["h"]
    answer, _, _ = ask(ApiKey.LIST_GROUPS, 4, {}, Denying(None, cluster_only()), groups())
    assert len(answer.groups) == 2
    kind = message_types(ApiKey.LIST_TRANSACTIONS)[1]
    listed = kind(transaction_states=[kind.TransactionStates("t"), kind.TransactionStates("u")])
    allowed = {(X, A.DESCRIBE, "t")}
    answer, _, _ = ask(ApiKey.LIST_TRANSACTIONS, 0, {}, Denying(None, allowed), listed)
    assert [each.transactional_id for each in answer.transaction_states] == ["t"]


def test_transactions_are_described_without_topics_that_may_not_be() -> None:
    kind: Any = message_types(ApiKey.DESCRIBE_TRANSACTIONS)[1]
    state = kind.TransactionStates
    topics = [state.Topics("a", [0]), state.Topics("b", [1])]
    described = kind(transaction_states=[state(transactional_id="t", topics=topics)])
    fields = {"transactional_ids": ["t", "u"]}
    allowed = {(X, A.DESCRIBE, "t"), (T, A.DESCRIBE, "b")}
    answer, _, _ = ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, fields, Denying(None, allowed), described)
    assert [
        (each.transactional_id, each.error_code, [topic.topic for topic in each.topics])
        for each in answer.transaction_states
    ] == [("t", 0, ["b"]), ("u", 53, [])]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("field", ["assignment", "target_assignment"])
def test_groups_with_topics_that_may_not_be_described_are_not_described(
    field: str, version: int
) -> None:
    kind: Any = message_types(ApiKey.CONSUMER_GROUP_DESCRIBE)[1]
    member = kind.Groups.Members

    def group(name: str, topic: str) -> Any:
        made = member(member_id="m")
        assignment = getattr(made, field)
        assignment.topic_partitions = [type(assignment).TopicPartitions(ID, topic, [0])]
        return kind.Groups(group_id=name, group_state="Stable", members=[made])

    def answer_to(*cells: Cell) -> Any:
        described = kind(groups=[group("g", "a"), group("h", "b")])
        allowed = {*cells, (G, A.DESCRIBE, "g"), (G, A.DESCRIBE, "h"), (T, A.DESCRIBE, "b")}
        authorizer = Denying(None, allowed)
        api, fields = ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g", "h"]}
        return ask(api, version, fields, authorizer, described)[0]

    hidden, shown = answer_to().groups
    assert hidden == kind.Groups(
        error_code=29,
        error_message=(
            "The group has described topic(s) that the client is not authorized to describe."
        ),
        group_id="g",
    )
    assert shown == group("h", "b")
    assert answer_to((T, A.DESCRIBE, "a")).groups == [group("g", "a"), group("h", "b")]


def cluster_only() -> set[Cell]:
    return {(C, A.DESCRIBE, CLUSTER)}


@pytest.mark.parametrize("version", [7, 9])
def test_committed_offsets_of_topics_that_may_not_be_described(version: int) -> None:
    kind: Any = message_types(ApiKey.OFFSET_FETCH)[1]
    owner = kind if version < 8 else kind.Groups

    def fetched() -> Any:
        topics = [
            owner.Topics(name, [owner.Topics.Partitions(0, 7, -1, "secret")]) for name in "ab"
        ]
        if version < 8:
            return kind(topics=topics)
        return kind(groups=[kind.Groups("g", topics)])

    def answer_to(topics: Any) -> Any:
        fields: dict[str, Any] = {"group_id": "g", "topics": topics}
        if version >= 8:
            fields = {"groups": [{"group_id": "g", "topics": topics}]}
        allowed = {(G, A.DESCRIBE, "g"), (T, A.DESCRIBE, "b")}
        answer, _, _ = ask(ApiKey.OFFSET_FETCH, version, fields, Denying(None, allowed), fetched())
        return (answer if version < 8 else answer.groups[0]).topics

    named = answer_to(NUMBERS)
    assert [(each.partitions[0].error_code, each.partitions[0].committed_offset)
            for each in named] == [(29, -1), (0, 7)]  # fmt: skip
    assert named[0].partitions[0].metadata == ""
    assert [each.name for each in answer_to(None)] == ["b"]


def test_settings_of_created_topics_need_describe_configs() -> None:
    kind: Any = message_types(ApiKey.CREATE_TOPICS)[1]
    fields = {"topics": [{"name": "n"}]}
    created = kind(topics=[kind.Topics(name="n", num_partitions=3, configs=[])])
    allowed = {(T, A.CREATE, "n")}
    answer, _, _ = ask(ApiKey.CREATE_TOPICS, 7, fields, Denying(None, allowed), created)
    [topic] = answer.topics
    assert (topic.error_code, topic.topic_config_error_code) == (0, 29)
    assert (topic.configs, topic.num_partitions) == (None, -1)


def test_a_topic_that_may_not_be_described_keeps_its_name() -> None:
    fields = {"topics": [{"name": None, "topic_id": ID}]}
    for allowed, name in ((set(), None), ({(T, A.DESCRIBE, "a")}, "a")):
        answer, _, _ = ask(ApiKey.DELETE_TOPICS, 6, fields, Denying(None, allowed))
        [response] = answer.responses
        assert (response.error_code, response.name, response.topic_id) == (29, name, ID)


def test_answers_that_come_later_get_their_errors() -> None:
    inner = Pending()
    fields = {"topics": [{"name": "n"}, {"name": "m"}]}
    denied = {(C, A.CREATE, CLUSTER), (T, A.CREATE, "n")}
    pending, seen, _ = ask(ApiKey.CREATE_TOPICS, 7, fields, Denying(denied), inner)
    assert [each.name for each in seen.topics] == ["m"]
    results: list[Any] = []
    pending.deliver_to(results.append)
    kind: Any = message_types(ApiKey.CREATE_TOPICS)[1]
    inner.complete(kind(topics=[kind.Topics(name="m")]))
    assert [(each.name, each.error_code) for each in results[0].topics] == [("m", 0), ("n", 29)]


def test_no_topic_may_be_described() -> None:
    for topics in ([], [{"name": "a"}]):
        answer, seen, _ = ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": topics}, Denying(None, set())
        )
        assert seen is None
        assert [each.error_code for each in answer.topics] == [29] * len(topics)
