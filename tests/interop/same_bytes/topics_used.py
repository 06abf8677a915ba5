"""The topics that the questions need, created before the first of them."""

import time
from typing import Any

from interop.same_bytes.asker import Asker
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages import message_types

KEPT = {"retention.ms": "-1"}  # records of 2023, which no retention may delete meanwhile
NEWEST = {ApiKey.LIST_OFFSETS: 9, ApiKey.METADATA: 12, ApiKey.DESCRIBE_CLUSTER: 1}
NEWEST |= {
    ApiKey.LIST_CONFIG_RESOURCES: 0,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.PRODUCE: 11,
}  # in Kafka 3.9, of which all others are the newest
PATIENCE = 30.0  # seconds until a topic has its leaders


def versions(api_key: ApiKey) -> range:
    """Every version of an API that Kafka 3.9 has, from 0."""
    return range(NEWEST.get(api_key, message_types(api_key)[0].MAX_VERSION) + 1)


def specification(name: str, partitions: int = 1, **config: str) -> dict[str, Any]:
    """A topic of CreateTopics."""
    settings = KEPT | {key.replace("_", "."): value for key, value in config.items()}
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in settings.items()],
    }


def create(asker: Asker, *topics: dict[str, Any]) -> None:
    """Create topics and wait until all partitions have leaders; their ids become known."""
    made = asker.look(ApiKey.CREATE_TOPICS, 7, topics=list(topics), timeout_ms=30_000)
    assert made is not None, f"{asker.address}: CreateTopics is not answered"
    wrong = [(each.name, each.error_code, each.error_message) for each in made.topics]
    assert not any(code for _, code, _ in wrong), wrong
    names = [each["name"] for each in topics]
    wait_until_known(asker, names)


def wait_until_known(asker: Asker, names: list[str]) -> None:
    """Wait until Metadata lists topics with leaders."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = asker.look(
            ApiKey.METADATA,
            12,
            topics=[{"name": name} for name in names],
            allow_auto_topic_creation=False,
        )
        errors = [each.error_code for each in found.topics]
        errors += [each.error_code for topic in found.topics for each in topic.partitions]
        is_complete = all(topic.partitions for topic in found.topics)
        if not any(errors) and is_complete and _are_served(asker, found.topics):
            asker.topic_ids |= {each.name: each.topic_id for each in found.topics}
            return
        time.sleep(0.02)
    raise AssertionError(f"{asker.address}: {names} have no leaders: {found}")


def new_producer_id(asker: Asker) -> int:
    """A producer id, as soon as the broker has some: the first request makes Kafka ask for them."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        fields = {"transactional_id": None, "transaction_timeout_ms": 1000}
        found = asker.look(ApiKey.INIT_PRODUCER_ID, 4, **fields)
        if found.error_code == 0:
            return int(found.producer_id)
        time.sleep(0.02)
    raise AssertionError(f"{asker.address}: no producer id: {found}")


def _are_served(asker: Asker, topics: list[Any]) -> bool:
    """Whether the leader of every partition answers: Metadata lists it a moment before."""
    wanted = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "timestamp": -1}
                for each in topic.partitions
            ],
        }
        for topic in topics
    ]
    answer = asker.look(ApiKey.LIST_OFFSETS, 1, replica_id=-1, topics=wanted)
    return not any(each.error_code for topic in answer.topics for each in topic.partitions)


def wait_until_unknown(asker: Asker, names: list[str]) -> None:
    """Wait until Metadata answers that topics do not exist."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        wanted = [{"name": name} for name in names]
        found = asker.look(ApiKey.METADATA, 12, topics=wanted, allow_auto_topic_creation=False)
        if all(each.error_code == 3 for each in found.topics):
            return
        time.sleep(0.02)
    raise AssertionError(f"{asker.address}: {names} are still listed")
