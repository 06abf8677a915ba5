"""A snapshot of the cluster: brokers, topics, partitions and settings (Kafka's MetadataImage).

All objects here are immutable, so a request sees one consistent state of the cluster until its
response. Topic ids are the 16 bytes of Kafka's Uuid.
"""

from collections.abc import Mapping
from dataclasses import field

from kstore.cluster.client_quotas import ClientQuotas
from kstore.lazy_dataclass import lazy_dataclass

ZERO_UUID = bytes(16)  # of a topic without an id, which clients address by name
NO_LEADER = -1  # Kafka's leader id of a partition that no broker leads
NO_EPOCH = -1  # of a partition whose leader epoch is not read yet


@lazy_dataclass(frozen=True)
class Endpoint:
    """The advertised address of one listener of a broker."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@lazy_dataclass(frozen=True)
class BrokerImage:
    """A broker; ``endpoints`` are its advertised listeners by name."""

    node_id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]


@lazy_dataclass(frozen=True)
class PartitionImage:
    """A partition: its replicas, its leader, and its leader epoch.

    If the partition's log directory is offline or missing, ``leader`` is -1 and
    ``offline_replicas`` contains the broker.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = 0


@lazy_dataclass(frozen=True)
class TopicImage:
    """A topic.

    Parameters
    ----------
    topic_id
        16 bytes; ``ZERO_UUID`` for a topic without an id.
    partitions
        By number, ascending.
    config
        The topic's own settings by Kafka's names, not the effective ones.
    is_internal
        An internal topic such as ``__consumer_offsets``, to which clients do not produce.
    is_adopted
        Whether the broker's defaults apply to the topic, because it was created through a broker or
        adopted. Any other topic keeps the settings it had before.
    """

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]
    config: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False
    is_adopted: bool = True


@lazy_dataclass(frozen=True)
class ClusterImage:
    """All of the cluster's metadata; within a process ``version`` increases with each change."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerImage]
    topics: Mapping[str, TopicImage]
    names_by_id: Mapping[bytes, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(
        default_factory=dict
    )  # the dynamic settings of the broker
    version: int = 0
    group_config: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # what was set for consumer groups, by group
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)

    def topic(self, name: str) -> TopicImage | None:
        """A topic by name; None if it does not exist."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """A topic by its 16 bytes; None for an unknown id and for ``ZERO_UUID``."""
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics.get(name)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """A partition of a topic by name; None if either does not exist."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)


def names_by_id(topics: Mapping[str, TopicImage]) -> Mapping[bytes, str]:
    """The names of the topics that have an id."""
    return {topic.topic_id: name for name, topic in topics.items() if topic.topic_id != ZERO_UUID}
