"""console-producer and console-consumer on a server: records that fail, settings of a member."""

import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main
from kstore.cli.common import WrongOptionsError
from kstore.cli.group_settings import member_options
from kstore.coordinator.group.classic_events import GroupSnapshot
from kstore.coordinator.group.classic_records import decode_group_value
from kstore.coordinator.group.store_group import find_table
from kstore.errors import InvalidConfigError
from kstore.remote import groups
from kstore.remote.membership import Membership
from kstore.remote.store import RemoteStore

Tool = Callable[..., tuple[int, list[str], list[str]]]
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
WAIT = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=SETTINGS) as broker:
        broker.store.create_topic("orders", partitions=2)[0].append(b"v")
        broker.store.create_topic("small", config={"max.message.bytes": 1000})
        yield broker


@pytest.fixture
def tool(broker: Broker, capfd: Any) -> Tool:
    def run(name: str, *words: object) -> tuple[int, list[str], list[str]]:
        capfd.readouterr()
        status = main([name, *map(str, words), "--bootstrap-server", broker.bootstrap_servers])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


# --- console-producer -------------------------------------------------------------------------


def test_a_line_that_is_too_large_does_not_keep_the_others_back(
    tool: Tool, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"one\n" + b"x" * 2000 + b"\nthree\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    status, output, errors = tool("console-producer", "--topic", "small")
    assert (status, output) == (1, [])
    assert [record.value for record in broker.store["small"][0]] == [b"one", b"three"]
    assert "line 2: a record takes 2" in errors[0]
    assert "max.message.bytes (1000)" in errors[0]
    assert errors[0].endswith("; 2 other lines appended")
    assert "file" not in errors[0]


def test_with_sync_a_line_that_fails_is_the_last(
    tool: Tool, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.store.create_topic("synced", config={"max.message.bytes": 1000})
    lines = b"one\n" + b"x" * 2000 + b"\nthree\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    status, _, errors = tool("console-producer", "--topic", "synced", "--sync")
    assert status == 1
    assert [record.value for record in broker.store["synced"][0]] == [b"one"]
    assert "line 2: a record takes 2" in errors[0]
    assert errors[0].endswith("; 1 other line appended")


# --- settings of a group's member -------------------------------------------------------------


def consume(tool: Tool, group: str, *settings: str) -> list[str]:
    """Join, read, and end; returns what was said on standard error besides the count."""
    words = [word for each in settings for word in ("--consumer-property", each)]
    status, _, errors = tool(
        "console-consumer", "--topic", "orders", "--group", group, "--timeout-ms", 300, *words
    )
    assert status == 0, errors
    return [line for line in errors if not line.startswith("Processed a total of")]


def stored(broker: Broker, group: str) -> GroupSnapshot:
    """The group as its last record in the log shows it."""
    with broker.store._offsets_lock:
        table = find_table(broker.store, 0)
        assert table is not None
        return decode_group_value(group, table.group_records()[group], 0)


def members(broker: Broker, group: str) -> groups.GroupDescription:
    with RemoteStore(broker.bootstrap_servers) as store:
        return groups.describe_group(store.cluster, group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_remains_one(tool: Tool, broker: Broker, protocol: str) -> None:
    settings = (f"group.protocol={protocol}", "group.instance.id=one")
    assert consume(tool, f"static-{protocol}", *settings) == []
    found = members(broker, f"static-{protocol}")
    assert [each.instance_id for each in found.members] == ["one"]
    assert (found.epoch is None) == (protocol == "classic")
    assert consume(tool, f"static-{protocol}", *settings) == []  # it is that member again
    assert len(members(broker, f"static-{protocol}").members) == 1
    assert consume(tool, f"dynamic-{protocol}", settings[0]) == []
    assert not members(broker, f"dynamic-{protocol}").members


def test_a_static_member_does_not_leave_at_a_signal(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("group.instance.id=two\ngroup.id=signalled\n")
    words = ["--topic", "orders", "--consumer.config", str(path), "--from-beginning"]
    server = ["--bootstrap-server", broker.bootstrap_servers]
    with subprocess.Popen(
        [sys.executable, "-m", "kstore", "console-consumer", *words, *server],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"v\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 128 + signal.SIGTERM
    assert [each.instance_id for each in members(broker, "signalled").members] == ["two"]


def test_timeouts_and_assignors_are_those_of_the_settings(tool: Tool, broker: Broker) -> None:
    package = "org.apache.kafka.clients.consumer"
    said = consume(
        tool, "set", "group.instance.id=i", "session.timeout.ms=7000",
        "max.poll.interval.ms=90000", "heartbeat.interval.ms=1000",
        f"partition.assignment.strategy={package}.CooperativeStickyAssignor",
    )  # fmt: skip
    assert said == []
    group = stored(broker, "set")
    assert group.protocol == "cooperative-sticky"
    (only,) = group.members
    assert (only.session_timeout_ms, only.rebalance_timeout_ms) == (7000, 90_000)
    consume(tool, "remote", "group.protocol=CONSUMER", "group.remote.assignor=range",
            "group.instance.id=i")  # fmt: skip
    assert members(broker, "remote").assignor == "range"


def test_the_heartbeat_interval_is_that_of_the_member(broker: Broker) -> None:
    with RemoteStore(broker.bootstrap_servers) as store:
        consumer = store.group_consumer("h", lambda: ["orders"], heartbeat_interval_ms=700)
        assert isinstance(consumer._membership, Membership)
        assert consumer._membership._interval == 0.7


def test_settings_that_have_no_effect_are_named(tool: Tool) -> None:
    said = consume(tool, "other", "max.poll.records=5", "fetch.min.bytes=1")
    assert said == [
        "without effect, because kstore's client lacks them: fetch.min.bytes, max.poll.records"
    ]
    said = consume(tool, "kip848", "group.protocol=consumer", "session.timeout.ms=9000")
    assert said == ["without effect, because group.protocol is consumer: session.timeout.ms"]
    words = ("--topic", "orders", "--timeout-ms", 1, "--consumer-property", "group.instance.id=a")
    errors = tool("console-consumer", *words)[2]
    assert errors[0] == "without effect, because there is no --group: group.instance.id"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"group.protocol": "other"}, "Invalid value other for configuration group.protocol"),
        ({"group.remote.assignor": "range"},
         "group.remote.assignor cannot be set when group.protocol=CLASSIC"),
        ({"session.timeout.ms": "3000"}, "Heartbeat must be set lower than the session timeout"),
        ({"partition.assignment.strategy": "nope.Nope"}, "kstore runs no Java classes"),
    ],
)  # fmt: skip
def test_settings_that_kafkas_consumer_refuses(settings: dict[str, str], text: str) -> None:
    with pytest.raises(WrongOptionsError, match=text):
        member_options(settings)


def test_a_number_is_one(tool: Tool) -> None:
    with pytest.raises(InvalidConfigError, match=r"session\.timeout\.ms"):
        member_options({"session.timeout.ms": "x"})
    words = ("--group", "g", "--consumer-property", "session.timeout.ms=x")
    assert tool("console-consumer", "--topic", "orders", *words)[0] == 1
