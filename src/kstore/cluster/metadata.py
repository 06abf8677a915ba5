"""The interface through which a broker reads and changes the cluster's metadata.

A one-node cluster keeps its metadata in its own store (:mod:`kstore.cluster.local_metadata`); a
cluster of several brokers needs another implementation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import Protocol

from kstore.cluster.client_quotas import QuotaChange
from kstore.cluster.image import ClusterImage, TopicImage
from kstore.errors import InvalidRequestError
from kstore.lazy_dataclass import lazy_dataclass

OnChange = Callable[[ClusterImage, ClusterImage], object]  # called with the old and new image
Assignments = Mapping[int, Sequence[int]]  # the brokers of each partition, by its number


class AlterOp(IntEnum):
    """The operations of IncrementalAlterConfigs (Kafka's AlterConfigOp)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """The source of a setting's value (Kafka's DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigType(IntEnum):
    """The type of a setting (Kafka's DescribeConfigsResponse.ConfigType)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@lazy_dataclass(frozen=True)
class ConfigSynonym:
    """A setting's value in one layer; the first synonym is effective."""

    name: str
    value: str | None
    source: ConfigSource


@lazy_dataclass(frozen=True)
class ConfigEntry:
    """A setting as in DescribeConfigs; the value of a sensitive setting is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()


ConfigChange = tuple[int, str, str | None]  # an AlterOp, a setting's name, a value


@lazy_dataclass(frozen=True)
class NewTopic:
    """A topic to be created, as CreateTopics asks for it; -1 is the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Assignments | None = None
    config: Mapping[str, str | None] = field(default_factory=dict)


class Registration(Protocol):
    """The registration of an ``on_change`` callback."""

    def close(self) -> None:
        """Stop calling back. Idempotent."""


class Metadata(Protocol):
    """Reads and changes the metadata of the cluster. Thread safe.

    ``image`` never blocks. Changes block, so they belong on a disk worker; they return once the
    change is on disk and in ``image``. They raise KStoreErrors with Kafka's code and message, and
    then change nothing.
    """

    @property
    def node_id(self) -> int: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def served_since(self) -> int:
        """When a broker first served these log directories, in Unix ms."""

    def refresh(self) -> ClusterImage:
        """The image with all changes that were made elsewhere; blocks, unlike ``image``."""

    def on_change(self, callback: OnChange) -> Registration:
        """Call ``callback(old, new)`` after each change, on the thread that made it."""

    def leader_epoch_begun(self, name: str, partition: int) -> None:
        """Read a partition's leader epoch again, after its log has begun a new one."""

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignments: Assignments | None = None,
        config: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> TopicImage:
        """Create a topic; with ``validate_only``, only check, and return what would be created."""

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Exception]:
        """Create several topics, at the cost of few writes; an image or an error for each."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""

    def create_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic until it has ``count``; ``assignments`` of the new ones."""

    def alter_topic_config(
        self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a topic (IncrementalAlterConfigs)."""

    def replace_topic_config(
        self, name: str, config: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Replace all settings of a topic (AlterConfigs)."""

    def alter_broker_config(
        self,
        changes: Sequence[ConfigChange],
        *,
        for_all: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change some dynamic settings of the broker (IncrementalAlterConfigs).

        ``for_all``: the defaults of all brokers, Kafka's resource "".
        """

    def replace_broker_config(
        self,
        config: Mapping[str, str | None],
        *,
        for_all: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Replace all dynamic settings of the broker (AlterConfigs)."""

    def alter_group_config(
        self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a consumer group (IncrementalAlterConfigs)."""

    def replace_group_config(
        self, name: str, config: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set exactly these settings of a consumer group (AlterConfigs)."""

    def describe_group_config(self, name: str) -> list[ConfigEntry]:
        """All settings of a consumer group with their effective values, sorted by name."""

    def alter_client_quotas(
        self, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[InvalidRequestError | None]:
        """Set limits of entities, and remove those that are None; each entity's error, or None."""

    def describe_topic_config(self, name: str) -> list[ConfigEntry]:
        """All settings of a topic with their effective values, sorted by name."""

    def describe_new_topic(self, topic: TopicImage) -> list[ConfigEntry]:
        """All settings of a topic that ``create_topic`` with ``validate_only`` returned."""

    def describe_broker_config(self, *, for_all: bool = False) -> list[ConfigEntry]:
        """All settings of the broker with their effective values, sorted by name.

        ``for_all``: only those set for all brokers.
        """
