"""topics, console-producer, console-consumer, get-offsets and verify on a directory."""

import io
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import kstore
from kstore.cli import main
from kstore.cli.console_producer import LineReader
from kstore.cli.formatters import Formatter
from kstore.errors import KStoreError
from kstore.record import Record
from support.damage import write_damaged
from support.system import pseudo_terminal

FIRST = 1_700_000_000_000


@pytest.fixture
def tool(tmp_path, capfd):
    """Run a tool on one directory: status, lines of stdout, lines of stderr."""

    def run(name, *words):
        status = main([name, *map(str, words), "--log-dir", str(tmp_path / "data")])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    run.path = tmp_path / "data"
    return run


@pytest.fixture
def filled(tool):
    """Two topics; orders has records 0 to 9 in partition 0 and 0 to 4 in partition 1."""
    with kstore.open(tool.path) as store:
        orders = store.create_topic("orders", partitions=3)
        for number in range(10):
            orders[0].append(b"zero %d" % number, timestamp=FIRST + number)
        for number in range(5):
            orders[1].append(b"one %d" % number, timestamp=FIRST + 100 - number)
        store.create_topic("other.topic")[0].append(
            None, key=b"k", headers=[("h", b"1"), ("i", None)], timestamp=FIRST
        )
    return tool


def feed(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))


# --- topics -------------------------------------------------------------------------------


def test_topics_are_created_listed_described_and_deleted(tool):
    assert tool("topics", "--create", "--topic", "b", "--partitions", 2) == (
        0,
        ["Created topic b."],
        [],
    )
    status, lines, _ = tool(
        "topics", "--create", "--topic", "a_a", "--config", "segment.bytes=9999"
    )
    assert status == 0
    assert lines[0].startswith("WARNING: Due to limitations in metric names")
    assert tool("topics", "--list")[1] == ["a_a", "b"]
    assert tool("topics", "--list", "--topic", "b|c")[1] == ["b"]
    with kstore.open(tool.path, "r") as store:
        identity = store["b"].topic_id
    assert tool("topics", "--describe", "--topic", "b")[1] == [
        f"Topic: b\tTopicId: {identity}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ",
        "\tTopic: b\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: ",
        "\tTopic: b\tPartition: 1\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: ",
    ]
    _, lines, _ = tool("topics", "--describe", "--topics-with-overrides")
    assert len(lines) == 1
    assert lines[0].endswith("Configs: segment.bytes=9999")
    assert tool("topics", "--delete", "--topic", "b") == (0, [], [])
    assert tool("topics", "--list")[1] == ["a_a"]


def test_creating_an_existing_topic_fails_unless_if_not_exists(tool):
    words = ("topics", "--create", "--topic", "t")
    assert tool(*words)[0] == 0
    status, lines, _ = tool(*words)
    assert status == 1
    assert lines[0].startswith("Error while executing topic command : ")
    assert tool(*words, "--if-not-exists") == (0, [], [])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Command must include exactly one action"),
        (("--list", "--create"), "Command must include exactly one action"),
        (("--create",), 'Missing required argument "[topic]"'),
        (("--create", "--topic", "t", "--replication-factor", "3"), "one replica"),
        (("--create", "--topic", "t", "--config", "x"), 'in the format "key=val"'),
        (("--list", "--topic", "("), "( is an invalid regex."),
    ],
)
def test_wrong_use_of_topics(tool, words, text):
    tool.path.mkdir()
    status, lines, errors = tool("topics", *words)
    assert status == 1
    assert any(text in line for line in lines + errors)


@pytest.mark.parametrize("action", ["--describe", "--delete"])
def test_a_missing_topic_is_reported(tool, action):
    tool.path.mkdir()
    status, lines, _ = tool("topics", action, "--topic", "t")
    assert status == 1
    assert "Topic 't' does not exist as expected" in lines[0]
    assert tool("topics", action, "--topic", "t", "--if-exists")[0] == 0


def test_reading_a_missing_directory_is_refused(tool):
    for name in ("topics --list", "get-offsets", "verify"):
        status, lines, errors = tool(*name.split())
        assert status == 1
        assert "there is no directory" in (lines + errors)[-1]
    assert not tool.path.exists()


# --- console-producer ---------------------------------------------------------------------


def test_lines_become_records(tool, monkeypatch):
    tool("topics", "--create", "--topic", "t")
    feed(monkeypatch, b"one\ntwo\r\n\nlast")
    assert tool("console-producer", "--topic", "t", "--compression-codec") == (0, [], [])
    with kstore.open(tool.path, "r") as store:
        assert [record.value for record in store["t"][0]] == [b"one", b"two", b"", b"last"]


def test_producer_needs_the_topic(tool, monkeypatch):
    tool.path.mkdir()
    feed(monkeypatch, b"one\n")
    status, _, errors = tool("console-producer", "--topic", "t")
    assert status == 1
    assert "'kstore topics --create' makes one" in errors[0]


def test_a_line_is_parsed_into_headers_key_and_value():
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "N"})
    assert reader.parse(b"h1:v1,h2:v2\tk\tv\tw") == (
        b"v\tw",
        b"k",
        [(b"h1", b"v1"), (b"h2", b"v2")],
    )
    assert reader.parse(b"N\tN\tN") == (None, None, None)
    assert reader.parse(b"h:N\t\t") == (b"", b"", [(b"h", None)])
    with pytest.raises(KStoreError, match="No key separator found on line number 4: 'x'"):
        reader.parse(b"h:1\tx")
    with pytest.raises(KStoreError, match="No headers delimiter found on line number 5"):
        reader.parse(b"x")


def test_ignore_error_takes_a_line_without_separator_as_value():
    reader = LineReader({"parse.key": "true", "ignore.error": "true", "key.separator": "::"})
    assert reader.parse(b"abc") == (b"abc", None, None)
    assert reader.parse(b"a::b") == (b"b", b"a", None)


@pytest.mark.parametrize(
    "words",
    [
        ("--reader-property", "parse.keys=true"),
        ("--reader-property", "parse.key"),
        ("--command-property", "acks=some"),
        ("--compression-codec", "rar"),
    ],
)
def test_wrong_use_of_the_producer(tool, monkeypatch, words):
    tool("topics", "--create", "--topic", "t")
    feed(monkeypatch, b"one\n")
    assert tool("console-producer", "--topic", "t", *words)[0] == 1


# --- console-consumer ---------------------------------------------------------------------


def consumed(tool, *words):
    status, lines, errors = tool("console-consumer", "--timeout-ms", 100, *words)
    assert status == 0
    assert errors == [f"Processed a total of {len(lines)} messages"]
    return lines


def test_the_console_consumer_reads_from_the_beginning(filled):
    lines = consumed(filled, "--topic", "orders", "--from-beginning")
    assert sorted(lines) == sorted(
        [f"zero {n}" for n in range(10)] + [f"one {n}" for n in range(5)]
    )


def test_from_the_end_by_default(filled):
    assert consumed(filled, "--topic", "orders") == []


def test_a_partition_is_read_from_the_given_offset(filled):
    source = ("--topic", "orders", "--partition", 0)
    assert consumed(filled, *source, "--offset", 8) == ["zero 8", "zero 9"]
    assert consumed(filled, *source, "--offset", "latest") == []
    assert len(consumed(filled, *source, "--offset", "earliest")) == 10
    assert consumed(filled, *source, "--offset", 3, "--max-messages", 2) == ["zero 3", "zero 4"]


def test_the_console_consumer_reads_from_a_time(filled):
    source = ("--topic", "orders", "--partition", 0)
    assert consumed(filled, *source, "--from-time", FIRST + 7) == ["zero 7", "zero 8", "zero 9"]
    assert len(consumed(filled, *source, "--from-time", "2023-11-14T22:13:20Z")) == 10
    assert len(consumed(filled, *source, "--from-time", "2023-11-14")) == 10
    assert consumed(filled, *source, "--from-time", "2030-01-01T00:00:00Z") == []


def test_fields_are_printed_in_kafkas_order(filled):
    names = ("timestamp", "partition", "offset", "epoch", "headers", "key")
    words = [word for name in names for word in ("--property", f"print.{name}=true")]
    assert consumed(filled, "--include", "other.*", "--from-beginning", *words) == [
        f"CreateTime:{FIRST}\tPartition:0\tOffset:0\tEpoch:0\th:1,i:null\tk\tnull"
    ]


def test_records_are_printed_with_the_given_separators_and_literals():
    record = Record(5, -1, None, b"v", timestamp_type="NoTimestampType")
    wanted = {
        "print.timestamp": "true",
        "print.headers": "true",
        "print.key": "true",
        "key.separator": "|",
        "line.separator": r"\t\\",
        "null.literal": "",
    }
    assert Formatter(wanted).render(record, 0) == b"NO_TIMESTAMP|NO_HEADERS||v\t\\"


def test_a_group_continues_at_its_offsets(filled):
    source = ("--topic", "orders", "--group", "g", "--from-beginning")
    first = consumed(filled, *source, "--max-messages", 6)
    rest = consumed(filled, *source)
    assert sorted(first + rest) == sorted(
        [f"zero {n}" for n in range(10)] + [f"one {n}" for n in range(5)]
    )
    assert consumed(filled, *source) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Exactly one of --include/--topic is required."),
        (("--topic", "a", "--include", "b"), "Exactly one of --include/--topic is required."),
        (("--include", "a", "--partition", "0"), "The topic is required"),
        (("--topic", "a", "--offset", "1"), "The partition is required"),
        (("--topic", "a", "--partition", "0", "--offset", "x"), "offset value 'x' is incorrect"),
        (("--topic", "a", "--partition", "0", "--group", "g"), "Options group and partition"),
        (("--topic", "a", "--from-time", "noon"), "--from-time takes"),
        (("--topic", "a", "--property", "print.all=true"), "print.timestamp"),
        (("--topic", "a", "--isolation-level", "committed"), "read_uncommitted"),
    ],
)
def test_wrong_use_of_the_consumer(filled, words, text):
    status, _, errors = filled("console-consumer", *words)
    assert status == 1
    assert any(text in line for line in errors)


@pytest.mark.parametrize("reset", ["latest", "earliest"])
def test_an_offset_beyond_the_end_is_reported(filled, caplog, reset):
    """Kafka's consumer continues by auto.offset.reset, and so does this one, with a warning."""
    words = ("--topic", "orders", "--partition", 1, "--offset", 99)
    if reset == "latest":
        assert consumed(filled, *words) == []
    else:
        with (
            kstore.open(filled.path, mode="r") as store,
            store.consumer(assignment=[("orders", 1)], auto_offset_reset=reset) as consumer,
        ):
            consumer.seek(("orders", 1), 99)
            (batch,) = consumer.batches(timeout=0)
            assert len(list(batch)) == 5
    start = {"latest": 5, "earliest": 0}[reset]
    assert caplog.messages == [
        "offset 99 is out of range: orders-1 holds offsets from 0 up to 5; it is read from offset "
        f"{start} on (auto.offset.reset={reset})"
    ]


def spawn(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "kstore", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_follows_a_writer_until_interrupted(filled):
    process = spawn(
        "console-consumer", "--topic", "orders", "--from-time", FIRST + 99, "--log-dir", filled.path
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        assert process.stdout.readline() == b"one 0\n"
        with kstore.open(filled.path) as store:
            store["orders"][2].append(b"late")
            lines = iter(process.stdout.readline, b"late\n")
            assert set(lines) <= {b"one %d\n" % n for n in range(5)}
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert errors.startswith(b"Processed a total of ")
        assert process.returncode == 130, errors
    finally:
        watchdog.cancel()


def test_following_ends_without_a_reader(filled):
    process = spawn(
        "console-consumer", "--topic", "orders", "--from-beginning", "--log-dir", filled.path
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    process.stderr.close()


# --- get-offsets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((), ["orders:0:10", "orders:1:5", "orders:2:0", "other.topic:0:1"]),
        (("--topic", "orders", "--time", "earliest"), ["orders:0:0", "orders:1:0", "orders:2:0"]),
        (("--topic", "orders", "--partitions", "1,2"), ["orders:1:5", "orders:2:0"]),
        (("--time", FIRST + 5), ["orders:0:5", "orders:1:0"]),
        (("--time", "2023-11-14T22:13:20.005Z"), ["orders:0:5", "orders:1:0"]),
        (("--time", "2023-11-15T01:13:20.005+03:00"), ["orders:0:5", "orders:1:0"]),
        (("--time", -3), ["orders:0:9", "orders:1:0", "other.topic:0:0"]),
        (("--topic-partitions", "orders:0-2"), ["orders:0:10", "orders:1:5"]),
        (("--topic-partitions", "orders:2-,ot.*:0"), ["orders:2:0", "other.topic:0:1"]),
        (("--topic-partitions", ":-1"), ["orders:0:10", "other.topic:0:1"]),
    ],
)
def test_get_offsets_prints_the_offsets_of_partitions(filled, words, lines):
    assert filled("get-offsets", *words) == (0, lines, [])


@pytest.mark.parametrize(
    "words",
    [
        ("--topic", "nothing"),
        ("--partitions", "x"),
        ("--time", "yesterday"),
        ("--topic", "orders", "--topic-partitions", "orders"),
        ("--topic-partitions", "a:b"),
    ],
)
def test_wrong_use_of_get_offsets(filled, words):
    status, lines, errors = filled("get-offsets", *words)
    assert (status, lines) == (1, [])
    assert errors[0].startswith("kstore get-offsets: Error occurred: ")


# --- verify -------------------------------------------------------------------------------


def test_verify_says_ok(filled):
    status, lines, errors = filled("verify")
    assert (status, errors) == (0, [])
    assert lines[0].startswith("orders-0: ok (1 segment, 10 batches, ")
    assert lines[-1].startswith("4 partitions: all ok (16 batches, ")


def test_verify_finds_a_flipped_bit(filled):
    path = filled.path / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[200] ^= 4
    write_damaged(path, data)
    status, lines, _ = filled("verify", "--topic", "orders")
    assert status == 1
    assert any(str(path) in line and "offset" in line for line in lines)
    assert "1 damaged" in lines[-1]
    status, lines, _ = filled("verify", "--json")
    report = json.loads("\n".join(lines))
    assert (status, report["ok"]) == (1, False)
    assert [each["ok"] for each in report["partitions"]] == [False, True, True, True]
    assert report["partitions"][0]["findings"][0]["path"] == str(path)
    assert filled("verify", "--topic", "orders", "--partition", 1)[0] == 0


def test_verify_writes_checksum_files_of_valid_segments(tool):
    with kstore.open(tool.path) as store:
        for name in ("good", "bad"):
            log = store.create_topic(name)[0]
            for number in range(10):
                log.append(b"%d" % number)
            log.roll()
            log.append(b"last")
    for path in tool.path.glob("*/kstore.seal.*"):
        path.unlink()
    path = tool.path / "bad-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    write_damaged(path, data)
    _, lines, _ = tool("verify", "--topic", "good")
    assert lines[0].endswith("11 batches without header checksums)")
    assert tool("verify", "--seal")[0] == 1
    assert [path.parent.name for path in tool.path.glob("*/kstore.seal.*")] == ["good-0"]
    _, lines, _ = tool("verify", "--topic", "good")
    assert lines[0].endswith(", 1 batch without header checksums)")


def test_verify_of_nothing_is_not_all_ok(tool):
    tool.path.mkdir()
    status, lines, (complaint,) = tool("verify")
    assert (status, lines) == (1, [])
    assert complaint.endswith(f"nothing was verified: no partitions in {tool.path}")


def test_the_folder_of_a_partition_is_no_log_dir(filled, capfd):
    for words in (["verify"], ["topics", "--create", "--topic", "a"]):
        assert main([*words, "--log-dir", str(filled.path / "orders-0")]) == 1
        assert str(filled.path) + "\n" in "".join(capfd.readouterr())


@pytest.mark.parametrize("name", ["console-producer", "topics"])
def test_a_missing_directory_is_not_created(tool, name):
    words = ["--delete"] if name == "topics" else []
    status, lines, errors = tool(name, *words, "--topic", "a")
    assert status == 1
    assert f"there is no directory {tool.path}" in "".join(lines + errors)
    assert not tool.path.exists()


def test_an_option_that_names_a_server_is_refused_with_the_one_to_give(tool):
    status, _, errors = tool("verify", "--bootstrap-server", "localhost:9092")
    assert status == 1
    assert errors[0] == "bootstrap-server is not a recognized option"
    assert errors[1].startswith("--bootstrap-server: there is no server here; --log-dir ")


@pytest.mark.parametrize("name", ["topics", "get-offsets", "console-consumer"])
def test_a_tool_takes_a_directory_or_a_server_and_not_both(tool, name):
    words = {"topics": ["--list"], "console-consumer": ["--topic", "a"]}.get(name, [])
    status, _, errors = tool(name, *words, "--bootstrap-server", "localhost:9092")
    assert status == 1
    assert "--log-dir or a server by --bootstrap-server, and not both" in errors[0]


def test_a_server_that_does_not_answer_is_named(tool, capfd):
    assert main(["topics", "--list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "cannot connect to 127.0.0.1:1" in "".join(capfd.readouterr())


def test_a_directory_with_only_a_created_topic_is_closed_cleanly(tool):
    tool("topics", "--create", "--topic", "a")
    assert (tool.path / ".kafka_cleanshutdown").exists()
    assert tool("topics", "--list") == (0, ["a"], [])


def test_a_bar_is_drawn_on_a_terminal(filled):
    with pseudo_terminal() as (main_end, other_end):
        done = subprocess.run(
            [sys.executable, "-m", "kstore", "verify", "--log-dir", str(filled.path)],
            stdout=subprocess.PIPE,
            stderr=other_end,
            check=True,
        )
        drawn = os.read(main_end, 4096)
    assert b"MB/s orders-0" in drawn
    assert b"\r" not in done.stdout
