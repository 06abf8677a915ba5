"""Which resources and operations each API needs: one row for each API (Kafka's KafkaApis).

A row is a rule, or None for an API that needs no permission; :mod:`kstore.broker.access_rules`
defines the kinds of rules.
"""

from collections.abc import Iterable
from typing import Any

from kstore.broker.access_rules import (
    DENIED,
    all_items,
    cluster,
    each,
    item_error,
    only_code,
    required,
    rules,
    shown,
    topic_errors,
)
from kstore.broker.authorization import Access, Rule
from kstore.broker.request import CloseConnection
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import Message
from kstore.protocol.wire import ZERO_UUID
from kstore.security.acl import CLUSTER_NAME, AclOperation, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
)  # fmt: skip
ALTER, DESCRIBE, ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

_NO_OPERATIONS = -(1 << 31)  # in responses to requests that do not ask for operations
_TOPIC_ID_SINCE = 13  # version of Produce
_METADATA_BY_ID_SINCE = 12
_OF_TOPIC, _OF_GROUP = 2, 32  # ConfigResource.Type
_TOPICS_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


# --- rules of one API ------------------------------------------------------------------------


def _group(message: Any) -> str:
    return str(message.group_id)


def _transaction(message: Any) -> str | None:
    return None if message.transactional_id is None else str(message.transactional_id)


_PRODUCED_BY_NAME = topic_errors(
    "responses", "partition_data", "partition_responses", number="index", index="index",
    base_offset=-1,
)  # fmt: skip
_PARTITIONS = topic_errors("topics", "partitions", "partitions")
_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _produced(access: Access, topic: Any, error: ErrorCode) -> Any:
    made = _PRODUCED_BY_NAME(access, topic, error)
    made.topic_id = topic.topic_id
    return made


def _produce(access: Access) -> Message | None:
    """An unknown topic id is left to the handler."""
    names = access.image.names_by_id

    def name_of(topic: Any) -> str | None:
        has_id = access.version >= _TOPIC_ID_SINCE
        return names.get(topic.topic_id) if has_id else str(topic.name)

    return each(TOPIC, WRITE, "topic_data", "responses", _produced, name_of)(access)


def _refuse_produce(access: Access, error: ErrorCode) -> Message:
    if access.message.acks == 0:
        raise CloseConnection("acks=0, and the client is not authorized for its transactional id")
    return all_items("topic_data", "responses", _produced)(access, error)


def _produce_without_answer(access: Access) -> Message | None:
    """With acks=0, closing the connection is the only way to report a refusal."""
    if access.message.acks == 0 and access.after:
        del access.after[:]

        def close(_: Any) -> None:
            raise CloseConnection("acks=0, and the client is not authorized to write to a topic")

        access.after.append(close)
    return None


def _metadata(access: Access) -> Message | None:
    message, image = access.message, access.image
    is_everything = message.topics is None or (access.version == 0 and not message.topics)
    if is_everything:
        names = [name for name in image.topics if access.may(DESCRIBE, TOPIC, name)]
        if len(names) == len(image.topics):
            return None
        kind = type(message).Topics
        message.topics = [kind(topic_id=ZERO_UUID, name=name) for name in names]
        access.is_changed = True
        if not names and access.version == 0:  # an empty list requests all topics
            access.after.append(lambda response: setattr(response, "topics", []))
        return None
    kept, entries = [], []
    entry = access.response_type.Topics  # type: ignore[attr-defined]
    may_create_all = access.may_cluster(CREATE)
    creates = access.version < 4 or message.allow_auto_topic_creation
    for topic in message.topics:
        name = topic.name
        if topic.topic_id != ZERO_UUID:
            # An older version is refused alike for every id: no client learns which ids exist.
            by_id = access.version >= _METADATA_BY_ID_SINCE
            found = image.topic_by_id(topic.topic_id) if by_id else None
            if found is not None and not access.may(DESCRIBE, TOPIC, found.name):
                error = int(ErrorCode.UNKNOWN_TOPIC_ID)
                entries.append(entry(error_code=error, name=None, topic_id=topic.topic_id))
                continue
        elif name is not None and (
            not access.may(DESCRIBE, TOPIC, name)
            or (creates and image.topic(name) is None
                and not may_create_all and not access.may(CREATE, TOPIC, name))
        ):  # fmt: skip
            error = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            entries.append(entry(error_code=error, name=name))
            continue
        kept.append(topic)
    if entries:
        message.topics = kept
        access.is_changed = True
        if not kept and access.version == 0:
            access.after.append(lambda response: setattr(response, "topics", []))
        access.after.append(lambda response: response.topics.extend(entries))
    return None


def _fetch_offsets(access: Access) -> Message | None:
    """OffsetFetch: report errors for denied groups and for denied topics that the request names. A
    request for all topics returns only the topics that the client may describe."""
    message = access.message
    error = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if access.version < 8:
        if not access.may(DESCRIBE, GROUP, message.group_id):
            response: Any = access.response_type()
            response.error_code = error
            if access.version < 2:
                make = topic_errors(
                    "topics", "partition_indexes", "partitions", number=None, committed_offset=-1
                )
                response.topics = [
                    make(access, each, ErrorCode(error)) for each in message.topics or ()
                ]
            return response  # type: ignore[no-any-return]
        asked = {message.group_id: message.topics}
    else:
        denied = [g for g in message.groups if not access.may(DESCRIBE, GROUP, g.group_id)]
        asked = {each.group_id: each.topics for each in message.groups}
        if denied:
            message.groups = [g for g in message.groups if g not in denied]
            access.is_changed = True
            entry = access.response_type.Groups  # type: ignore[attr-defined]
            refused = [entry(group_id=each.group_id, error_code=error) for each in denied]
            access.after.append(lambda response: response.groups.extend(refused))

    def mask(topics: list[Any], wanted: Any) -> list[Any]:
        shown_topics = []
        for topic in topics:
            if not access.may(DESCRIBE, TOPIC, topic.name):
                if wanted is None:
                    continue
                for partition in topic.partitions:
                    partition.committed_offset = partition.committed_leader_epoch = -1
                    partition.metadata = ""
                    partition.error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            shown_topics.append(topic)
        return shown_topics

    def mask_all(response: Any) -> None:
        if access.version < 8:
            response.topics = mask(response.topics, message.topics)
        for group in response.groups:
            group.topics = mask(group.topics, asked.get(group.group_id))

    access.after.insert(0, mask_all)
    return None


def _find_coordinator(access: Access) -> Message | None:
    message = access.message
    kind, operation = (GROUP, DESCRIBE) if message.key_type == 0 else (TRANSACTION, DESCRIBE)
    if message.key_type not in (0, 1):
        return None
    if access.version < 4:
        if access.may(operation, kind, message.key):
            return None
        response: Any = only_code(access, DENIED[kind])
        response.node_id = response.port = -1
        return response  # type: ignore[no-any-return]
    make = item_error("coordinators", key="")

    def refused(access: Access, key: Any, error: ErrorCode) -> Any:
        made = make(access, key, error)
        made.node_id = made.port = -1
        return made

    return each(kind, operation, "coordinator_keys", "coordinators", refused, lambda key: key)(
        access
    )


def _list_groups(access: Access) -> Message | None:
    if access.may_cluster(DESCRIBE):
        return None
    return shown(GROUP, DESCRIBE, "groups", lambda group: group.group_id)(access)


def _create_topics(access: Access) -> Message | None:
    """Require CREATE on the cluster or the topic; return configs only with DESCRIBE_CONFIGS."""
    make = item_error("topics", name="name")
    if not access.may_cluster(CREATE):
        each(TOPIC, CREATE, "topics", "topics", make)(access)

    def hide(response: Any) -> None:
        for topic in response.topics:
            if topic.error_code == 0 and not access.may(DESCRIBE_CONFIGS, TOPIC, topic.name):
                topic.configs = None
                topic.num_partitions = topic.replication_factor = -1
                topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    access.after.append(hide)
    return None


def _delete_topics(access: Access) -> Message | None:
    """In a deletion by id, hide the name of a topic that the client may not describe."""
    if access.version < 6:
        make = item_error("responses", name="")
        return each(TOPIC, DELETE, "topic_names", "responses", make, lambda name: name)(access)

    def name_of(item: Any) -> str | None:
        if item.topic_id == ZERO_UUID:
            return None if item.name is None else str(item.name)
        found = access.image.topic_by_id(item.topic_id)
        return None if found is None else found.name

    def refused(access: Access, item: Any, error: ErrorCode) -> Any:
        made = item_error("responses", topic_id="topic_id")(access, item, error)
        name = name_of(item) or ""
        is_shown = item.topic_id == ZERO_UUID or access.may(DESCRIBE, TOPIC, name)
        made.name = name if is_shown else None
        return made

    return each(TOPIC, DELETE, "topics", "responses", refused, name_of)(access)


def _producer_id(access: Access) -> Message | None:
    transactional_id = access.message.transactional_id
    if transactional_id is not None:
        if access.may(WRITE, TRANSACTION, transactional_id):
            return None
        error = DENIED[TRANSACTION]
    elif access.may_cluster(AclOperation.IDEMPOTENT_WRITE) or access.may_with_any(WRITE, TOPIC):
        return None
    else:
        error = _CLUSTER_DENIED
    response: Any = only_code(access, error)
    response.producer_epoch = -1
    return response  # type: ignore[no-any-return]


def _add_partitions(access: Access) -> Message | None:
    """Add all partitions or none: one denied topic rejects the entire request."""
    message = access.message
    if access.version >= 4:
        return None if access.may_cluster(ACTION) else only_code(access, _CLUSTER_DENIED)
    into, topics = "results_by_topic_v3_and_below", message.v3_and_below_topics
    make = topic_errors(into, "partitions", "results_by_partition", number=None,
                        code="partition_error_code")  # fmt: skip
    denied = {topic.name for topic in topics if not access.may(WRITE, TOPIC, topic.name)}
    is_writer = access.may(WRITE, TRANSACTION, message.v3_and_below_transactional_id)
    if is_writer and not denied:
        return None
    response: Any = access.response_type()
    for topic in topics:
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
        if not is_writer:
            error = DENIED[TRANSACTION]
        elif topic.name in denied:
            error = DENIED[TOPIC]
        getattr(response, into).append(make(access, topic, error))
    return response  # type: ignore[no-any-return]


def _markers(access: Access) -> Message | None:
    if access.may_cluster(ACTION) or access.may_cluster(ALTER):
        return None
    make = topic_errors("topics", "partition_indexes", "partitions", number=None)
    response: Any = access.response_type()
    kind = response.Markers
    for marker in access.message.markers:
        entry = kind(producer_id=marker.producer_id)
        for topic in marker.topics:
            made = _Nested(kind)
            entry.topics.append(make(made, topic, _CLUSTER_DENIED))  # type: ignore[arg-type]
        response.markers.append(entry)
    return response  # type: ignore[no-any-return]


class _Nested:
    """Acts as an Access for a struct nested in the response."""

    def __init__(self, response_type: Any) -> None:
        self.response_type = response_type


def _epochs(access: Access) -> Message | None:
    """Followers need CLUSTER_ACTION, consumers DESCRIBE on the topic."""
    if access.may_cluster(ACTION):
        return None
    make = topic_errors("topics", "partitions", "partitions", topic="topic", shown_as="topic",
                        number="partition", index="partition")  # fmt: skip
    return each(TOPIC, DESCRIBE, "topics", "topics", make, lambda item: item.topic)(access)


def _configs(into: str, operation: AclOperation) -> Rule:
    """Check topics and groups by their own resource, all other resources by the cluster."""

    def check(access: Access) -> Message | None:
        make = item_error(into, resource_type="resource_type", resource_name="resource_name")
        kept, entries = [], []
        for item in access.message.resources:
            kind, name = CLUSTER, CLUSTER_NAME
            if item.resource_type == _OF_TOPIC:
                kind, name = TOPIC, item.resource_name
            elif item.resource_type == _OF_GROUP:
                kind, name = GROUP, item.resource_name
            if access.may(operation, kind, name):
                kept.append(item)
            else:
                entries.append(make(access, item, DENIED[kind]))
        if entries:
            access.message.resources, access.is_changed = kept, True
            access.after.append(lambda response: getattr(response, into).extend(entries))
        return None

    return check


def _describe_partitions(access: Access) -> Message | None:
    message = access.message
    if not message.topics:
        names: Iterable[str] = access.image.topics
        kept = [name for name in names if access.may(DESCRIBE, TOPIC, name)]
        if len(kept) < len(access.image.topics):
            if not kept:  # an empty list requests all topics
                return access.response_type()
            message.topics = [type(message).Topics(name=name) for name in kept]
            access.is_changed = True
            cursor = message.cursor
            if cursor is not None and cursor.topic_name not in kept:
                later = [name for name in sorted(kept) if name > cursor.topic_name]
                if not later:
                    return access.response_type()
                cursor.topic_name, cursor.partition_index = later[0], 0
        return None
    if all(access.may(DESCRIBE, TOPIC, topic.name) for topic in message.topics):
        return None
    make = item_error("topics", name="name")
    denied = [t for t in message.topics if not access.may(DESCRIBE, TOPIC, t.name)]
    entries = [make(access, topic, DENIED[TOPIC]) for topic in denied]
    for entry in entries:
        entry.topic_authorized_operations = _NO_OPERATIONS
    if len(denied) == len(message.topics):
        response: Any = access.response_type()
        response.topics = entries
        return response  # type: ignore[no-any-return]
    message.topics = [topic for topic in message.topics if topic not in denied]
    message.cursor = None if message.cursor is None or message.cursor.topic_name in {
        topic.name for topic in denied
    } else message.cursor  # fmt: skip
    access.is_changed = True
    access.after.append(lambda response: response.topics.extend(entries))
    return None


def _consumer_heartbeat(access: Access) -> Message | None:
    """Require READ on the group, and DESCRIBE on each topic subscribed to by name."""
    message = access.message
    if not access.may(READ, GROUP, message.group_id):
        return only_code(access, DENIED[GROUP])
    for name in message.subscribed_topic_names or ():
        if not access.may(DESCRIBE, TOPIC, name):
            return only_code(access, DENIED[TOPIC])
    return None


def _group_item(into: str, field: str) -> Rule:
    make = item_error(into, group_id="")
    return each(GROUP, DESCRIBE, field, into, make, lambda name: name)


def _hide_described_topics(access: Access) -> None:
    """Remove the topics that the client may not describe from the transactions described to it."""

    def leave_out(response: Any) -> None:
        for state in response.transaction_states:
            state.topics = [
                each for each in state.topics if access.may(DESCRIBE, TOPIC, each.topic)
            ]

    access.after.append(leave_out)


def _hide_assigned_topics(access: Access) -> None:
    """Describe no group to a client that may not describe all topics assigned in it."""

    def check(response: Any) -> None:
        kind = type(response).Groups
        error = DENIED[TOPIC]
        response.groups = [
            group if all(access.may(DESCRIBE, TOPIC, name) for name in _assigned_topics(group))
            else kind(int(error), _TOPICS_HIDDEN, group.group_id)
            for group in response.groups
        ]  # fmt: skip

    access.after.append(check)


def _assigned_topics(group: Any) -> set[str]:
    """The topics in the current and target assignments of a consumer group's members."""
    return {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }


def _producers(access: Access) -> Message | None:
    make = topic_errors("topics", "partition_indexes", "partitions", number=None)
    return each(TOPIC, READ, "topics", "topics", make)(access)


_SYNC = [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP]
_TOPIC_ERRORS = all_items("topics", "topics", _PARTITIONS)

RULES: dict[int, Rule | None] = {
    ApiKey.PRODUCE: rules(
        required(TRANSACTION, WRITE, _transaction, _refuse_produce),
        _produce,
        _produce_without_answer,
    ),
    ApiKey.FETCH: lambda _: None,  # each read checks READ on its topic: Access.may_fetch
    ApiKey.LIST_OFFSETS: each(
        TOPIC, DESCRIBE, "topics", "topics",
        topic_errors("topics", "partitions", "partitions", timestamp=-1, offset=-1),
    ),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: rules(
        required(GROUP, READ, _group, _TOPIC_ERRORS),
        each(TOPIC, READ, "topics", "topics", _PARTITIONS),
    ),
    ApiKey.OFFSET_FETCH: _fetch_offsets,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    **{key: required(GROUP, READ, _group, only_code) for key in _SYNC},
    ApiKey.DESCRIBE_GROUPS: _group_item("groups", "groups"),
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.SASL_HANDSHAKE: None,
    ApiKey.API_VERSIONS: None,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: each(
        TOPIC, DELETE, "topics", "topics",
        topic_errors("topics", "partitions", "partitions", low_watermark=-1),
    ),
    ApiKey.INIT_PRODUCER_ID: _producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: rules(
        required(TRANSACTION, WRITE, _transaction, only_code),
        required(GROUP, READ, _group, only_code),
    ),
    ApiKey.END_TXN: required(TRANSACTION, WRITE, _transaction, only_code),
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.TXN_OFFSET_COMMIT: rules(
        required(TRANSACTION, WRITE, _transaction, _TOPIC_ERRORS),
        required(GROUP, READ, _group, _TOPIC_ERRORS),
        each(TOPIC, READ, "topics", "topics", _PARTITIONS),
    ),
    ApiKey.DESCRIBE_ACLS: cluster(DESCRIBE, only_code),
    ApiKey.CREATE_ACLS: cluster(ALTER, all_items("creations", "results", item_error("results"))),
    ApiKey.DELETE_ACLS: cluster(
        ALTER, all_items("filters", "filter_results", item_error("filter_results"))
    ),
    ApiKey.DESCRIBE_CONFIGS: _configs("results", DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _configs("responses", ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs("responses", ALTER_CONFIGS),
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster(
        ALTER,
        lambda access, error: _log_dirs_refused(access, error),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: cluster(DESCRIBE, only_code),
    ApiKey.SASL_AUTHENTICATE: None,
    ApiKey.CREATE_PARTITIONS: each(
        TOPIC, ALTER, "topics", "results", item_error("results", name="name")
    ),
    ApiKey.DELETE_GROUPS: each(
        GROUP, DELETE, "groups_names", "results", item_error("results", group_id=""),
        lambda name: name,
    ),
    ApiKey.ELECT_LEADERS: cluster(
        ALTER, lambda access, error: _elections_refused(access, error)
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(ALTER, only_code),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(DESCRIBE, only_code),
    ApiKey.OFFSET_DELETE: rules(
        required(GROUP, DELETE, _group, only_code),
        each(TOPIC, READ, "topics", "topics", _PARTITIONS),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(DESCRIBE_CONFIGS, only_code),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(
        ALTER_CONFIGS, all_items("entries", "entries", item_error("entries"))
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(DESCRIBE, only_code),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(
        ALTER, lambda access, error: _scram_refused(access, error)
    ),
    ApiKey.DESCRIBE_QUORUM: cluster(DESCRIBE, only_code),
    ApiKey.DESCRIBE_CLUSTER: lambda _: None,  # its operations: Access.operations
    ApiKey.DESCRIBE_PRODUCERS: _producers,
    ApiKey.DESCRIBE_TRANSACTIONS: rules(
        each(
            TRANSACTION, DESCRIBE, "transactional_ids", "transaction_states",
            item_error("transaction_states", transactional_id=""), lambda name: name,
        ),
        _hide_described_topics,
    ),
    ApiKey.LIST_TRANSACTIONS: shown(
        TRANSACTION, DESCRIBE, "transaction_states", lambda state: state.transactional_id
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: rules(
        _group_item("groups", "group_ids"), _hide_assigned_topics
    ),
    ApiKey.LIST_CONFIG_RESOURCES: cluster(DESCRIBE_CONFIGS, only_code),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_partitions,
}  # fmt: skip


def _elections_refused(access: Access, error: ErrorCode) -> Message:
    """Version 0 has errors of partitions only."""
    response: Any = only_code(access, error)
    kind = response.ReplicaElectionResults
    response.replica_election_results = [
        kind(each.topic, [
            kind.PartitionResult(number, int(error), error.message) for number in each.partitions
        ])
        for each in access.message.topic_partitions or ()
    ]  # fmt: skip
    return response  # type: ignore[no-any-return]


def _log_dirs_refused(access: Access, error: ErrorCode) -> Message:
    response: Any = access.response_type()
    make = topic_errors("results", "partitions", "partitions", shown_as="topic_name", number=None)
    for directory in access.message.dirs:
        response.results.extend(make(access, topic, error) for topic in directory.topics)
    return response  # type: ignore[no-any-return]


def _scram_refused(access: Access, error: ErrorCode) -> Message:
    response: Any = access.response_type()
    entries = [*access.message.deletions, *access.message.upsertions]
    for name in dict.fromkeys(entry.name for entry in entries):
        response.results.append(response.Results(name, int(error), error.message))
    return response  # type: ignore[no-any-return]
