"""topics --alter, configs and delete-records on a directory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.cli.configs import parse_pairs
from kstore.cli.delete_records import parse_offsets
from kstore.cli.topics import own_settings
from kstore.errors import KStoreError
from kstore.topic_partition import TopicPartition

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """orders (2 partitions, 10 records in the first), payments, and a compacted topic."""
    path = tmp_path / "data"
    with kstore.open(path) as store:
        orders = store.create_topic("orders", partitions=2)
        orders[0].extend([b"%d" % number for number in range(10)])
        store.create_topic("payments")
        compacted = kstore.LogConfig(cleanup_policy="compact")
        store.create_topic("accounts", config=compacted)[0].append(b"v", key=b"k")
    return path


@pytest.fixture
def tool(data: Path, capfd: Any) -> Tool:
    def run(name: str, *words: object) -> Outcome:
        status = main([name, *map(str, words), "--log-dir", str(data)])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def settings(data: Path, topic: str) -> str:
    with kstore.open(data, "r") as store:
        return own_settings(store[topic])


# --- topics --alter -----------------------------------------------------------------------------


def test_partitions_are_added(data: Path, tool: Tool) -> None:
    assert tool("topics", "--alter", "--topic", "orders", "--partitions", 5) == (0, [], [])
    with kstore.open(data, "r") as store:
        assert len(store["orders"]) == 5


@pytest.mark.parametrize("count", [1, 2])
def test_a_topic_cannot_have_fewer_partitions(data: Path, tool: Tool, count: int) -> None:
    words = ("--alter", "--topic", "orders", "--config", "retention.ms=5", "--partitions", count)
    status, lines, _ = tool("topics", *words)
    assert (status, lines) == (
        1,
        [
            "Error while executing topic command : The topic orders currently has 2 partition(s); "
            f"{count} would not be an increase."
        ],
    )
    assert settings(data, "orders") == ""


def test_settings_are_changed_and_reset(data: Path, tool: Tool) -> None:
    alter = ("topics", "--alter", "--topic", "orders|payments")
    assert tool(*alter, "--config", "retention.ms=5", "--config", "segment.bytes=99") == (0, [], [])
    assert settings(data, "payments") == "segment.bytes=99,retention.ms=5"
    assert tool(*alter, "--delete-config", "retention.ms")[0] == 0
    assert settings(data, "orders") == settings(data, "payments") == "segment.bytes=99"


def test_a_wrong_setting_changes_no_topic(data: Path, tool: Tool) -> None:
    words = ("--config", "retention.ms=5", "--config", "retention.mss=5")
    status, lines, _ = tool("topics", "--alter", "--topic", ".*", *words)
    assert status == 1
    assert "did you mean retention.ms" in lines[0]
    assert settings(data, "orders") == ""


def test_internal_topics_are_altered_and_deleted_only_by_name(data: Path, tool: Tool) -> None:
    with (
        kstore.open(data) as store,
        store.consumer(group="g", assignment=[("orders", 0)]) as consumer,
    ):
        consumer.commit({("orders", 0): 3})
    change = ("--config", "segment.bytes=99")
    assert tool("topics", "--alter", "--topic", ".*", *change)[0] == 0
    assert "segment.bytes=104857600" in settings(data, "__consumer_offsets")
    assert tool("topics", "--alter", "--topic", "__consumer_offsets", *change)[0] == 0
    assert "segment.bytes=99" in settings(data, "__consumer_offsets")


def test_a_dry_run_names_the_topics_beside_a_writer(data: Path, tool: Tool) -> None:
    with kstore.open(data):
        _, lines, _ = tool("topics", "--delete", "--topic", "orders|pay.*", "--dry-run")
        assert lines == [
            "Topic orders would be deleted (2 partitions).",
            "Topic payments would be deleted (1 partition).",
        ]
        words = ("--alter", "--topic", "orders", "--partitions", 3, "--dry-run")
        assert tool("topics", *words) == (0, ["Topic orders would be altered."], [])
    assert tool("topics", "--list")[1] == ["accounts", "orders", "payments"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--alter"], 'Missing required argument "[topic]"'),
        (["--alter", "--topic", "orders"], 'Missing required argument "[partitions]"'),
        (
            ["--list", "--delete-config", "a"],
            'Option "[delete-config]" can\'t be used with option "[list]"',
        ),
        (["--list", "--dry-run"], "--dry-run goes with --alter or --delete"),
        (["--alter", "--topic", "t", "--partitions", "1", "--replication-factor", "3"], "replica"),
        (["--create", "--topic", "t", "--replica-assignment", "1"], "holds one replica"),
    ],
)
def test_wrong_use_of_alter(tool: Tool, words: list[str], text: str) -> None:
    status, _, errors = tool("topics", *words)
    assert status == 1
    assert text in errors[0]


# --- configs ------------------------------------------------------------------------------------


def test_settings_are_described_as_by_kafka(tool: Tool) -> None:
    words = ("--describe", "--entity-type", "topics", "--entity-name", "accounts")
    assert tool("configs", *words) == (
        0,
        [
            "Dynamic configs for topic accounts are:",
            "  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
            "cleanup.policy=compact, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        ],
        [],
    )
    _, lines, _ = tool("configs", "--describe")
    assert [line for line in lines if not line.startswith(" ")] == [
        f"Dynamic configs for topic {name} are:" for name in ("accounts", "orders", "payments")
    ]


def test_all_settings_are_described(tool: Tool) -> None:
    _, lines, _ = tool("configs", "--describe", "--topic", "orders", "--all")
    assert lines[0] == "All configs for topic orders are:"
    assert len(lines) == 1 + len(kstore.LogConfig.__dataclass_fields__)
    assert (
        "  segment.ms=604800000 sensitive=false synonyms={DEFAULT_CONFIG:log.roll.ms=604800000}"
        in lines
    )
    assert any(line.startswith("  preallocate=false ") for line in lines)


def test_settings_are_added_and_deleted(data: Path, tool: Tool) -> None:
    alter = ("configs", "--alter", "--entity-type", "topics", "--entity-name", "orders")
    updated = (0, ["Completed updating config for topic orders."], [])
    added = "cleanup.policy=[compact,delete], retention.ms=5"
    assert tool(*alter, "--add-config", added) == updated
    assert settings(data, "orders") == "retention.ms=5,cleanup.policy=compact,delete"
    words = ("--add-config", "segment.bytes=99", "--delete-config", "retention.ms,cleanup.policy")
    assert tool(*alter, *words) == updated
    assert settings(data, "orders") == "segment.bytes=99"


def test_settings_come_from_a_file(data: Path, tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "s.properties"
    path.write_text("# comment\nretention.ms=7\nsegment.bytes = 100\n")
    words = ("configs", "--alter", "--topic", "orders", "--add-config-file", path)
    assert tool(*words)[0] == 0
    assert settings(data, "orders") == "segment.bytes=100,retention.ms=7"
    path.unlink()
    assert tool(*words) == (1, [], [f"kstore configs: there is no file {path}"])


def test_a_dry_run_of_configs_changes_nothing(data: Path, tool: Tool) -> None:
    with kstore.open(data):
        words = ("--alter", "--topic", "orders", "--add-config", "retention.ms=5", "--dry-run")
        assert tool("configs", *words) == (
            0,
            ["The config for topic orders would be updated."],
            [],
        )
    assert settings(data, "orders") == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Command must include exactly one action: --describe, --alter"),
        (["--describe", "--entity-type", "brokers"], "Invalid entity type brokers"),
        (["--describe", "--broker", "1"], "Invalid entity type brokers"),
        (["--describe", "--topic", "nothing"], "Topic 'nothing' does not exist"),
        (["--alter", "--topic", "orders"], "At least one of --add-config"),
        (["--alter", "--add-config", "a=b"], "an entity name must be specified with --alter"),
        (["--alter", "--topic", "orders", "--add-config", "a"], "Invalid entity config"),
        (["--alter", "--topic", "orders", "--add-config", "no.such=1"], "unknown setting"),
        (["--alter", "--topic", "orders", "--add-config", "retention.ms=x"], "a whole number"),
        (["--alter", "--topic", "orders", "--delete-config", "retention.ms"],
         "Invalid config(s): retention.ms"),
    ],
)  # fmt: skip
def test_wrong_use_of_configs(tool: Tool, words: list[str], text: str) -> None:
    status, lines, errors = tool("configs", *words)
    assert (status, lines) == (1, [])
    assert text in errors[0]


def test_settings_are_parsed_as_kafkas_add_config_is() -> None:
    assert parse_pairs(" a=1 , b=[x,y],c=,d=u=v") == {"a": "1", "b": "x,y", "c": "", "d": "u=v"}
    for wrong in ("a", "=1", "a=1,,b=2"):
        with pytest.raises(KStoreError, match="Invalid entity config"):
            parse_pairs(wrong)


# --- delete-records -----------------------------------------------------------------------------


def entry(topic: str, partition: int, offset: int) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "offset": offset}


@pytest.fixture
def offsets_file(tmp_path: Path) -> Callable[..., Path]:
    def write(*entries: dict[str, object]) -> Path:
        path = tmp_path / "offsets.json"
        path.write_text(json.dumps({"partitions": entries, "version": 1}))
        return path

    return write


def starts(data: Path) -> list[int]:
    with kstore.open(data, "r") as store:
        return [log.start_offset for log in store["orders"]]


def test_records_are_deleted(data: Path, tool: Tool, offsets_file: Any) -> None:
    path = offsets_file(entry("orders", 0, 4), entry("orders", 1, -1))
    expected = [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: orders-0\tlow_watermark: 4",
        "partition: orders-1\tlow_watermark: 0",
    ]
    assert tool("delete-records", "--offset-json-file", path) == (0, expected, [])
    assert starts(data) == [4, 0]
    path = offsets_file(entry("orders", 0, -1))
    assert tool("delete-records", "--offset-json-file", path)[1][2].endswith("low_watermark: 10")
    assert starts(data) == [10, 0]


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_a_refused_setting_prints_one_line_and_exits_with_1(
    data: Path, tool: Tool, offsets_file: Any, dry_run: list[str]
) -> None:
    path = offsets_file(
        entry("orders", 0, 11),
        entry("orders", 9, 0),
        entry("accounts", 0, 0),
        entry("orders", 1, 0),
    )
    status, lines, errors = tool("delete-records", "--offset-json-file", path, *dry_run)
    assert (status, errors) == (1, [])
    prefix = "error: org.apache.kafka.common.errors."
    assert lines[2].startswith(f"partition: orders-0\t{prefix}OffsetOutOfRangeException: ")
    assert lines[3].startswith(f"partition: orders-9\t{prefix}UnknownTopicOrPartitionException: ")
    assert lines[4].startswith(f"partition: accounts-0\t{prefix}PolicyViolationException: ")
    assert lines[5] == "partition: orders-1\tlow_watermark: 0"
    assert starts(data) == [0, 0]


def test_a_dry_run_deletes_nothing(data: Path, tool: Tool, offsets_file: Any) -> None:
    path = offsets_file(entry("orders", 0, 4))
    with kstore.open(data):
        _, lines, _ = tool("delete-records", "--offset-json-file", path, "--dry-run")
    assert lines == [
        "Executing records delete operation (dry run)",
        "Records delete operation completed:",
        "partition: orders-0\tlow_watermark: 4",
    ]
    assert starts(data) == [0, 0]


def test_a_partition_named_twice_is_refused() -> None:
    text = json.dumps({"partitions": [entry("orders", 0, 4), entry("orders", 0, 5)]})
    with pytest.raises(KStoreError, match="contains duplicate topic partitions: orders-0"):
        parse_offsets(text)
    assert parse_offsets('{"partitions": []}') == {}
    only = '{"partitions": [{"topic": "t", "partition": 1, "offset": -1}], "version": 1}'
    assert parse_offsets(only) == {TopicPartition("t", 1): -1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not a valid JSON"),
        (b"\xff", "not a valid JSON"),
        ("[" * 100_000, "not a valid JSON"),
        ("[]", "Missing partitions field"),
        ('{"version": 1}', "Missing partitions field"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"partitions": [1]}', "An entry of partitions reads"),
        ('{"partitions": [{"topic": "t", "partition": true, "offset": 1}]}', "An entry of"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": -2}]}', "An entry of"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "An entry of"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: Any, sentence: str) -> None:
    with pytest.raises(KStoreError, match=sentence):
        parse_offsets(text)


def test_a_missing_offsets_file_is_an_error_in_two_lines(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert tool("delete-records", "--offset-json-file", path) == (
        1,
        [],
        [f"kstore delete-records: Unable to read file {path}", "No such file or directory"],
    )


def test_a_setting_that_equals_the_default_is_shown_if_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("set", config={"retention.ms": -1})
        store.create_topic("unset")
    where = ["--log-dir", str(tmp_path)]
    assert main(["topics", "--describe", *where]) == 0
    configs = [line.rpartition("Configs: ")[2] for line in capsys.readouterr().out.splitlines()]
    assert [each for each in configs if "\t" not in each] == ["retention.ms=-1", ""]
    assert main(["configs", "--describe", "--topic", "set", *where]) == 0
    assert "retention.ms=-1 sensitive=false" in capsys.readouterr().out
    assert (
        main(["configs", "--alter", "--topic", "set", "--delete-config", "retention.ms", *where])
        == 0
    )
