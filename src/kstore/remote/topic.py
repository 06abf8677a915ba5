"""A topic of a cluster: settings, partitions, offsets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kstore.client.partitioner import StickyPartitioner, choose
from kstore.config import LogConfig, setting_text
from kstore.errors import KStoreError
from kstore.integers import parse_integer
from kstore.kafka_uuid import uuid_to_text
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
from kstore.remote.answer_errors import error_of, raise_for
from kstore.remote.cluster import ZERO_UUID, TopicEntry
from kstore.remote.connection import UNSUPPORTED_VERSION
from kstore.remote.remote_log import RemoteLog, only
from kstore.remote.transactional_log import TransactionalLog

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore
    from kstore.remote.transactional_id import TransactionalId

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32  # Kafka's ConfigResource.Type
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5  # Kafka's ConfigEntry.ConfigSource
SET, DELETE = 0, 1  # Kafka's AlterConfigOp.OpType
SettingEntry = DescribeConfigsResponse.Results.Configs


def describe_settings(store: "RemoteStore", kind: int, name: str) -> list[SettingEntry]:
    """All settings of a topic, broker or group, with synonyms (DescribeConfigs)."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resources(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
        ],
        include_synonyms=True,
    )
    node = parse_integer(name) if kind in (BROKER, BROKER_LOGGER) and name else None
    answer = store.cluster.ask(request, DescribeConfigsResponse, node=node)
    found = only(answer.results, name)
    raise_for(found.error_code, found.error_message, name)
    return sorted(found.configs, key=lambda entry: entry.name)


def resources_with_settings(store: "RemoteStore", kind: int) -> list[str]:
    """Names of groups or others of a kind that have settings; none before Kafka 4.1."""
    try:
        answer = store.cluster.ask(
            ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse
        )
    except KStoreError as error:
        if error.code == UNSUPPORTED_VERSION:
            return []
        raise
    if answer.error_code == UNSUPPORTED_VERSION:
        return []
    raise_for(answer.error_code, None, "")
    return [each.resource_name for each in answer.config_resources if each.resource_type == kind]


def alter_settings(
    store: "RemoteStore",
    kind: int,
    name: str,
    changes: Mapping[str, str],
    unset: Iterable[str],
    *,
    validate_only: bool = False,
) -> None:
    """Change some settings of a topic, broker or group and keep the others."""
    Configs = IncrementalAlterConfigsRequest.Resources.Configs  # noqa: N806 (a class)
    configs = [Configs(name=key, config_operation=SET, value=text) for key, text in changes.items()]
    configs += [Configs(name=key, config_operation=DELETE, value=None) for key in unset]
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.Resources(
                resource_type=kind, resource_name=name, configs=configs
            )
        ],
        validate_only=validate_only,
    )
    is_of_node = kind in (BROKER, BROKER_LOGGER) and name
    node = parse_integer(name) if is_of_node else store.cluster.controller
    answer = store.cluster.ask(request, IncrementalAlterConfigsResponse, node=node)
    found = only(answer.responses, name)
    raise_for(found.error_code, found.error_message, name)


class RemoteTopic:
    """A topic of a cluster, as of the time of its metadata. For one thread at a time.

    It has those methods of :class:`kstore.Topic` that the tools and the producer use.
    """

    def __init__(self, store: "RemoteStore", entry: TopicEntry) -> None:
        self.store = store
        self.name = entry.name or ""
        self.topic_id = None if entry.topic_id == ZERO_UUID else uuid_to_text(entry.topic_id)
        self.entries = {each.partition_index: each for each in entry.partitions}
        self.partitions = tuple(sorted(self.entries))
        self.acks = -1
        self.transactions: TransactionalId | None = None
        self._config: LogConfig | None = None
        self._partitioner = StickyPartitioner(LogConfig().batch_size)

    @property
    def _partitions(self) -> tuple[int, ...]:
        return self.partitions

    @property
    def _length(self) -> int:
        return len(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, partition: int) -> RemoteLog:
        if partition not in self.entries:
            raise error_of(3, None, f"{self.name}-{partition}")
        if self.transactions is not None:
            return TransactionalLog(
                self.store.cluster,
                self.name,
                partition,
                config=self.config,
                transactions=self.transactions,
            )
        return RemoteLog(
            self.store.cluster, self.name, partition, config=self.config, acks=self.acks
        )

    def __iter__(self) -> Iterator[RemoteLog]:
        return (self[partition] for partition in self.partitions)

    def partition_for(self, key: bytes | None, value: bytes | None = None) -> int:
        """The partition for a record: by murmur2 of the key, or sticky without a key."""
        return choose(self._partitioner, key, value, self._length)

    def end_offsets(self) -> dict[int, int]:
        """The high watermark of every partition."""
        return {log.partition: log.end_offset for log in self}

    # --- settings ---------------------------------------------------------------------------

    def settings(self) -> list[SettingEntry]:
        """All settings of the topic, sorted by name."""
        return describe_settings(self.store, TOPIC, self.name)

    def own_settings(self) -> dict[str, str]:
        """The settings that are not Kafka's default, as kafka-topics shows them."""
        return {
            each.name: each.value or ""
            for each in self.settings()
            if each.config_source != DEFAULT_CONFIG and not each.is_default
        }

    @property
    def config(self) -> LogConfig:
        """Those of the topic's settings that producers and record deletion use."""
        if self._config is None:
            heeded = ("cleanup.policy", "max.message.bytes", "segment.bytes")
            found = {each.name: each.value for each in self.settings() if each.name in heeded}
            self._config = LogConfig().merge(found, (), LogConfig())
        return self._config

    def alter(
        self,
        config: Mapping[str, object],
        *,
        unset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Change some settings and keep the others (IncrementalAlterConfigs)."""
        changes = {name: setting_text(value) for name, value in config.items()}
        alter_settings(self.store, TOPIC, self.name, changes, unset, validate_only=validate_only)
