"""CreateTopics, DeleteTopics, CreatePartitions: the checks of Kafka's ControllerApis. The cluster's
metadata makes the changes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from kstore.broker.api_table import Api
from kstore.broker.full_disk import run_freeing
from kstore.broker.handlers.controller_work import Outcome, error_of, run_changes, run_steps
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage, TopicImage
from kstore.cluster.metadata import ConfigEntry, NewTopic
from kstore.cluster.topic_rules import MAX_PARTITIONS_AT_ONCE
from kstore.errors import InvalidReplicaAssignmentError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kstore.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kstore.protocol.wire import ZERO_UUID

_DUPLICATE_NAME = "Duplicate topic name."
_UNKNOWN_NAME = "This server does not host this topic-partition."
_UNKNOWN_ID = "This server does not host this topic ID."
_ERROR_73_FROM = 3  # the first version of DeleteTopics whose clients know TOPIC_DELETION_DISABLED
_TOPICS_AT_ONCE, _PARTITIONS_AT_ONCE = 256, 1_000  # of a step of CreateTopics
_CONFIGS_FROM = 5  # the first version of CreateTopics that returns the configs

# From these versions on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_CREATE, _STRICT_DELETE, _STRICT_ADD = 6, 5, 3
_EXCEEDED = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

_Created = tuple[TopicImage, int, list[ConfigEntry]]  # with the number of replicas
_Deleted = DeleteTopicsResponse.Responses
_Changed = TypeVar("_Changed")


class TopicHandlers:
    """Serves changes of topics. Loop's thread only; disk workers make the changes."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.CREATE_TOPICS, 0, 7, self.create_topics),
            Api(ApiKey.DELETE_TOPICS, 0, 6, self.delete_topics),
            Api(ApiKey.CREATE_PARTITIONS, 0, 3, self.create_partitions),
        ]

    # --- create ---------------------------------------------------------------------------

    def create_topics(self, request: Request) -> Answer:
        """Create topics in the order of the request; reject repeated names."""
        asked = CreateTopicsRequest.decode(request.reader, request.api_version)
        count = Counter(topic.name for topic in asked.topics)
        topics = [topic for topic in asked.topics if count[topic.name] == 1]
        exceeded: list[CreateTopicsRequest.Topics] = []
        if request.usage is not None and not asked.validate_only:
            topics, exceeded = self._within_quota(
                request, topics, lambda topic: self._new_partitions(topic, request.image),
                strict_from=_STRICT_CREATE,
            )  # fmt: skip
        create = partial(self._create, asked.validate_only, request.api_version >= _CONFIGS_FROM)

        def respond(outcomes: Sequence[Outcome]) -> CreateTopicsResponse:
            results = list(map(_created, topics, outcomes))
            results += [
                CreateTopicsResponse.Topics(
                    name=name,
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=_DUPLICATE_NAME,
                )
                for name in _repeated(count)
            ]
            error, message = _EXCEEDED
            results += [
                CreateTopicsResponse.Topics(name=each.name, error_code=error, error_message=message)
                for each in exceeded
            ]
            return CreateTopicsResponse(topics=results)

        steps = [(len(few), partial(create, few)) for few in _steps(topics)]
        return run_steps(self._services, steps, respond, asked.timeout_ms)

    def _create(
        self,
        validate_only: bool,
        wants_configs: bool,
        topics: Sequence[CreateTopicsRequest.Topics],
    ) -> list[Outcome]:
        """On a disk worker. A repeated config has its last value, as in Kafka."""
        metadata = self._services.metadata
        refused: dict[str, Exception] = {}
        wanted: list[NewTopic] = []
        for topic in topics:
            try:
                wanted.append(_new_topic(topic))
            except InvalidReplicaAssignmentError as error:
                refused[topic.name] = error
        made = metadata.create_topics(wanted, validate_only=validate_only)
        results = refused | dict(zip((each.name for each in wanted), made, strict=True))
        outcomes: list[Outcome] = []
        for topic in topics:
            result = results[topic.name]
            if isinstance(result, Exception):
                outcomes.append((*error_of(result), None))
                continue
            configs: list[ConfigEntry] = []
            if wants_configs and validate_only:
                configs = metadata.describe_new_topic(result)
            elif wants_configs:
                configs = metadata.describe_topic_config(topic.name)
            replicas = next((each.replicas for each in result.partitions.values()), ())
            created: _Created = (result, len(replicas), configs)
            outcomes.append((ErrorCode.NONE, None, created))
        return outcomes

    # --- delete ---------------------------------------------------------------------------

    def delete_topics(self, request: Request) -> Answer:
        """Delete topics by name or, since version 6, by id; the response lists errors first."""
        asked = DeleteTopicsRequest.decode(request.reader, request.api_version)
        if request.api_version < 6:
            asked.topics = [DeleteTopicsRequest.Topics(name=name) for name in asked.topic_names]
        if not self._services.settings.delete_topic_enable:
            is_old = request.api_version < _ERROR_73_FROM
            error = ErrorCode.INVALID_REQUEST if is_old else ErrorCode.TOPIC_DELETION_DISABLED
            message = "Topic deletion is disabled."
            return DeleteTopicsResponse(
                responses=[
                    _Deleted(topic.name or "", topic.topic_id, error, message)
                    for topic in asked.topics
                ]
            )
        errors, topics = _to_delete(asked.topics, request.image)
        if request.usage is not None:
            topics, exceeded = self._within_quota(
                request, topics, lambda topic: len(topic.partitions), strict_from=_STRICT_DELETE
            )
            errors += [_Deleted(each.name, each.topic_id, *_EXCEEDED) for each in exceeded]

        def respond(outcomes: Sequence[Outcome]) -> DeleteTopicsResponse:
            done = [
                _Deleted(topic.name, topic.topic_id, error, message)
                for topic, (error, message, _) in zip(topics, outcomes, strict=True)
            ]
            return DeleteTopicsResponse(responses=errors + done)

        delete, free = self._services.metadata.delete_topic, partial(run_freeing, self._services)
        changes = [partial(free, partial(delete, topic.name)) for topic in topics]
        return run_changes(self._services, changes, respond, asked.timeout_ms)

    # --- add partitions -------------------------------------------------------------------

    def create_partitions(self, request: Request) -> Answer:
        asked = CreatePartitionsRequest.decode(request.reader, request.api_version)
        count = Counter(topic.name for topic in asked.topics)
        topics = [topic for topic in asked.topics if count[topic.name] == 1]
        exceeded: list[CreatePartitionsRequest.Topics] = []
        if request.usage is not None and not asked.validate_only:
            topics, exceeded = self._within_quota(
                request, topics, lambda topic: _more_partitions(topic, request.image),
                strict_from=_STRICT_ADD,
            )  # fmt: skip

        def respond(outcomes: Sequence[Outcome]) -> CreatePartitionsResponse:
            result = CreatePartitionsResponse.Results
            repeated = [
                result(name, ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME)
                for name in _repeated(count)
            ]
            repeated += [result(each.name, *_EXCEEDED) for each in exceeded]
            return CreatePartitionsResponse(
                results=repeated
                + [
                    result(topic.name, error, message)
                    for topic, (error, message, _) in zip(topics, outcomes, strict=True)
                ]
            )

        add = self._services.metadata.create_partitions
        changes: list[Callable[[], object]] = [
            partial(
                add,
                topic.name,
                topic.count,
                assignments=None
                if topic.assignments is None
                else [each.broker_ids for each in topic.assignments],
                validate_only=asked.validate_only,
            )
            for topic in topics
        ]
        return run_changes(self._services, changes, respond, asked.timeout_ms)

    # --- the quota of changes -------------------------------------------------------------

    def _within_quota(
        self,
        request: Request,
        topics: Iterable[_Changed],
        partitions: Callable[[_Changed], int],
        *,
        strict_from: int,
    ) -> tuple[list[_Changed], list[_Changed]]:
        """The topics that may be changed, and those for which there are no tokens (KIP-599)."""
        assert request.usage is not None
        is_strict = request.api_version >= strict_from
        allowed: list[_Changed] = []
        exceeded: list[_Changed] = []
        for topic in topics:
            count = partitions(topic)
            may = count == 0 or self._services.throttling.take_mutations(
                request.usage, count, is_strict=is_strict
            )
            (allowed if may else exceeded).append(topic)
        return allowed, exceeded

    def _new_partitions(self, topic: CreateTopicsRequest.Topics, image: ClusterImage) -> int:
        """How many a creation makes; none of a topic that exists, or of a refused number."""
        if image.topic(topic.name) is not None:
            return 0
        if topic.assignments:
            return len(topic.assignments)
        if topic.num_partitions == -1:
            return self._services.settings.num_partitions
        return _allowed(topic.num_partitions)


def _allowed(count: int) -> int:
    return count if 0 < count <= MAX_PARTITIONS_AT_ONCE else 0


def _more_partitions(topic: CreatePartitionsRequest.Topics, image: ClusterImage) -> int:
    found = image.topic(topic.name)
    return 0 if found is None else _allowed(topic.count - len(found.partitions))


def _steps(
    topics: Iterable[CreateTopicsRequest.Topics],
) -> Iterator[list[CreateTopicsRequest.Topics]]:
    """The topics that are created together: few enough that a request can time out in between,
    and that other users of the store need not wait long."""
    few: list[CreateTopicsRequest.Topics] = []
    partitions = 0
    for topic in topics:
        count = max(topic.num_partitions, len(topic.assignments), 1)
        if few and (len(few) == _TOPICS_AT_ONCE or partitions + count > _PARTITIONS_AT_ONCE):
            yield few
            few, partitions = [], 0
        few.append(topic)
        partitions += count
    if few:
        yield few


def _new_topic(topic: CreateTopicsRequest.Topics) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        _assignments(topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _repeated(count: "Counter[str]") -> list[str]:
    return [name for name, times in count.items() if times > 1]


def _assignments(
    wanted: Sequence[CreateTopicsRequest.Topics.Assignments],
) -> dict[int, list[int]] | None:
    """The brokers of each partition. Raises InvalidReplicaAssignmentError for a repeated
    partition."""
    found: dict[int, list[int]] = {}
    for each in wanted:
        if each.partition_index in found:
            raise InvalidReplicaAssignmentError(
                f"Found multiple manual partition assignments for partition {each.partition_index}"
            )
        found[each.partition_index] = each.broker_ids
    return found or None


def _created(topic: CreateTopicsRequest.Topics, outcome: Outcome) -> CreateTopicsResponse.Topics:
    error, message, result = outcome
    response = CreateTopicsResponse.Topics(name=topic.name, error_code=error, error_message=message)
    if isinstance(result, tuple):
        image, replicas, configs = result
        response.topic_id = image.topic_id
        response.num_partitions = len(image.partitions)
        response.replication_factor = replicas
        response.configs = [
            CreateTopicsResponse.Topics.Configs(
                name=entry.name,
                value=None if entry.is_sensitive else entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in configs
        ]
    return response


def _to_delete(
    wanted: Iterable[DeleteTopicsRequest.Topics], image: ClusterImage
) -> tuple[list[_Deleted], list[TopicImage]]:
    """The errors of a request, and the topics to delete (Kafka's ControllerApis.deleteTopics). A
    topic given both by name and by id is not deleted."""
    invalid = ErrorCode.INVALID_REQUEST
    errors: list[_Deleted] = []
    names: Counter[str] = Counter()
    ids: Counter[bytes] = Counter()
    for topic in wanted:
        has_id = topic.topic_id != ZERO_UUID
        if topic.name is None and not has_id:
            message = "Neither topic name nor id were specified."
            errors.append(_Deleted(None, ZERO_UUID, invalid, message))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif has_id:
            message = "You may not specify both topic name and topic id."
            errors.append(_Deleted(topic.name, topic.topic_id, invalid, message))
        else:
            names[topic.name] += 1
    errors += [_Deleted(name, ZERO_UUID, invalid, _DUPLICATE_NAME) for name in _repeated(names)]
    for topic_id, times in ids.items():
        if times > 1:
            errors.append(_Deleted(None, topic_id, invalid, "Duplicate topic id."))
        elif image.topic_by_id(topic_id) is None:
            errors.append(_Deleted(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID))
    topics: dict[str, TopicImage] = {}
    for topic_id, times in ids.items():
        found = image.topic_by_id(topic_id)
        if found is not None and times == 1:
            topics[found.name] = found
    for name in (name for name, times in names.items() if times == 1):
        found = image.topic(name)
        if found is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors.append(_Deleted(name, ZERO_UUID, unknown, _UNKNOWN_NAME))
        elif found.topic_id in ids:
            topics.pop(name, None)
            message = "The provided topic name maps to an ID that was already supplied."
            errors.append(_Deleted(name, found.topic_id, invalid, message))
        else:
            topics[name] = found
    return errors, list(topics.values())
