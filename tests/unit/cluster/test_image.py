"""The image of a cluster: lookups, and that nothing in it can change."""

from dataclasses import FrozenInstanceError

import pytest

from kstore.cluster.image import ZERO_UUID, ClusterImage, PartitionImage, TopicImage, names_by_id

ID = bytes(range(16))


def image() -> ClusterImage:
    partition = PartitionImage(0, leader=0, leader_epoch=3, replicas=(0,), isr=(0,))
    topics = {
        "orders": TopicImage("orders", ID, {0: partition}),
        "old": TopicImage("old", ZERO_UUID, {0: partition}),
    }
    return ClusterImage("cluster", 0, {}, topics, names_by_id(topics))


def test_a_topic_is_found_by_name_and_by_id() -> None:
    found = image()
    assert found.topic("orders") is found.topic_by_id(ID) is found.topics["orders"]
    assert found.topic("missing") is None
    assert found.topic_by_id(bytes(15) + b"\1") is None


def test_the_zero_id_names_no_topic() -> None:
    assert image().topic_by_id(ZERO_UUID) is None


def test_a_partition_is_found_by_topic_and_number() -> None:
    found = image().partition("orders", 0)
    assert found is not None
    assert found.leader_epoch == 3
    assert image().partition("orders", 1) is None
    assert image().partition("missing", 0) is None


def test_an_image_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        image().version = 1
