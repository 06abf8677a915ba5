"""consumer-groups and console-consumer --group on a server: tables, texts and rules as in Kafka."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main, server_groups
from kstore.protocol.api_keys import ApiKey
from kstore.remote import groups
from kstore.remote.group_consumer import GroupConsumer
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition
from support.falling_silent import falling_silent

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
OFFSETS_HEADER = [
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
    "HOST", "CLIENT-ID",
]  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """orders-0 has offsets 2 to 9, orders-1 three records, logs-0 one."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        orders = broker.store.create_topic("orders", partitions=2)
        for number in range(10):
            orders[0].append(b"%d" % number, timestamp=1_700_000_000_000 + 1000 * number)
        orders[0].delete_records(2)
        for number in range(3):
            orders[1].append(b"other %d" % number)
        broker.store.create_topic("logs")[0].append(b"v")
        yield broker


@pytest.fixture
def store(broker: Broker) -> Iterator[RemoteStore]:
    with RemoteStore(broker.bootstrap_servers, client_id="test") as store:
        yield store


@pytest.fixture
def group(store: RemoteStore, request: pytest.FixtureRequest) -> Iterator[str]:
    """A group of its own for each test, that committed 5 in orders-0 and 0 in logs."""
    name = request.node.name.partition("[")[0]
    groups.commit_offsets(store.cluster, name, {ORDERS[0]: 5, TopicPartition("logs", 0): 0})
    yield name
    if any(each.group_id == name for each in groups.list_groups(store.cluster)):
        groups.delete_group(store.cluster, name)


@pytest.fixture
def tool(broker: Broker, capfd: Any) -> Tool:
    def run(name: str, *words: object) -> Outcome:
        capfd.readouterr()
        status = main([name, *map(str, words), "--bootstrap-server", broker.bootstrap_servers])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def committed(store: RemoteStore, group: str) -> dict[tuple[str, int], int]:
    found = groups.committed_offsets(store.cluster, group)
    return {(tp.topic, tp.partition): each.offset for tp, each in found.items()}


def member(store: RemoteStore, group: str, *topics: str) -> GroupConsumer:
    return store.group_consumer(group, lambda: topics, auto_offset_reset="earliest")


# --- timeouts ---------------------------------------------------------------------------------


def test_the_timeout_is_kafkas(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = server_groups.open_server

    def note(*words: Any, **options: Any) -> RemoteStore:
        seen.append(options["timeout_ms"])
        return original(*words, **options)

    monkeypatch.setattr(server_groups, "open_server", note)
    assert tool("consumer-groups", "--list")[0] == 0
    assert tool("consumer-groups", "--list", "--timeout", 9000)[0] == 0
    assert seen == [5000, 9000]


TIMES = "deadlineMs=0, tries=1, nextAllowedTryMs=0) timed out at 0 after 1 attempt(s)"
CALLS = {
    "LIST_GROUPS": "listConsumerGroups",
    "OFFSET_FETCH": "offsetFetch(api=OFFSET_FETCH)",
    "OFFSET_COMMIT": "offsetCommit(api=OFFSET_COMMIT)",
    "LIST_OFFSETS": "listOffsets(api=LIST_OFFSETS)",
}
WRAPPED = "java.util.concurrent.ExecutionException: "
FAILED = "Error: Executing consumer group command failed due to "
TIMED_OUT = (
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
)
NO_BROKERS = "org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups"
DESCRIBE = f"{TIMED_OUT} Call: describeConsumerGroups(api=FIND_COORDINATOR)"
DELETE = f"{TIMED_OUT} Call: deleteConsumerGroups(api=FIND_COORDINATOR)"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("--list", [f"{FAILED}{WRAPPED}{NO_BROKERS}"]),
        ("--describe --group g --state", [f"{FAILED}{DESCRIBE}"]),
        ("--delete --all-groups", [f"{FAILED}{WRAPPED}{NO_BROKERS}"]),
        (
            "--delete --group g",
            [
                "Error: Deletion of some consumer groups failed:",
                f"* Group 'g' could not be deleted due to: {WRAPPED}{DELETE}",
            ],
        ),
        (
            "--delete-offsets --group g --topic t",
            ["Error: Encounter some unknown error: REQUEST_TIMED_OUT"],
        ),
        (
            "--reset-offsets --group g --topic t --to-latest --execute",
            [f"{FAILED}{WRAPPED}{DESCRIBE}"],
        ),
    ],
)
def test_a_server_that_does_not_answer(
    words: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        at = ("--bootstrap-server", server, "--timeout", "100")
        assert main(["consumer-groups", *words.split(), *at]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["", *lines]
    assert err == f"kstore consumer-groups: no response from {server} within 0.1 s\n"


LATE = f"org.apache.kafka.common.errors.TimeoutException: Call(callName=NAME, {TIMES}"


# Requests whose failure is in a row for each group or partition.
OF_ROWS = {"DELETE_GROUPS": "deleteConsumerGroups", "OFFSET_DELETE": "offsetDelete"}
DELETIONS = "Error: Deletion of some consumer groups failed:"
UNKNOWN = "Error: Encounter some unknown error: REQUEST_TIMED_OUT"


@pytest.mark.parametrize(
    ("words", "api", "line"),
    [
        ("--list", "LIST_GROUPS", f"{FAILED}{WRAPPED}{LATE}"),
        ("--list --state", "LIST_GROUPS", f"{FAILED}{LATE}"),
        ("--describe --all-groups", "LIST_GROUPS", f"{FAILED}{WRAPPED}{LATE}"),
        ("--describe --group GROUP", "FIND_COORDINATOR", f"{FAILED}{LATE}"),
        ("--describe --group GROUP", "CONSUMER_GROUP_DESCRIBE", f"{FAILED}{LATE}"),
        ("--describe --group GROUP", "DESCRIBE_GROUPS", f"{FAILED}{LATE}"),
        ("--describe --group GROUP", "OFFSET_FETCH", f"{FAILED}{WRAPPED}{LATE}"),
        ("--describe --group GROUP", "LIST_OFFSETS", f"{FAILED}{WRAPPED}{LATE}"),
        ("--delete --group GROUP", "DELETE_GROUPS", DELETIONS),
        ("--delete-offsets --group GROUP --topic orders:0", "OFFSET_DELETE", UNKNOWN),
        (
            "--reset-offsets --group GROUP --topic orders:0 --to-offset 3 --execute",
            "OFFSET_COMMIT",
            f"{FAILED}{WRAPPED}{LATE}",
        ),
    ],
)
def test_a_server_that_stops_answering(
    broker: Broker,
    group: str,
    words: str,
    api: str,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As Kafka's tool says it, with the name that its Admin client has for the request."""
    with falling_silent(broker.bootstrap_servers, ApiKey[api]) as server:
        at = ("--bootstrap-server", server, "--timeout", "300")
        capsys.readouterr()
        status = main(["consumer-groups", *words.replace("GROUP", group).split(), *at])
    assert status == 1  # Kafka's tool: 0
    out, err = capsys.readouterr()
    assert err.endswith(f"kstore consumer-groups: no response from {server} within 0.3 s\n")
    line = line.replace("NAME", CALLS.get(api, f"describeConsumerGroups(api={api})"))
    if api == "LIST_GROUPS":
        where = f"Error listing groups on {server} (id: 0 rack: null): "
        line = line.replace("Call(", f"{where}Call(")
    elif api == "DESCRIBE_GROUPS":  # the second request for a group, after another one
        line = line.replace("tries=1", "tries=2").replace("1 attempt", "2 attempt")
    assert re.sub(r"\d{13}", "0", out).splitlines()[:2] == ["", line]
    if api in OF_ROWS:
        assert f"TimeoutException: Call(callName={OF_ROWS[api]}(api={api}), deadlineMs=" in out


# --- list, describe ---------------------------------------------------------------------------


def test_list_selects_groups_by_state_and_type(tool: Tool, group: str) -> None:
    assert tool("consumer-groups", "--list") == (0, [group], [])
    status, lines, _ = tool("consumer-groups", "--list", "--state", "--type")
    assert status == 0
    assert [line.split() for line in lines] == [
        ["GROUP", "TYPE", "STATE"],
        [group, "Classic", "Empty"],
    ]
    assert tool("consumer-groups", "--list", "--state", "stable")[1] == [
        f"{'GROUP':<25} {'STATE':<20}"
    ]
    assert len(tool("consumer-groups", "--list", "--type", "classic")[1]) == 2
    assert len(tool("consumer-groups", "--list", "--type", "consumer")[1]) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--state", "tired"], "Invalid state list 'tired'. Valid states are: Assigning, "),
        (["--type", "small"], "Invalid types list 'small'. Valid types are: Classic, Consumer"),
        (["--verbose"], "Option(s) [verbose] are unavailable"),
    ],
)
def test_unknown_states_and_types_are_refused(tool: Tool, words: list[str], text: str) -> None:
    status, lines, errors = tool("consumer-groups", "--list", *words)
    assert (status, lines) == (1, [])
    assert text in errors[0]


def test_describe_of_a_group_without_members_says_so(tool: Tool, group: str) -> None:
    status, lines, errors = tool("consumer-groups", "--describe", "--group", group)
    assert (status, errors) == (0, ["", f"Consumer group '{group}' has no active members."])
    assert [line.split() for line in lines] == [
        [],
        OFFSETS_HEADER,
        [group, "logs", "0", "0", "1", "1", "-", "-", "-"],
        [group, "orders", "0", "5", "10", "5", "-", "-", "-"],
    ]
    _, lines, _ = tool("consumer-groups", "--describe", "--group", group, "--verbose")
    assert [line.split() for line in lines[1:]] == [
        [*OFFSETS_HEADER[:3], "LEADER-EPOCH", *OFFSETS_HEADER[3:]],
        [group, "logs", "0", "-", "0", "1", "1", "-", "-", "-"],
        [group, "orders", "0", "-", "5", "10", "5", "-", "-", "-"],
    ]
    _, lines, _ = tool("consumer-groups", "--describe", "--all-groups", "--state")
    name, _, _, state, members = lines[2].split()
    assert (name, state, members) == (group, "Empty", "0")


@pytest.mark.parametrize("what", [[], ["--state"]])
def test_describe_a_group_that_does_not_exist(tool: Tool, what: list[str]) -> None:
    assert tool("consumer-groups", "--describe", "--group", "nope", *what) == (
        0,
        ["", "Error: Consumer group 'nope' does not exist."],
        [],
    )


def test_describe_shows_members_offsets_and_lag(tool: Tool, store: RemoteStore, group: str) -> None:
    with member(store, group, "orders") as consumer:
        for _ in consumer.batches(0.1):
            pass
        assert set(consumer.assignment) == set(ORDERS)
        status, lines, errors = tool("consumer-groups", "--describe", "--group", group)
        assert (status, errors) == (0, [])
        rows = [line.split() for line in lines[2:]]
        assert [row[:6] for row in rows] == [
            [group, "orders", "0", "5", "10", "5"],
            [group, "orders", "1", "-", "3", "-"],
            [group, "logs", "0", "0", "1", "1"],
        ]
        assert rows[0][6].startswith("test-")
        assert rows[0][7:] == ["/127.0.0.1", "test"]
        assert rows[2][6:] == ["-", "-", "-"]
        words = ("--describe", "--group", group, "--members")
        assert tool("consumer-groups", *words)[1][2].split()[2:] == ["/127.0.0.1", "test", "2"]
        verbose = tool("consumer-groups", *words, "--verbose")[1]
        assert verbose[1].split()[-1] == "ASSIGNMENT"
        assert verbose[2].split()[-1] == "orders(0,1)"
        _, lines, _ = tool("consumer-groups", "--describe", "--group", group, "--state")
        assert lines[2].split()[-3:] == ["range", "Stable", "1"]
        words = ("--reset-offsets", "--group", group, "--topic", "orders", "--to-earliest")
        assert tool("consumer-groups", *words, "--execute")[1][1] == (
            f"Error: Assignments can only be reset if the group '{group}' is inactive, but the "
            "current state is Stable."
        )
        lines = tool("consumer-groups", "--delete", "--group", group)[1]
        assert lines[1:] == [
            "Error: Deletion of some consumer groups failed:",
            f"* Group '{group}' could not be deleted due to: "
            "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.",
        ]
        words = ("--delete-offsets", "--group", group, "--topic", "orders:0")
        lines = tool("consumer-groups", *words)[1]
        assert lines[1].startswith("Error: Encounter some partition level error")
        assert "GroupSubscribedToTopicException" in lines[-1]
    assert committed(store, group)["orders", 0] == 5


# --- reset-offsets, delete --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--topic", "orders", "--to-earliest"], {("orders", 0): 2, ("orders", 1): 0}),
        (["--topic", "orders", "--to-latest"], {("orders", 0): 10, ("orders", 1): 3}),
        (["--topic", "orders", "--to-current"], {("orders", 0): 5, ("orders", 1): 3}),
        (["--topic", "orders:0", "--to-offset", "7"], {("orders", 0): 7}),
        (["--topic", "orders:0", "--to-offset", "99"], {("orders", 0): 10}),
        (["--topic", "orders:0", "--shift-by", "-4"], {("orders", 0): 2}),
        (["--all-topics", "--shift-by", "1"], {("orders", 0): 6, ("logs", 0): 1}),
        (["--topic", "orders:0", "--to-datetime", "2023-11-14T22:13:26.000"], {("orders", 0): 6}),
        (["--topic", "orders", "--by-duration", "P1D"], {("orders", 0): 10, ("orders", 1): 0}),
    ],
)
def test_reset_options_move_the_committed_offsets(
    tool: Tool,
    store: RemoteStore,
    group: str,
    words: list[str],
    expected: dict[tuple[str, int], int],
) -> None:
    before = committed(store, group)
    asked = ("--reset-offsets", "--group", group, *words)
    status, lines, errors = tool("consumer-groups", *asked)
    assert (status, lines[0]) == (0, "")
    assert any(line.startswith("WARN: No action will be performed") for line in errors)
    rows = [line.split() for line in lines[2:]]
    assert {(row[1], int(row[2])): int(row[3]) for row in rows} == expected
    assert committed(store, group) == before
    assert tool("consumer-groups", *asked, "--execute")[0] == 0
    assert committed(store, group) == {**before, **expected}


def test_offsets_are_reset_to_those_of_a_file(
    tool: Tool, store: RemoteStore, group: str, tmp_path: Path
) -> None:
    asked = ("--reset-offsets", "--group", group, "--all-topics", "--to-current", "--dry-run")
    lines = tool("consumer-groups", *asked, "--export")[1]
    assert lines == ["logs,0,0", "orders,0,5", ""]
    path = tmp_path / "offsets.csv"
    path.write_text("orders,0,4\norders,1,1\n")
    asked = ("--reset-offsets", "--group", group, "--from-file", path, "--execute")
    assert tool("consumer-groups", *asked)[0] == 0
    assert committed(store, group) == {("logs", 0): 0, ("orders", 0): 4, ("orders", 1): 1}
    path.write_text("another,orders,0,4\n")
    assert tool("consumer-groups", *asked)[1] == [
        "",
        f"Error: No reset plan for group {group} found",
        "",
        f"{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}",
    ]


def test_a_shift_without_an_offset_changes_nothing(
    tool: Tool, store: RemoteStore, group: str
) -> None:
    asked = ("--reset-offsets", "--group", group, "--topic", "orders", "--shift-by", 1)
    status, _, errors = tool("consumer-groups", *asked, "--execute")
    assert status == 1
    assert "Cannot shift offset for partition orders-1 since there is no current" in errors[-1]
    assert committed(store, group)["orders", 0] == 5


def test_delete_offsets_of_a_server_prints_kafkas_table(
    tool: Tool, store: RemoteStore, group: str
) -> None:
    asked = ("--delete-offsets", "--group", group, "--topic")
    status, lines, _ = tool("consumer-groups", *asked, "orders")
    assert status == 0
    assert lines[0] == f"Request succeed for deleting offsets with topic orders group {group}"
    assert [line.split() for line in lines[2:]] == [
        ["TOPIC", "PARTITION", "STATUS"],
        ["orders", "0", "Successful"],
        ["orders", "1", "Successful"],
    ]
    assert committed(store, group) == {("logs", 0): 0}
    lines = tool("consumer-groups", *asked, "nope")[1]
    assert lines[0].startswith("Request succeed")
    assert "Not Provided" in lines[-1]
    assert "UnknownTopicOrPartitionException" in lines[-1]
    lines = tool("consumer-groups", "--delete-offsets", "--group", "no", "--topic", "orders")[1]
    assert lines[1] == "Error: 'no' does not exist."


def test_delete_names_deleted_and_missing_groups(
    tool: Tool, store: RemoteStore, group: str
) -> None:
    assert tool("consumer-groups", "--delete", "--group", group, "--group", "no")[1] == [
        "",
        "Error: Deletion of some consumer groups failed:",
        "* Group 'no' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.",
        "",
        f"These consumer groups were deleted successfully: '{group}'",
    ]
    groups.commit_offsets(store.cluster, group, {ORDERS[0]: 5})
    assert tool("consumer-groups", "--delete", "--group", group)[1] == [
        f"Deletion of requested consumer groups ('{group}') was successful."
    ]
    assert committed(store, group) == {}


# --- console-consumer --group -----------------------------------------------------------------


def consume(tool: Tool, group: str, *words: object) -> list[str]:
    status, lines, errors = tool(
        "console-consumer", "--group", group, "--from-beginning", "--timeout-ms", 500, *words
    )
    assert status == 0, errors
    return lines


def test_a_group_continues_at_its_committed_offsets(
    tool: Tool, store: RemoteStore, group: str
) -> None:
    lines = consume(tool, group, "--topic", "orders")
    assert sorted(lines) == ["5", "6", "7", "8", "9", "other 0", "other 1", "other 2"]
    assert consume(tool, group, "--topic", "orders") == []
    assert committed(store, group) == {("logs", 0): 0, ("orders", 0): 10, ("orders", 1): 3}
    assert groups.describe_group(store.cluster, group).members == ()  # it left


def test_only_what_was_printed_is_committed(tool: Tool, store: RemoteStore, group: str) -> None:
    first = consume(tool, group, "--topic", "orders", "--max-messages", 3)
    rest = consume(tool, group, "--topic", "orders")
    assert len(first) == 3
    assert sorted(first + rest) == ["5", "6", "7", "8", "9", "other 0", "other 1", "other 2"]


def test_topics_of_a_pattern_are_read_without_a_commit(
    tool: Tool, store: RemoteStore, group: str
) -> None:
    words = ("--include", "or.*|logs", "--command-property", "enable.auto.commit=false")
    before = committed(store, group)
    assert len(consume(tool, group, *words)) == 9
    assert committed(store, group) == before


@pytest.mark.filterwarnings("default::UserWarning")  # the tool prints it
def test_an_offset_outside_the_log_is_reported(tool: Tool, store: RemoteStore, group: str) -> None:
    groups.commit_offsets(store.cluster, group, {ORDERS[0]: 1})
    status, lines, errors = tool(
        "console-consumer", "--group", group, "--from-beginning", "--timeout-ms", 500,
        "--topic", "orders", "--max-messages", 11,
    )  # fmt: skip
    assert status == 0
    assert len(lines) == 11
    assert any("the committed offset 1 of orders-0 is outside the log" in each for each in errors)


def test_members_share_partitions_and_take_over(broker: Broker, group: str) -> None:
    """Two members have a partition each; when one leaves, the other has both, and reads on."""
    seen: list[tuple[int, int]] = []
    with ExitStack() as stack:
        stores = [stack.enter_context(RemoteStore(broker.bootstrap_servers)) for _ in range(2)]
        first, second = (member(store, group, "orders") for store in stores)
        stop, is_shared = threading.Event(), threading.Event()

        def read() -> None:
            while not stop.is_set():
                for batch in first.batches(0.05):
                    seen.extend((batch.partition, record.offset) for record in batch)
                    first.commit({(batch.topic, batch.partition): batch.stop_offset})
                if len(first.assignment) == 1:
                    is_shared.set()
                first._membership._next_heartbeat = 0.0  # without waiting three seconds

        thread = threading.Thread(target=read)
        thread.start()
        try:
            until = time.monotonic() + 30
            while not is_shared.is_set() and time.monotonic() < until:
                for _ in second.batches(0.05):
                    pass
            assert is_shared.is_set()
            assert len(second.assignment) == 1
            second.close()
            while len(first.assignment) < 2 and time.monotonic() < until:
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join(30)
        assert set(first.assignment) == set(ORDERS)
        first.close()
        assert committed(stores[0], group)["orders", 0] == 10
    assert {offset for partition, offset in seen if partition == 0} == set(range(5, 10))


def test_from_time_and_a_group_exclude_each_other(tool: Tool) -> None:
    words = ("--topic", "orders", "--group", "g", "--from-time", "2024-01-01")
    status, _, errors = tool("console-consumer", *words)
    assert status == 1
    assert "--reset-offsets --to-datetime" in errors[0]
