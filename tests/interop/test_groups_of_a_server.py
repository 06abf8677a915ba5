"""kstore consumer-groups and Kafka's ConsumerGroupCommand say the same, on Kafka and on kstore.

The texts are compared word by word: Kafka 3.9's tool forgets line ends in two of its tables, and
the topic's name in an assignment.
"""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import java_command, libs, run
from interop.kstore_node import KstoreNode, kstore_node
from interop.node import Node, die_with_parent, node

VERSION = "3.9.2"
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
Served = Node | KstoreNode


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """orders has three partitions of ten records each."""
    libs(VERSION)
    root = tmp_path_factory.mktemp("served")
    running: contextlib.AbstractContextManager[Served] = (
        kstore_node(root, group_initial_rebalance_delay_ms=0)
        if request.param == "kstore"
        else node(VERSION, root, group_coordinator_rebalance_protocols="classic,consumer")
    )
    with running as broker:
        ours(broker, "topics", "--create", "--topic", "orders", "--partitions", 3)
        # Keys whose murmur2 spreads them: every partition has records.
        lines = "".join(f"k{number}\tv{number}\n" for number in range(30))
        ours(
            broker, "console-producer", "--topic", "orders", "--reader-property",
            "parse.key=true", text=lines,
        )  # fmt: skip
        yield broker


def ours(served: Served, tool: str, *words: object, text: str = "") -> str:
    """What kstore's tool prints on standard output; its status must be 0."""
    patience = ("--timeout", 60_000) if tool == "consumer-groups" else ()  # as in theirs()
    done = subprocess.run(
        [sys.executable, "-m", "kstore", tool, *map(str, (*words, *patience)), *_server(served)],
        input=text.encode(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def theirs(served: Served, *words: object) -> str:
    patience = ("--timeout", 60_000)  # its five seconds are too few on a busy machine
    return run(VERSION, COMMAND, *words, *patience, *_server(served)).stdout.decode()


def _server(served: Served) -> tuple[str, str]:
    return "--bootstrap-server", served.address


def of_directory(served: Served, *words: object) -> list[str]:
    """The words of what kstore's tool prints of the broker's directory, without its status."""
    words = ("consumer-groups", *words, "--log-dir", served.log_dir)
    done = subprocess.run(
        [sys.executable, "-m", "kstore", *map(str, words)], capture_output=True, timeout=120
    )
    return words_of(done.stdout.decode())


def words_of(text: str) -> list[str]:
    """The words of an output; assignments without topics, errors without Java's wrapper."""
    text = text.replace("java.util.concurrent.ExecutionException: ", "")
    text = re.sub(r"(?<= )orders\(", "(", text)
    # Kafka 3.9 writes a table's rows one after the other; a topic then follows a status.
    return re.sub(r"(Successful|topic-partition\.|exist\.)(?=orders|nope)", r"\1 ", text).split()


def assert_same(served: Served, *words: object) -> list[str]:
    found = words_of(ours(served, "consumer-groups", *words))
    assert found == words_of(theirs(served, *words))
    return found


@contextlib.contextmanager
def consuming(served: Served, group: str) -> Iterator[None]:
    """kstore's console consumer and Kafka's in one group."""
    words = ["--topic", "orders", "--group", group, "--from-beginning", *_server(served)]
    commands = (
        [sys.executable, "-m", "kstore", "console-consumer", *words],
        java_command(VERSION, CONSUMER, *words),
    )
    with contextlib.ExitStack() as stack:
        members = []
        for command in commands:
            member = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    preexec_fn=die_with_parent,
                )
            )
            stack.callback(member.kill)
            members.append(member)
        until = time.monotonic() + 60
        state = ""
        while time.monotonic() < until and state[-2:] != ["Stable", "2"]:
            state = ours(
                served, "consumer-groups", "--describe", "--group", group, "--state"
            ).split()
        assert state[-2:] == ["Stable", "2"]
        yield
        for member in members:
            member.send_signal(signal.SIGTERM)
        outputs = [member.communicate(timeout=60) for member in members]
    read = [line for output, _ in outputs for line in output.decode().splitlines()]
    assert set(read) == {f"v{number}" for number in range(30)}
    assert members[0].returncode == 128 + signal.SIGTERM


def test_members_of_both_kinds(served: Served) -> None:
    with consuming(served, "both"):
        time.sleep(6)  # Kafka's consumer commits every five seconds, and then the rows stay equal
        asked = ("--describe", "--group", "both")
        rows = assert_same(served, *asked)
        assert rows.count("/127.0.0.1") == 3
        assert of_directory(served, *asked) == rows
        found = assert_same(served, *asked, "--state")
        at = found.index(served.address)
        assert of_directory(served, *asked, "--state") == [*found[:at], "-", *found[at + 2 :]]
        found = assert_same(served, *asked, "--members", "--verbose")
        assert found.count("console-consumer") == 2
        assert of_directory(served, *asked, "--members", "--verbose") == found
        selected = ("--list", "--state", "stable", "--type")
        listed = assert_same(served, *selected)
        assert listed == ["GROUP", "TYPE", "STATE", "both", "Classic", "Stable"]
        assert of_directory(served, *selected) == listed
        reset = ("--reset-offsets", "--group", "both", "--topic", "orders", "--to-earliest")
        assert "inactive," in assert_same(served, *reset, "--execute")
        assert "GroupNotEmptyException:" in " ".join(assert_same(served, "--delete", *asked[1:]))
        assert_same(served, "--delete-offsets", "--group", "both", "--topic", "orders:1")
    # Both left: the group is empty, and everything is committed.
    rows = assert_same(served, "--describe", "--group", "both")
    assert rows.count("0") == 1 + 3  # partition 0 and three lags


def test_a_static_member_stays_when_a_tool_ends(served: Served) -> None:
    words = ["--topic", "orders", "--from-beginning", *_server(served)]
    for setting in ("group.instance.id=one", "session.timeout.ms=60000"):
        words += ["--consumer-property", setting]
    kip848 = ["--consumer-property", "group.protocol=consumer"]
    for group, command in (
        ("static", [sys.executable, "-m", "kstore", "console-consumer", *words]),
        ("java", java_command(VERSION, CONSUMER, *words)),
        ("kip848", [sys.executable, "-m", "kstore", "console-consumer", *words, *kip848]),
    ):
        with subprocess.Popen(
            [*command, "--group", group], stdout=subprocess.PIPE, preexec_fn=die_with_parent
        ) as member:
            assert member.stdout is not None
            assert member.stdout.readline().startswith(b"v")
            member.send_signal(signal.SIGTERM)
            member.communicate(timeout=60)
        asked = ("--describe", "--group", group, "--members")
        found = assert_same(served, *asked)
        assert "one" in found
        assert found[-1] == "3"
        assert of_directory(served, *asked) == found
        # Kafka 3.9 shows no epochs.
        found = words_of(ours(served, "consumer-groups", *asked, "--verbose"))
        assert of_directory(served, *asked, "--verbose") == found


@pytest.mark.parametrize(
    "strategy",
    [
        ("--topic", "orders", "--to-earliest"),
        ("--topic", "orders:0,2", "--to-latest"),
        ("--topic", "orders", "--to-current"),
        ("--topic", "orders:1", "--to-offset", 3),
        ("--topic", "orders", "--to-offset", 1000),
        ("--all-topics", "--shift-by", -2),
        ("--topic", "orders", "--to-datetime", "2020-01-31T10:00:00.000"),
        ("--topic", "orders", "--by-duration", "PT1H"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_reset_offsets_sets_what_kafkas_tool_sets(
    served: Served, strategy: tuple[object, ...]
) -> None:
    start = ("--reset-offsets", "--group", "resets", "--topic", "orders", "--to-offset", 5)
    ours(served, "consumer-groups", *start, "--execute")
    reset = ("--reset-offsets", "--group", "resets", *strategy)
    shown = sorted(assert_rows(served, *reset, "--dry-run"))
    assert shown
    exported = sorted(ours(served, "consumer-groups", *reset, "--export", "--dry-run").split())
    assert exported == sorted(theirs(served, *reset, "--export", "--dry-run").split())
    ours(served, "consumer-groups", *reset, "--execute")
    described = theirs(served, "--describe", "--group", "resets").split()
    for _, topic, partition, offset in shown:
        assert [topic, partition, offset] in [described[n : n + 3] for n in range(len(described))]


def assert_rows(served: Served, *words: object) -> list[tuple[str, ...]]:
    """The rows of a reset, which Kafka prints in any order."""
    found: list[list[tuple[str, ...]]] = []
    for text in (ours(served, "consumer-groups", *words), theirs(served, *words)):
        header, *cells = [text.split()[:4], *text.split()[4:]]
        assert header == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
        found.append([tuple(cells[n : n + 4]) for n in range(0, len(cells), 4)])
    assert sorted(found[0]) == sorted(found[1])
    return found[0]


def test_a_file_of_offsets_goes_both_ways(served: Served, tmp_path: Path) -> None:
    start = ("--reset-offsets", "--group", "filed", "--topic", "orders", "--to-offset", 4)
    ours(served, "consumer-groups", *start, "--execute")
    current = ("--reset-offsets", "--group", "filed", "--all-topics", "--to-current")
    path = tmp_path / "offsets.csv"
    path.write_text(theirs(served, *current, "--export", "--dry-run").strip().replace(",4", ",2"))
    from_file = ("--reset-offsets", "--group", "filed", "--from-file", path)
    assert [row[3] for row in assert_rows(served, *from_file, "--dry-run")] == ["2"] * 3
    ours(served, "consumer-groups", *from_file, "--execute")
    path.write_text(ours(served, "consumer-groups", *current, "--export", "--dry-run").strip())
    assert [row[3] for row in assert_rows(served, *from_file, "--dry-run")] == ["2"] * 3


def test_deletions(served: Served) -> None:
    def commit() -> None:
        start = ("--reset-offsets", "--group", "gone", "--topic", "orders", "--to-offset", 4)
        ours(served, "consumer-groups", *start, "--execute")

    def both(*words: object) -> list[str]:
        """As assert_same, of a command that changes something: each time on the same state."""
        commit()
        found = words_of(ours(served, "consumer-groups", *words))
        commit()
        assert found == words_of(theirs(served, *words))
        return found

    offsets = ("--delete-offsets", "--group", "gone", "--topic")
    assert "succeed" in both(*offsets, "orders:1")
    assert both(*offsets, "orders").count("Successful") == 3
    assert "Provided" in both(*offsets, "nope")
    assert "successful." in both("--delete", "--group", "gone")
    assert "exist." in assert_same(served, "--delete", "--group", "never")
    never = ("--delete-offsets", "--group", "never", "--topic", "orders:0")
    assert "exist." in assert_same(served, *never)
    assert "exist." in assert_same(served, "--describe", "--group", "never")
    assert "exist." in assert_same(served, "--describe", "--group", "never", "--members")


def test_a_server_that_does_not_answer() -> None:
    """Kafka's tool ends with 0, and kstore's with 1 and the reason."""
    libs(VERSION)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = ("--bootstrap-server", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1500")
        for words in (
            ("--list",),
            ("--describe", "--group", "g"),
            ("--describe", "--members", "--all-groups"),
            ("--delete", "--group", "g", "--group", "h"),
            ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--dry-run"),
        ):
            printed = run(VERSION, COMMAND, *words, *at).stdout.decode().splitlines()
            expected = [line for line in printed if not line.startswith(("\t", "java.", "Caused"))]
            done = subprocess.run(
                [sys.executable, "-m", "kstore", "consumer-groups", *words, *at],
                capture_output=True,
                timeout=60,
            )
            assert done.stdout.decode().splitlines() == expected, words
            assert done.returncode == 1
            assert b"no response from 127.0.0.1" in done.stderr
