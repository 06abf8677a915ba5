"""CreateTopics, DeleteTopics, CreatePartitions over the store's own metadata, from the bytes of
requests; the answers are those of Kafka 3.9.2.

Where kstore differs: of two new names that collide in one request the second is refused (Kafka
creates both), and the answers of DeleteTopics are in order (Kafka shuffles them, so that no order
shows what a client may not see).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.handlers.topics import TopicHandlers
from kstore.files.files import Files
from kstore.protocol.messages.create_partitions import CreatePartitionsRequest
from kstore.protocol.messages.create_topics import CreateTopicsRequest
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest
from support.broker_requests import NODE, Client, decoded, local_metadata

New = CreateTopicsRequest.Topics
More = CreatePartitionsRequest.Topics
Gone = DeleteTopicsRequest.Topics


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with kstore.open(tmp_path, "a") as store:
        metadata = local_metadata(store)
        yield Client(TopicHandlers, metadata=metadata, store=store)
        metadata.close()


def create(client: Client, *topics: New, version: int = 7, **fields: Any) -> list[Any]:
    found: list[Any] = client.ask(CreateTopicsRequest(list(topics), **fields), version).topics
    return found


def errors(found: list[Any]) -> list[tuple[str, int, str | None]]:
    return [(each.name, each.error_code, each.error_message) for each in found]


def assigned(*brokers: tuple[int, list[int]], count: int = -1, factor: int = -1) -> New:
    assignments = [New.Assignments(number, nodes) for number, nodes in brokers]
    return New("t", count, factor, assignments)


# --- create ---------------------------------------------------------------------------------


def test_many_topics_are_few_writes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = Files.write_atomically

    def counted(self: Files, path: str, data: bytes) -> None:
        written.append(os.path.basename(path))
        write(self, path, data)

    monkeypatch.setattr(Files, "write_atomically", counted)
    bad = New("bad", 1, 1, configs=[New.Configs("retention.ms", "x")])
    twice = New("twice", 1, 1, [New.Assignments(0, [NODE]), New.Assignments(0, [NODE])])
    topics = [New(f"t{n}", 1, 1) for n in range(300)]
    topics[7:7] = [bad, twice, New("t_x", 1, 1), New("t.x", 1, 1)]
    found = create(client, *topics, timeout_ms=600_000)
    assert [each.name for each in found] == [each.name for each in topics]
    codes = {each.name: each.error_code for each in found if each.error_code}
    assert codes == {"bad": 40, "twice": 39, "t.x": 17}
    assert len(client.metadata.image.topics) == 301
    assert written.count("kstore.broker") == 2  # 256 topics a step
    assert written.count("kstore.topics") == 4
    again = create(client, *topics[:7], New("late", 1, 1), timeout_ms=600_000)
    assert [each.error_code for each in again] == [36] * 7 + [0]


@pytest.mark.parametrize("version", range(8))
def test_a_topic_is_created_in_every_version(client: Client, version: int) -> None:
    topic = New("orders", 3, 1, configs=[New.Configs("retention.ms", "100")])
    (found,) = create(client, topic, version=version)
    assert (found.name, found.error_code) == ("orders", 0)
    image = client.metadata.image.topic("orders")
    assert len(image.partitions) == 3
    assert dict(image.config) == {"retention.ms": "100"}
    if version >= 5:
        assert (found.num_partitions, found.replication_factor) == (3, 1)
        settings = {each.name: (each.value, each.config_source) for each in found.configs}
        assert settings["retention.ms"] == ("100", 1)
        assert settings["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert found.topic_id == image.topic_id != bytes(16)


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (New("", 1, 1), 17, "Topic name is invalid: the empty string is not allowed"),
        (New("..", 1, 1), 17, "Topic name is invalid: '..' is not allowed"),
        (
            New("a b", 1, 1), 17, "Topic name is invalid: 'a b' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (New("t", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (
            New("t", 1, 0), 38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            New("t", 1, 3), 38, "Unable to replicate the partition 3 time(s): The target "
            "replication factor of 3 cannot be reached because only 1 broker(s) are registered.",
        ),
        (
            assigned((0, [NODE]), count=1), 42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned((1, [NODE])), 39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            assigned((0, [9])), 39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned((0, [NODE]), (0, [NODE])), 39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            New("t", 1, 1, configs=[New.Configs("no.such", "1")]), 40,
            "Unknown topic config name: no.such",
        ),
        (
            New("t", 1, 1, configs=[New.Configs("retention.ms", None)]), 40,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            New("t", 1, 1, configs=[New.Configs("retention.ms", "x")]), 40,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            New("__cluster_metadata", 1, 1), 42,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_what_kafka_says(
    client: Client, topic: New, code: int, message: str
) -> None:
    for validate_only in (True, False):
        found = create(client, topic, validate_only=validate_only)
        assert errors(found) == [(topic.name, code, message)]
        assert (found[0].num_partitions, found[0].configs) == (-1, [])
    assert not client.metadata.image.topics


def test_a_name_twice_in_a_request_is_refused(client: Client) -> None:
    found = create(client, New("b", 1, 1), New("a", 1, 1), New("b", 1, 1))
    assert errors(found) == [("a", 0, None), ("b", 42, "Duplicate topic name.")]
    assert list(client.metadata.image.topics) == ["a"]


def test_existing_and_colliding_names_are_refused(client: Client) -> None:
    create(client, New("a_b", 1, 1))
    assert errors(create(client, New("a_b", 1, 1), New("a.b", 1, 1))) == [
        ("a_b", 36, "Topic 'a_b' already exists."),
        ("a.b", 17, "Topic 'a.b' collides with existing topic: a_b"),
    ]
    found = create(client, New("x_y", 1, 1), New("x.y", 1, 1))
    assert [each.error_code for each in found] == [0, 17]


def test_defaults_and_assignments_decide_the_partitions(client: Client) -> None:
    (found,) = create(client, New("d", -1, -1))
    assert (found.num_partitions, found.replication_factor) == (1, 1)
    (found,) = create(client, assigned((1, [NODE]), (0, [NODE])))
    assert (found.error_code, found.num_partitions) == (0, 2)


def test_validate_only_creates_nothing(client: Client) -> None:
    (found,) = create(client, New("v", 3, -1), validate_only=True)
    assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 3, 1)
    assert not client.metadata.image.topics


def test_validate_only_shows_the_settings_that_the_topic_would_have(client: Client) -> None:
    topic = New("v", 1, 1, configs=[New.Configs("retention.ms", "100")])
    (planned,) = create(client, topic, validate_only=True)
    (created,) = create(client, topic)
    assert planned.configs == created.configs
    assert ("retention.ms", "100") in [(each.name, each.value) for each in planned.configs]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_creation_without_time_is_answered_timed_out_and_not_begun(
    client: Client, timeout_ms: int
) -> None:
    found = create(client, New("t", 1, 1), timeout_ms=timeout_ms)
    assert errors(found) == [("t", 7, None)]
    assert not client.workers.waiting


def test_a_creation_whose_timeout_expires_before_a_worker_is_free(client: Client) -> None:
    asked = CreateTopicsRequest([New("t", 1, 1)], timeout_ms=500)
    pending = client.send(asked, 7)
    client.loop.pass_time(0.4)
    assert not pending.is_answered
    client.loop.pass_time(0.1)
    assert errors(decoded(pending, 7).topics) == [("t", 7, None)]
    client.workers.run()
    assert not client.metadata.image.topics  # what has not begun is not done


# --- delete ---------------------------------------------------------------------------------


def delete(client: Client, *names: str, version: int = 5, **fields: Any) -> list[Any]:
    fields.setdefault("timeout_ms", 1000)
    asked = DeleteTopicsRequest(topic_names=list(names), **fields)
    if version >= 6:
        asked.topics = [Gone(name=name) for name in names]
    found: list[Any] = client.ask(asked, version).responses
    return found


@pytest.mark.parametrize("version", range(7))
def test_a_topic_is_deleted_in_every_version(client: Client, version: int) -> None:
    create(client, New("orders", 1, 1), New("kept", 1, 1))
    topic_id = client.metadata.image.topic("orders").topic_id
    found = delete(client, "orders", "nope", version=version)
    assert {(each.name, each.error_code) for each in found} == {("orders", 0), ("nope", 3)}
    assert list(client.metadata.image.topics) == ["kept"]
    if version >= 6:
        assert found[-1].topic_id == topic_id
    if version >= 5:
        assert found[0].error_message == "This server does not host this topic-partition."


def test_what_is_wrong_with_a_deletion(client: Client) -> None:
    """The request that was asked of Kafka 3.9.2, and its answers."""
    create(client, *(New(f"d{number}", 1, 1) for number in range(4, 8)))
    ids = {name: topic.topic_id for name, topic in client.metadata.image.topics.items()}
    twice, once = b"\x11" * 16, b"\x12" * 16
    topics = [
        Gone("d4"), Gone(None, twice), Gone(None), Gone("d5", ids["d5"]), Gone(None, twice),
        Gone(None, ids["d5"]), Gone(None, ids["d5"]), Gone("d6"), Gone(None, ids["d6"]),
        Gone("zz"), Gone(None, once), Gone(None, ids["d7"]),
    ]  # fmt: skip
    found = client.ask(DeleteTopicsRequest(topics, timeout_ms=1000), 6).responses
    answers = {(each.name, each.topic_id): (each.error_code, each.error_message) for each in found}
    assert len(found) == len(answers)
    assert answers == {
        ("d4", ids["d4"]): (0, None),
        (None, twice): (42, "Duplicate topic id."),
        (None, bytes(16)): (42, "Neither topic name nor id were specified."),
        ("d5", ids["d5"]): (42, "You may not specify both topic name and topic id."),
        (None, ids["d5"]): (42, "Duplicate topic id."),
        ("d6", ids["d6"]): (
            42,
            "The provided topic name maps to an ID that was already supplied.",
        ),
        ("zz", bytes(16)): (3, "This server does not host this topic-partition."),
        (None, once): (100, "This server does not host this topic ID."),
        ("d7", ids["d7"]): (0, None),
    }
    assert set(client.metadata.image.topics) == {"d5", "d6"}


def test_a_name_twice_in_a_deletion(client: Client) -> None:
    create(client, New("a", 1, 1))
    assert errors(delete(client, "a", "a")) == [("a", 42, "Duplicate topic name.")]
    assert "a" in client.metadata.image.topics


def test_a_deletion_without_time_is_answered_timed_out_and_not_begun(client: Client) -> None:
    create(client, New("a", 1, 1))
    assert errors(delete(client, "a", timeout_ms=0)) == [("a", 7, None)]
    assert "a" in client.metadata.image.topics


@pytest.mark.parametrize(("version", "error"), [(0, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_disabled(tmp_path: Path, version: int, error: int) -> None:
    with kstore.open(tmp_path / "other", "a") as store:
        metadata = local_metadata(store)
        settings = {"delete.topic.enable": "false"}
        asker = Client(TopicHandlers, metadata=metadata, store=store, settings=settings)
        create(asker, New("a", 1, 1))
        assert [each.error_code for each in delete(asker, "a", version=version)] == [error]
        assert "a" in metadata.image.topics
        metadata.close()


def test_a_topic_that_existed_before_is_not_deleted(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "other", "a") as store:
        store.create_topic("before", 1)
        metadata = local_metadata(store)
        asker = Client(TopicHandlers, metadata=metadata, store=store)
        assert [each.error_code for each in delete(asker, "before")] == [44]
        assert "before" in store
        metadata.close()


# --- partitions -----------------------------------------------------------------------------


def add(client: Client, *topics: More, version: int = 3, **fields: Any) -> list[Any]:
    fields.setdefault("timeout_ms", 1000)
    asked = CreatePartitionsRequest(list(topics), **fields)
    found: list[Any] = client.ask(asked, version).results
    return found


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version(client: Client, version: int) -> None:
    create(client, New("a", 2, 1))
    found = add(client, More("a", 4, None), version=version, validate_only=True)
    assert errors(found) == [("a", 0, None)]
    assert len(client.metadata.image.topic("a").partitions) == 2
    assert errors(add(client, More("a", 4, None), version=version)) == [("a", 0, None)]
    assert len(client.metadata.image.topic("a").partitions) == 4


def brokers(*wanted: list[int]) -> list[More.Assignments]:
    return [More.Assignments(nodes) for nodes in wanted]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (More("a", 2, None), 37, "Topic already has 2 partition(s)."),
        (
            More("a", 1, None), 37,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            More("a", 4, brokers([NODE])), 39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            More("a", 3, brokers([9])), 39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            More("a", 3, brokers([])), 39,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)  # fmt: skip
def test_partitions_that_cannot_be_added(
    client: Client, topic: More, code: int, message: str
) -> None:
    create(client, New("a", 2, 1))
    assert errors(add(client, topic)) == [("a", code, message)]
    assert len(client.metadata.image.topic("a").partitions) == 2


def test_a_topic_twice_and_an_unknown_one(client: Client) -> None:
    create(client, New("a", 2, 1))
    found = add(client, More("a", 3, None), More("a", 4, None), More("nope", 4, None))
    assert [(each.name, each.error_code) for each in found] == [("a", 42), ("nope", 3)]
    assert errors(add(client, More("a", 3, None), timeout_ms=0)) == [("a", 7, None)]
