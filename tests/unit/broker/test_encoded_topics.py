"""Metadata's topics are encoded once for an image, and never for another one."""

from typing import Any

from kstore.broker.encoded_topics import EncodedTopics
from kstore.protocol.messages.metadata import MetadataResponse
from kstore.protocol.wire import Writer
from support.broker_requests import cluster_image, topic_image

Topics = MetadataResponse.Topics


def encoded(topic: Any, version: int) -> bytes:
    writer = Writer()
    topic.encode(writer, version)
    return writer.to_bytes()


class Describer:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> MetadataResponse.Topics:
        self.calls += 1
        partitions = [Topics.Partitions(partition_index=self.calls)]
        return Topics(name="t", partitions=partitions)


def test_a_topic_is_encoded_once_for_each_version_and_key() -> None:
    topics, describe, image = EncodedTopics(), Describer(), cluster_image(topic_image("t"))
    for version in (0, 9, 13):
        for key in ("a", "b"):
            first = encoded(topics.find(image, key, version, describe), version)
            calls = describe.calls
            expected = Topics(name="t", partitions=[Topics.Partitions(partition_index=calls)])
            assert first == encoded(expected, version)
            assert encoded(topics.find(image, key, version, describe), version) == first
            assert describe.calls == calls
    assert describe.calls == 6


def test_another_image_is_described_again() -> None:
    topics, describe = EncodedTopics(), Describer()
    for number in range(3):
        topics.find(cluster_image(topic_image("t")), "a", 9, describe)
        assert describe.calls == number + 1


def test_memory_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("kstore.broker.encoded_topics._MOST_BYTES", 1_000)
    topics, describe, image = EncodedTopics(), Describer(), cluster_image(topic_image("t"))
    for number in range(1_000):
        topics.find(image, number, 9, describe)
        assert topics._size < 1_100
        assert len(topics._topics) < 100
