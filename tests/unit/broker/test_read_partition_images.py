"""Requests about many partitions leave their work to disk workers, not to the loop's thread."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker import read_partition_images
from kstore.broker.encoded_topics import encode_topic
from kstore.broker.handlers.client_quotas import _is_selected
from kstore.broker.partitions import PARTITIONS_A_TURN
from kstore.cluster.client_quotas import entity_of
from kstore.files.filenames import LEADER_EPOCHS
from kstore.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kstore.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kstore.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kstore.remote.connection import Connection
from support.disks import HastyDisk
from support.handler_tester import HandlerTester
from support.stores import QUIET
from unit.broker.test_partitions import ask_end, ask_fetch, ask_metadata

LOOP = "kstore-broker"
MANY = PARTITIONS_A_TURN + 44


def thread() -> str:
    return threading.current_thread().name


class EpochReads(HastyDisk):
    """Counts the files of leader epochs that each thread reads."""

    def __init__(self) -> None:
        self.by_thread: Counter[str] = Counter()

    def read(self, path: Any, *arguments: Any) -> bytes:
        if os.path.basename(path) == LEADER_EPOCHS:
            self.by_thread[thread()] += 1
        return super().read(path, *arguments)


@pytest.fixture
def files() -> EpochReads:
    return EpochReads()


@pytest.fixture
def broker(tmp_path: Path, files: EpochReads) -> Iterator[kstore.Broker]:
    with kstore.Store(tmp_path, config=QUIET, files=HastyDisk()) as store:
        topic = store.create_topic("t", partitions=MANY)
        for number in (0, 1):
            topic[number].append(b"x")
            topic[number].begin_epoch(3)
    with (
        kstore.Store(tmp_path, config=QUIET, files=files) as store,
        kstore.Broker(store, port=0) as broker,
    ):
        files.by_thread.clear()
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[Connection]:
    with Connection("127.0.0.1", broker.port) as connection:
        yield connection


def elect(client: Connection) -> int:
    asked = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=9000)
    return client.ask(asked, ElectLeadersResponse).error_code


def describe(client: Connection) -> list[int]:
    asked = DescribeTopicPartitionsRequest(response_partition_limit=2)
    [topic] = client.ask(asked, DescribeTopicPartitionsResponse).topics
    return [each.leader_epoch for each in topic.partitions]


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (partial(ask_metadata, topic="t"), [(0, 0)] * MANY),
        (partial(ask_end, topic="t", number=1), (0, 1)),
        (partial(ask_fetch, topic="t"), 0),
        (elect, 0),
        (describe, [3, 3]),
    ],
    ids=["Metadata", "ListOffsets", "Fetch", "ElectLeaders", "DescribeTopicPartitions"],
)
def test_the_loop_reads_no_leader_epoch(
    client: Connection, files: EpochReads, ask: Any, expected: object
) -> None:
    assert ask(client) == expected
    assert files.by_thread.total() > 0
    assert files.by_thread[LOOP] == 0
    assert ask(client) == expected


def test_epochs_are_not_read_again_when_a_topic_grows(
    broker: kstore.Broker, client: Connection, files: EpochReads
) -> None:
    assert ask_metadata(client, "t") == [(0, 0)] * MANY
    files.by_thread.clear()
    broker.store.add_partitions("t", MANY + 2)
    assert ask_metadata(client, "t") == [(0, 0)] * (MANY + 2)
    assert files.by_thread.total() == 0  # the new ones have no such file yet
    broker.store["t"][1].begin_epoch(7)
    files.by_thread.clear()
    image = broker._services.metadata.image.topics["t"]
    assert [image.partitions[n].leader_epoch for n in range(3)] == [3, 7, 0]
    assert read_partition_images.is_read(image)
    assert files.by_thread.total() == 0


def test_a_recreated_topic_does_not_inherit_epochs(
    broker: kstore.Broker, client: Connection
) -> None:
    assert ask_metadata(client, "t") == [(0, 0)] * MANY
    broker.store.delete_topic("t")
    broker.store.create_topic("t", partitions=2)
    assert broker._services.metadata.image.topics["t"].partitions[0].leader_epoch == 0


def test_many_partitions_are_described_by_a_disk_worker(
    client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for an image; few partitions by the loop, which needs no other thread for them."""
    encoders: list[str] = []

    def encode(*arguments: Any) -> Any:
        encoders.append(thread())
        return encode_topic(*arguments)

    monkeypatch.setattr("kstore.broker.handlers.metadata.encode_topic", encode)
    for _ in range(3):
        assert ask_metadata(client, "t") == [(0, 0)] * MANY
    assert len(encoders) == 1
    assert encoders[0] != LOOP


def test_a_new_image_is_applied_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2 * PARTITIONS_A_TURN + 1
    with (
        kstore.Store(tmp_path, config=QUIET, files=HastyDisk()) as store,
        HandlerTester(store) as tester,
    ):
        tester.create("t", count)
        hosted = [tester.partitions.get("t", number) for number in range(count)]
        tester.turn()
        updated: list[int] = []
        update = tester.partitions._update

        def count_updates(topic: str, number: int, image: Any) -> Any:
            updated[-1] += 1
            return update(topic, number, image)

        monkeypatch.setattr(tester.partitions, "_update", count_updates)
        tester.metadata.follow(store, leader_epoch=1)
        for _ in range(5):
            updated.append(0)
            tester.turn()
        assert updated == [PARTITIONS_A_TURN, PARTITIONS_A_TURN, 1, 0, 0]
        assert {each.leader_epoch for each in hosted} == {1}


def test_quotas_are_searched_by_a_disk_worker(
    broker: kstore.Broker, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"producer_byte_rate": 1000.0}
    changes = [(entity_of([("user", f"u{number}")]), limits) for number in range(20)]
    broker._services.metadata.alter_client_quotas(changes)
    searchers: list[str] = []

    def is_selected(*arguments: Any, **options: Any) -> bool:
        searchers.append(thread())
        return _is_selected(*arguments, **options)

    monkeypatch.setattr("kstore.broker.handlers.client_quotas._is_selected", is_selected)
    component = DescribeClientQuotasRequest.Components("user", 0, "u7")
    asked = DescribeClientQuotasRequest(components=[component], strict=True)
    answer = client.ask(asked, DescribeClientQuotasResponse)
    assert answer.error_code == 0
    assert answer.entries is not None
    [entry] = answer.entries
    assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 1000.0)]
    assert len(searchers) == 20
    assert LOOP not in searchers
