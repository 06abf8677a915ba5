"""DescribeLogDirs and AlterReplicaLogDirs over a store of two directories, from bytes; the answers
are those of Kafka 3.9.2.

Where kstore differs: every partition of an unknown topic answers 3, also where the name is so long
that its directory's would not fit (Kafka: 17).
"""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.handlers.log_dirs import LogDirHandlers
from kstore.cluster.metadata import AlterOp
from kstore.compaction.throttler import Throttler
from kstore.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kstore.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from support.broker_requests import Client, local_metadata
from support.waiting import until

Dir = AlterReplicaLogDirsRequest.Dirs
Topics = DescribeLogDirsRequest.Topics
_WAIT = 30  # seconds, at most


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.fixture
def store(dirs: list[str]) -> Iterator[kstore.Store]:
    with kstore.open(dirs, "a") as store:
        topic = store.create_topic("a", 2)
        store.create_topic("b", 1)
        for number in range(100):
            topic[0].append(value=b"%d" % number)
        yield store


@pytest.fixture
def client(store: kstore.Store) -> Iterator[Client]:
    metadata = local_metadata(store)
    yield Client(LogDirHandlers, metadata=metadata, store=store)
    metadata.close()


Found = dict[tuple[str, int], tuple[str, int, bool]]


def describe(client: Client, version: int = 4, topics: list[Topics] | None = None) -> Found:
    """The directory, size and state of each copy."""
    response = client.ask(DescribeLogDirsRequest(topics), version)
    assert response.error_code == 0
    assert all(each.error_code == 0 for each in response.results)
    return {
        (topic.name, each.partition_index): (
            result.log_dir,
            each.partition_size,
            each.is_future_key,
        )
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }


def move(client: Client, *wanted: tuple[str, str, list[int]], version: int = 2) -> Any:
    asked = AlterReplicaLogDirsRequest(
        [Dir(path, [Dir.Topics(name, numbers)]) for path, name, numbers in wanted]
    )
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in client.ask(asked, version).results
        for each in topic.partitions
    }


def finish_moves() -> None:
    for thread in threading.enumerate():
        if thread.name == "kstore-replica-move":
            thread.join(_WAIT)
            assert not thread.is_alive()


@pytest.mark.parametrize("version", range(5))
def test_log_dirs_are_described_with_their_sizes(
    client: Client, store: kstore.Store, dirs: list[str], version: int
) -> None:
    found = describe(client, version)
    assert found.keys() == {("a", 0), ("a", 1), ("b", 0)}
    for (topic, number), (log_dir, size, is_future) in found.items():
        assert os.path.dirname(store[topic][number].path) == log_dir
        assert size == store[topic][number].size
        assert not is_future
    assert found["a", 0][1] > 1000
    response = client.ask(DescribeLogDirsRequest(None), version)
    assert [each.log_dir for each in response.results] == dirs
    for each in response.results:
        disk = shutil.disk_usage(each.log_dir)
        assert each.total_bytes == (disk.total if version >= 4 else -1)
        assert version < 4 or 0 <= each.usable_bytes <= disk.total


def test_only_what_is_asked(client: Client) -> None:
    assert describe(client, topics=[]) == {}
    assert describe(client, topics=[Topics("a", [])]) == {}
    asked = [Topics("a", [1, 9]), Topics("nope", [0]), Topics("b", [0])]
    assert describe(client, topics=asked).keys() == {("a", 1), ("b", 0)}


@pytest.mark.parametrize("version", range(3))
def test_a_partition_is_moved(
    client: Client, store: kstore.Store, dirs: list[str], version: int
) -> None:
    source = os.path.dirname(store["a"][0].path)
    (target,) = set(dirs) - {source}
    assert move(client, (target, "a", [0, 9]), (target, "nope", [0]), version=version) == {
        ("a", 0): 0,
        ("a", 9): 3,
        ("nope", 0): 3,
    }
    finish_moves()
    assert os.path.dirname(store["a"][0].path) == target
    assert [record.value for record in store["a"][0]][-1] == b"99"
    assert describe(client)["a", 0][0] == target


def test_a_directory_that_is_none_of_the_stores(client: Client, dirs: list[str]) -> None:
    for path in ("/nope", "", dirs[0] + "/"):
        assert move(client, (path, "a", [0])) == {("a", 0): 57}
    assert move(client) == {}


def test_the_last_directory_of_a_request_counts(
    client: Client, store: kstore.Store, dirs: list[str]
) -> None:
    source = os.path.dirname(store["a"][0].path)
    (target,) = set(dirs) - {source}
    assert move(client, (target, "a", [0]), (source, "a", [0])) == {("a", 0): 0}
    finish_moves()
    assert os.path.dirname(store["a"][0].path) == source


def test_a_running_move_is_shown_and_can_be_cancelled(
    client: Client, store: kstore.Store, dirs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move is held where its first bytes are copied; then the client asks for the partition's
    own directory."""
    source = os.path.dirname(store["a"][0].path)
    (target,) = set(dirs) - {source}
    is_copying, may_continue = threading.Event(), threading.Event()
    engine = store._manager.move

    def held_move(topic: str, partition: int, path: str, pace: Any, progress: Any) -> Any:
        def held(done: int, size: int) -> None:
            is_copying.set()
            assert may_continue.wait(_WAIT)
            progress(done, size)

        return engine(topic, partition, path, pace, held)

    monkeypatch.setattr(store._manager, "move", held_move)
    assert move(client, (target, "a", [0])) == {("a", 0): 0}
    assert is_copying.wait(_WAIT)
    response = client.ask(DescribeLogDirsRequest([Topics("a", [0])]), 4)
    copies = {
        each.log_dir: each.topics[0].partitions[0] for each in response.results if each.topics
    }
    assert not copies[source].is_future_key
    future = copies[target]
    assert future.is_future_key
    assert future.offset_lag >= 0
    assert move(client, (source, "a", [0])) == {("a", 0): 0}
    may_continue.set()
    finish_moves()
    assert os.path.dirname(store["a"][0].path) == source
    assert describe(client)["a", 0][0] == source
    assert not any(name.endswith("-future") for name in os.listdir(target))


# --- throttles ------------------------------------------------------------------------------

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def set_rate(client: Client, rate: int | None, *, for_all: bool = False) -> None:
    change = (AlterOp.DELETE, RATE, None) if rate is None else (AlterOp.SET, RATE, str(rate))
    client.metadata.alter_broker_config([change], for_all=for_all)


def other_dir(store: kstore.Store, dirs: list[str], topic: str, number: int = 0) -> str:
    (other,) = set(dirs) - {os.path.dirname(store[topic][number].path)}
    return other


def wait_for_first_bytes(client: Client) -> None:
    """Until a throttled move has copied something: it sleeps then."""
    until(lambda: any(is_future and size for _, size, is_future in copies(client)))


def copies(client: Client) -> list[tuple[str, int, bool]]:
    """The copies of a-0."""
    response = client.ask(DescribeLogDirsRequest([Topics("a", [0])]), 4)
    return [
        (result.log_dir, each.partition_size, each.is_future_key)
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("rate", [0, 1])
@pytest.mark.parametrize("for_all", [False, True])
def test_a_running_move_follows_the_throttle(
    client: Client, store: kstore.Store, dirs: list[str], rate: int, *, for_all: bool
) -> None:
    target = other_dir(store, dirs, "a")
    set_rate(client, rate, for_all=for_all)
    assert move(client, (target, "a", [0])) == {("a", 0): 0}
    wait_for_first_bytes(client)
    assert len(copies(client)) == 2
    set_rate(client, None, for_all=for_all)
    finish_moves()
    assert [(log_dir, is_future) for log_dir, _, is_future in copies(client)] == [(target, False)]


def test_a_throttled_move_can_be_cancelled(
    client: Client, store: kstore.Store, dirs: list[str]
) -> None:
    target = other_dir(store, dirs, "a")
    source = os.path.dirname(store["a"][0].path)
    set_rate(client, 1)
    client = Client(LogDirHandlers, metadata=client.metadata, store=store)  # after a restart
    assert move(client, (target, "a", [0])) == {("a", 0): 0}
    wait_for_first_bytes(client)
    assert move(client, (source, "a", [0])) == {("a", 0): 0}
    finish_moves()
    assert [(log_dir, is_future) for log_dir, _, is_future in copies(client)] == [(source, False)]


def test_the_close_of_the_store_ends_a_throttled_move(
    client: Client, store: kstore.Store, dirs: list[str]
) -> None:
    set_rate(client, 1)
    assert move(client, (other_dir(store, dirs, "a"), "a", [0])) == {("a", 0): 0}
    wait_for_first_bytes(client)
    client.metadata.close()
    store.close()
    finish_moves()


def test_an_interrupted_move_continues_at_the_next_start(
    client: Client, store: kstore.Store, dirs: list[str]
) -> None:
    target = other_dir(store, dirs, "a")
    set_rate(client, 1)
    assert move(client, (target, "a", [0])) == {("a", 0): 0}
    wait_for_first_bytes(client)
    client.metadata.close()
    store.close()
    finish_moves()
    with kstore.open(dirs) as again:
        assert os.path.dirname(again["a"][0].path) != target
        metadata = local_metadata(again)
        client = Client(LogDirHandlers, metadata=metadata, store=again)
        set_rate(client, None)
        finish_moves()
        assert [(log_dir, is_future) for log_dir, _, is_future in copies(client)] == [
            (target, False)
        ]
        assert [record.value for record in again["a"][0]] == [b"%d" % n for n in range(100)]
        metadata.close()


def test_all_moves_together_have_one_rate(
    client: Client, store: kstore.Store, dirs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[tuple[Throttler, int]] = []

    def noted(self: Throttler, size: int, check: object) -> None:
        passed.append((self, size))

    monkeypatch.setattr(Throttler, "passed", noted)
    for number in range(100):
        store["a"][1].append(value=b"%d" % number)
    size = sum(store["a"][number].size for number in range(2))
    for number in range(2):
        assert move(client, (other_dir(store, dirs, "a", number), "a", [number])).popitem()[1] == 0
    finish_moves()
    assert len({throttler for throttler, _ in passed}) == 1
    assert sum(bytes_of_move for _, bytes_of_move in passed) == size
