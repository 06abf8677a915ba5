"""The cluster at one moment: brokers, topics, partitions and settings (Kafka's MetadataImage).

Every object here is immutable, so a request that has taken an image sees one state of the cluster
until it is answered, whatever changes meanwhile. Topic ids are the 16 bytes of Kafka's Uuid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kstore.cluster.client_quotas import ClientQuotas

ZERO_UUID = bytes(16)  # of a topic without an id: clients use its name
NO_LEADER = -1  # Kafka's leader id of a partition that no broker leads


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients reach one listener of a broker."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A broker; ``endpoints`` are its advertised listeners by name."""

    node_id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition: which brokers have it, which of them leads it, and since which epoch.

    ``leader`` is -1, and ``offline_replicas`` names the broker, if the partition's log directory
    is offline or missing.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic.

    Parameters
    ----------
    topic_id
        16 bytes; ``ZERO_UUID`` for a topic that has no id.
    partitions
        By number, ascending.
    config
        The settings that were set for the topic, Kafka's names; not the effective ones.
    is_internal
        Kafka's own topic, such as ``__consumer_offsets``: clients do not produce to it.
    is_adopted
        The broker's defaults apply to the topic, because it was created through a broker or its
        settings were adopted. A topic that existed before keeps what it had.
    """

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]
    config: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False
    is_adopted: bool = True


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """All of the cluster's metadata; ``version`` grows with every change in one process."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerImage]
    topics: Mapping[str, TopicImage]
    names_by_id: Mapping[bytes, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(
        default_factory=dict
    )  # set for the broker at run time, not its defaults
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
