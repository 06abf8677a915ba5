"""Plans the topics that a request creates: their images, before they exist."""

from collections.abc import Iterable

from kstore.cluster.broker_file import TopicRecord
from kstore.cluster.config_changes import check_topic_config
from kstore.cluster.engine_config import kept_beside_topics, kept_by_topics
from kstore.cluster.image import TopicImage
from kstore.cluster.local_image import planned_image
from kstore.cluster.metadata import NewTopic
from kstore.cluster.settings.layers import BrokerConfig
from kstore.cluster.topic_rules import TopicNames, count_partitions
from kstore.config import LogConfig
from kstore.kafka_uuid import random_uuid, uuid_to_text
from kstore.store.topic_creation import TopicToCreate


def plan_topics(
    wanted: Iterable[NewTopic], existing: Iterable[str], node_id: int, config: BrokerConfig
) -> list[TopicImage | Exception]:
    """The image of each topic to be created, or what Kafka's controller refuses it for."""
    names = TopicNames(existing)
    outcomes: list[TopicImage | Exception] = []
    for each in wanted:
        try:
            outcomes.append(_plan(each, names, node_id, config))
            names.add(each.name)
        except Exception as error:  # of one topic
            outcomes.append(error)
    return outcomes


def _plan(wanted: NewTopic, names: TopicNames, node_id: int, config: BrokerConfig) -> TopicImage:
    names.check_new(wanted.name)
    count = count_partitions(
        wanted.partitions,
        wanted.replication_factor,
        wanted.assignments,
        node_id,
        int(config.get("num.partitions") or 1),
    )
    own = check_topic_config(wanted.config, config.topic_default)
    return planned_image(wanted.name, random_uuid(), count, own, node_id)


def to_create(planned: TopicImage) -> tuple[TopicRecord, TopicToCreate]:
    """What ``kstore.broker`` keeps of a planned topic, and what the store is to create."""
    topic_id = uuid_to_text(planned.topic_id)
    kept = kept_by_topics(planned.config)
    config = LogConfig.from_properties(kept)
    return (
        TopicRecord(topic_id, True, kept_beside_topics(planned.config)),
        TopicToCreate(planned.name, len(planned.partitions), config, topic_id, tuple(kept)),
    )
