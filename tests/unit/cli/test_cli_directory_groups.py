"""consumer-groups on a directory that a broker serves: members and states are in its log."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.broker import Broker
from kstore.cli import directory_groups, main
from kstore.coordinator.group.classic_events import GroupSnapshot, MemberSnapshot
from kstore.coordinator.group.classic_records import encode_group_value
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.coordinator.group.store_group import find_table
from kstore.coordinator.group.stored_groups import read_stored_groups
from kstore.partition_files import LockHolder
from kstore.remote.group_consumer import GroupConsumer
from kstore.remote.store import RemoteStore
from support.waiting import until

PROTOCOLS = ["classic", "consumer"]
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


class Served:
    """A broker of this process, its directory, and the tool on both."""

    def __init__(self, broker: Broker, data: Path, capfd: Any) -> None:
        self.broker = broker
        self.data = data
        self._capfd = capfd

    def directory(self, *words: object) -> tuple[int, str, str]:
        return self._run(*words, "--log-dir", self.data)

    def server(self, *words: object) -> tuple[int, str, str]:
        return self._run(*words, "--bootstrap-server", self.broker.bootstrap_servers)

    def _run(self, *words: object) -> tuple[int, str, str]:
        self._capfd.readouterr()
        status = main(["consumer-groups", *map(str, words)])
        return status, *self._capfd.readouterr()


@pytest.fixture
def served(tmp_path: Path, capfd: Any) -> Iterator[Served]:
    """orders has three records in each of two partitions, logs one."""
    data = tmp_path / "data"
    with kstore.open(data) as store, Broker(store, port=0, settings=SETTINGS) as broker:
        for log in store.create_topic("orders", partitions=2):
            log.extend([b"a", b"b", b"c"])
        store.create_topic("logs")[0].append(b"v")
        yield Served(broker, data, capfd)


@contextmanager
def member(
    broker: Broker, protocol: str, group: str = "g", topics: tuple[str, ...] = ("orders",)
) -> Iterator[GroupConsumer]:
    """A static member that has read and committed orders-0, and does not leave at the end."""
    with RemoteStore(broker.bootstrap_servers, client_id="reader") as store:
        consumer = store.group_consumer(
            group,
            lambda: topics,
            auto_offset_reset="earliest",
            group_protocol=protocol,
            group_instance_id="one",
        )

        def has_all() -> bool:
            for _ in consumer.batches(0.05):
                pass
            return len(consumer.assignment) == 2

        until(has_all)
        assert consumer.commit_sync({("orders", 0): 3})
        yield consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_and_states_are_those_of_the_server(served: Served, protocol: str) -> None:
    with member(served.broker, protocol):
        for words in ([], ["--verbose"], ["--members"], ["--members", "--verbose"]):
            described = ("--describe", "--group", "g", *words)
            assert served.directory(*described) == served.server(*described)
        members = served.directory("--describe", "--group", "g", "--members")[1]
        assert "GROUP-INSTANCE-ID" in members
        offsets = served.directory("--describe", "--group", "g")[1].splitlines()
        assert [line.split()[1:6] for line in offsets[2:]] == [
            ["orders", "0", "3", "3", "0"],
            ["orders", "1", "-", "3", "-"],
        ]
        for words in ([], ["--verbose"]):
            described = ("--describe", "--group", "g", "--state", *words)
            status, ours, errors = served.directory(*described)
            theirs = served.server(*described)[1].split()
            assert (status, errors) == (0, "")
            # A directory has no address: the coordinator's column is empty.
            coordinator = (served.broker.bootstrap_servers, "(0)")
            without = [word for word in theirs if word not in coordinator]
            assert [word for word in ours.split() if word != "-"] == without
            assert "Stable" in without
        for words in (["--type"], ["--state"], ["--type", "--state"], ["--type", protocol],
                      ["--state", "stable"], ["--state", "empty"]):  # fmt: skip
            assert served.directory("--list", *words) == served.server("--list", *words)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_a_group_with_members_are_not_reset(served: Served, protocol: str) -> None:
    reset = ("--reset-offsets", "--group", "g", "--topic", "orders", "--to-earliest", "--dry-run")
    with member(served.broker, protocol):
        status, output, _ = served.directory(*reset)
        assert status == 1
        assert "if the group 'g' is inactive, but the current state is Stable." in output


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_its_broker_a_group_has_no_members(served: Served, protocol: str) -> None:
    with member(served.broker, protocol):
        # First the directory is still open, but by a program that is no broker.
        for close in (served.broker.close, served.broker.store.close):
            close()
            with kstore.open(served.data, "r") as store:
                assert read_stored_groups(store)["g"].members  # in the log nevertheless
            status, output, errors = served.directory("--describe", "--group", "g", "--state")
            assert status == 0
            assert output.split()[-2:] == ["Empty", "0"]
            assert "Consumer group 'g' has no active members." in errors
            assert protocol.title() in served.directory("--list", "--type")[1]


def test_a_broker_of_kafka_is_recognized(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is that of a Java program; see also the interop tests."""
    with member(served.broker, "classic"):
        monkeypatch.setattr(directory_groups, "read_broker_addresses", lambda *_: ())
        assert "Empty" in served.directory("--describe", "--group", "g", "--state")[1]
        holders = [LockHolder(7, "/usr/bin/java -Xmx1G kafka.Kafka server.properties")]
        monkeypatch.setattr(directory_groups, "lock_holders", lambda _: holders)
        assert "Stable" in served.directory("--describe", "--group", "g", "--state")[1]


def test_embedded_consumers_are_shown_beside_members(served: Served) -> None:
    with (
        member(served.broker, "classic"),
        kstore.open(served.data, "r") as reader,
        reader.consumer(group="g", assignment=[("logs", 0)]),
    ):
        lines = served.directory("--describe", "--group", "g")[1].splitlines()
        rows = [line.split() for line in lines[2:]]
        assert [row[1:3] for row in rows] == [["orders", "0"], ["orders", "1"], ["logs", "0"]]
        assert rows[0][8] == "reader"
        assert rows[2][6:] == ["-", "-", "-"]


def test_a_topic_that_was_deleted_is_not_assigned(served: Served) -> None:
    with member(served.broker, "consumer", topics=("orders",)):
        served.broker.store.delete_topic("orders")
        members = served.directory("--describe", "--group", "g", "--members")[1]
        assert members.split()[-1] == "0"


def test_groups_of_other_kinds_have_members_without_partitions(served: Served) -> None:
    one = MemberSnapshot("m", None, "c", "/h", 10_000, 10_000, b"", b"\x00\x01\x00\x00")
    connect = GroupSnapshot("g", "connect", 1, "sessioned", "m", 0.0, (one,))
    store = served.broker.store
    with member(served.broker, "classic", "another"):
        pass  # which creates the topic
    with store._offsets_lock:
        table = find_table(store, 0)
        assert table is not None
        table.append_group("g", encode_group_value(connect, time.time_ns() // 1_000_000))
    output = served.directory("--describe", "--group", "g", "--members")[1].splitlines()
    assert output[2].split() == ["g", "m", "/h", "c", "0"]


def test_a_group_whose_record_does_not_decode_has_no_members(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    store = served.broker.store
    with ExitStack() as stack:
        stack.enter_context(member(served.broker, "classic", "good"))
        assert OFFSETS_TOPIC in store
        with store._offsets_lock:
            table = find_table(store, 0)
            assert table is not None
            table.append_group("bad", b"\x00\x63")
        with caplog.at_level(logging.WARNING, "kstore"):
            listed = served.directory("--list", "--state")[1].splitlines()
        assert [line.split() for line in listed[1:]] == [["bad", "Empty"], ["good", "Stable"]]
        assert "group bad: its members cannot be read" in caplog.text
