"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: settings of topics,
of consumer groups, of this broker, and the levels of its loggers."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from kstore.broker import logger_levels
from kstore.broker.api_table import Api
from kstore.broker.full_disk import run_freeing
from kstore.broker.handlers.controller_work import Outcome, run_changes
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage
from kstore.cluster.metadata import AlterOp, ConfigEntry, ConfigSource
from kstore.errors import InvalidRequestError
from kstore.integers import parse_integer
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kstore.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kstore.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kstore.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # ConfigResource.Type
_LISTED = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)  # in Kafka's order

_LOGGER_SOURCE = 6  # ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG

_Asked: TypeAlias = AlterConfigsRequest.Resources | IncrementalAlterConfigsRequest.Resources
_Config = DescribeConfigsResponse.Results.Configs


class ConfigHandlers:
    """Serves configs. Loop's thread only; disk workers read and change the configs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, self.describe_configs),
            Api(ApiKey.ALTER_CONFIGS, 0, 2, self.alter_configs),
            Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, self.incremental_alter_configs),
            Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, self.list_config_resources),
        ]

    # --- describe -------------------------------------------------------------------------

    def describe_configs(self, request: Request) -> Answer:
        """Describe configs (Kafka's ConfigHelper). Null or empty keys request all configs."""
        asked = DescribeConfigsRequest.decode(request.reader, request.api_version)

        def respond(outcomes: Sequence[Outcome]) -> DescribeConfigsResponse:
            response = DescribeConfigsResponse()
            for resource, (error, message, found) in zip(asked.resources, outcomes, strict=True):
                result = DescribeConfigsResponse.Results(
                    error, message or "", resource.resource_type, resource.resource_name
                )
                wanted = set(resource.configuration_keys or ())
                for config in found if isinstance(found, list) else ():
                    if wanted and config.name not in wanted:
                        continue
                    if not asked.include_synonyms:
                        config.synonyms = []
                    if not asked.include_documentation:
                        config.documentation = None
                    result.configs.append(config)
                response.results.append(result)
            return response

        reads = [
            partial(self._describe, resource.resource_type, resource.resource_name)
            for resource in asked.resources
        ]
        return run_changes(self._services, reads, respond)

    def _describe(self, kind: int, name: str) -> list[_Config]:
        """On a disk worker. Raises InvalidRequestError and the errors of the metadata."""
        metadata = self._services.metadata
        if kind == TOPIC:
            return list(map(_described, metadata.describe_topic_config(name)))
        if kind == BROKER:
            if name:
                self._check_node(name)
            return list(map(_described, metadata.describe_broker_config(for_all=not name)))
        if kind == BROKER_LOGGER:
            self._check_node(name)
            return [
                _Config(name=logger, value=level, config_source=_LOGGER_SOURCE)
                for logger, level in logger_levels.describe().items()
            ]
        if kind == GROUP:
            return list(map(_described, metadata.describe_group_config(name)))
        raise InvalidRequestError(f"Unsupported resource type: {kind}")

    def _check_node(self, name: str) -> None:
        """Raise InvalidRequestError unless a resource name is this broker's node id."""
        node_id = self._services.metadata.node_id
        try:
            number = parse_integer(name)
        except ValueError:
            raise InvalidRequestError(f"Node id must be an integer, but it is: {name}") from None
        if number != node_id:
            raise InvalidRequestError(
                f"Unexpected broker id, expected {node_id}, but received {name}"
            )

    # --- alter ----------------------------------------------------------------------------

    def alter_configs(self, request: Request) -> Answer:
        """Replace a resource's configs by those of the request, which removes all others."""
        asked = AlterConfigsRequest.decode(request.reader, request.api_version)

        def respond(outcomes: Sequence[Outcome]) -> AlterConfigsResponse:
            return AlterConfigsResponse(
                responses=[
                    AlterConfigsResponse.Responses(
                        error, message, resource.resource_type, resource.resource_name
                    )
                    for resource, (error, message, _) in zip(asked.resources, outcomes, strict=True)
                ]
            )

        changes: list[Callable[[], object]] = []
        repeated = _repeated(asked.resources)
        for resource in asked.resources:
            nulls = [each.name for each in resource.configs if each.value is None]
            refusal = _refusal(resource, nulls, repeated)
            change = partial(self._replace, resource, asked.validate_only, refusal)
            changes.append(partial(run_freeing, self._services, change))
        return run_changes(self._services, changes, respond)

    def _replace(
        self, resource: AlterConfigsRequest.Resources, validate_only: bool, refusal: str | None
    ) -> None:
        """On a disk worker."""
        if refusal is not None:
            raise InvalidRequestError(refusal)
        metadata, name = self._services.metadata, resource.resource_name
        config = {each.name: each.value for each in resource.configs}
        if resource.resource_type == TOPIC:
            metadata.replace_topic_config(name, config, validate_only=validate_only)
        elif resource.resource_type == BROKER:
            if name:
                self._check_node(name)
            metadata.replace_broker_config(config, for_all=not name, validate_only=validate_only)
        elif resource.resource_type == GROUP:
            metadata.replace_group_config(name, config, validate_only=validate_only)
        else:
            raise InvalidRequestError(f"Unknown resource type {resource.resource_type}")

    def incremental_alter_configs(self, request: Request) -> Answer:
        """Set, delete, append to, or subtract from individual configs."""
        asked = IncrementalAlterConfigsRequest.decode(request.reader, request.api_version)

        def respond(outcomes: Sequence[Outcome]) -> IncrementalAlterConfigsResponse:
            return IncrementalAlterConfigsResponse(
                responses=[
                    IncrementalAlterConfigsResponse.Responses(
                        error, message, resource.resource_type, resource.resource_name
                    )
                    for resource, (error, message, _) in zip(asked.resources, outcomes, strict=True)
                ]
            )

        changes: list[Callable[[], object]] = []
        repeated = _repeated(asked.resources)
        for resource in asked.resources:
            nulls = [
                each.name
                for each in resource.configs
                if each.value is None and each.config_operation != AlterOp.DELETE
            ]
            refusal = _refusal(resource, nulls, repeated)
            change = partial(self._alter, resource, asked.validate_only, refusal)
            changes.append(partial(run_freeing, self._services, change))
        return run_changes(self._services, changes, respond)

    def _alter(
        self,
        resource: IncrementalAlterConfigsRequest.Resources,
        validate_only: bool,
        refusal: str | None,
    ) -> None:
        """On a disk worker."""
        if refusal is not None:
            raise InvalidRequestError(refusal)
        metadata, name = self._services.metadata, resource.resource_name
        changes = [(each.config_operation, each.name, each.value) for each in resource.configs]
        for operation, _, _ in changes:
            if operation not in tuple(AlterOp):
                raise InvalidRequestError(f"Unknown operation type {operation}")
        if resource.resource_type == TOPIC:
            metadata.alter_topic_config(name, changes, validate_only=validate_only)
        elif resource.resource_type == BROKER:
            if name:
                self._check_node(name)
            metadata.alter_broker_config(changes, for_all=not name, validate_only=validate_only)
        elif resource.resource_type == BROKER_LOGGER:
            self._check_node(name)
            logger_levels.alter(changes, validate_only=validate_only)
        elif resource.resource_type == GROUP:
            metadata.alter_group_config(name, changes, validate_only=validate_only)
        else:
            raise InvalidRequestError(f"Unknown resource type {resource.resource_type}")

    # --- list -----------------------------------------------------------------------------

    def list_config_resources(self, request: Request) -> Answer:
        """List the resources that may have configs. Version 0 lists client metrics, of which none
        exist."""
        asked = ListConfigResourcesRequest.decode(request.reader, request.api_version)
        wanted = asked.resource_types or _LISTED
        if request.api_version == 0:
            wanted = [CLIENT_METRICS]
        if any(each not in _LISTED for each in wanted):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        resource = ListConfigResourcesResponse.ConfigResources
        return ListConfigResourcesResponse(
            config_resources=[
                resource(name, kind)
                for kind in _LISTED
                if kind in wanted
                for name in _names(request.image, kind)
            ]
        )


def _names(image: ClusterImage, kind: int) -> list[str]:
    if kind == TOPIC:
        return list(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(node_id) for node_id in image.brokers]
    if kind == GROUP:
        return sorted(image.group_config)
    return []


def _described(entry: ConfigEntry) -> _Config:
    """A config with all fields that a response may include; a sensitive value is null."""
    return _Config(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        read_only=entry.is_read_only,
        is_default=entry.source == ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            _Config.Synonyms(each.name, None if entry.is_sensitive else each.value, each.source)
            for each in entry.synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation,
    )


def _repeated(resources: Sequence[_Asked]) -> set[tuple[int, str]]:
    count = Counter((each.resource_type, each.resource_name) for each in resources)
    return {key for key, times in count.items() if times > 1}


def _refusal(resource: _Asked, nulls: Sequence[str], repeated: set[tuple[int, str]]) -> str | None:
    """The error message for an invalid resource of a request (Kafka's ConfigAdminManager)."""
    if (resource.resource_type, resource.resource_name) in repeated:
        return "Each resource must appear at most once."
    names = [each.name for each in resource.configs]
    if len(set(names)) < len(names):
        return "Error due to duplicate config keys"
    if nulls:
        return f"Null value not supported for : {','.join(nulls)}"
    return None
