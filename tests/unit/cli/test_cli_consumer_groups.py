"""consumer-groups on a directory: the tables, texts and rules of kafka-consumer-groups."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, Topic
from kstore.cli import group_lines, main
from kstore.cli.reset_offsets import from_csv, milliseconds_of, to_csv
from kstore.errors import KStoreError
from kstore.topic_partition import PartitionMapping, TopicPartition

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]
FIRST = 1_700_000_000_000  # 2023-11-14T22:13:20Z
ORDERS = [("orders", 0), ("orders", 1)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """orders-0 has offsets 2 to 9, orders-1 none; group g committed 5 in orders-0 and 0 in logs."""
    path = tmp_path / "data"
    with kstore.open(path) as store:
        orders = store.create_topic("orders", partitions=2)
        for number in range(10):
            orders[0].append(b"%d" % number, timestamp=FIRST + 1000 * number)
        orders[0].delete_records(2)
        store.create_topic("logs")[0].append(b"v")
        store.alter_group_offsets("g", {("orders", 0): 5, ("logs", 0): 0})
        store.alter_group_offsets("other", {("logs", 0): 1})
    return path


@pytest.fixture
def tool(data: Path, capfd: Any) -> Tool:
    def run(*words: object) -> Outcome:
        status = main(["consumer-groups", *map(str, words), "--log-dir", str(data)])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


@pytest.fixture
def reset(tool: Tool) -> Callable[..., Outcome]:
    def run(*words: object) -> Outcome:
        return tool("--reset-offsets", "--group", "g", *words)

    return run


def committed(data: Path, group: str = "g") -> dict[tuple[str, int], int]:
    with kstore.open(data, "r") as store:
        groups = store.groups()
        found = groups[group].offsets if group in groups else {}
        return {(tp.topic, tp.partition): each.offset for tp, each in found.items()}


# --- list and describe --------------------------------------------------------------------------


def test_list_prints_the_group_names(tool: Tool) -> None:
    assert tool("--list") == (0, ["g", "other"], [])


def test_groups_are_listed_with_their_states_and_by_state(data: Path, tool: Tool) -> None:
    header = "GROUP                     STATE               "
    g, other = (f"{name:<25} {{:<20}}" for name in ("g", "other"))
    assert tool("--list", "--state")[1] == [header, g.format("Empty"), other.format("Empty")]
    with kstore.open(data) as store, store.consumer("orders", group="g"):
        lines = tool("--list", "--state")[1]
        assert lines == [header, g.format("Stable"), other.format("Empty")]
        assert tool("--list", "--state", "stable")[1] == [header, g.format("Stable")]


def test_describe_prints_kafkas_table_of_offsets_and_lag(tool: Tool) -> None:
    assert tool("--describe", "--group", "g") == (
        0,
        [
            "",
            "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
            "             CONSUMER-ID     HOST            CLIENT-ID",
            "g               logs            0          0               1               1"
            "               -               -               -",
            "g               orders          0          5               10              5"
            "               -               -               -",
        ],
        ["", "Consumer group 'g' has no active members."],
    )


def test_verbose_shows_the_leader_epochs_of_committed_offsets(tool: Tool) -> None:
    header = [
        "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
        "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    for words in (["--verbose"], ["--verbose", "--offsets"]):
        _, lines, _ = tool("--describe", "--group", "g", *words)
        assert [line.split() for line in lines[1:]] == [
            header,
            ["g", "logs", "0", "-", "0", "1", "1", "-", "-", "-"],
            ["g", "orders", "0", "-", "5", "10", "5", "-", "-", "-"],
        ]
    tp = TopicPartition("orders", 0)
    committed = kstore.CommittedOffset(5, 10, "", datetime.now(UTC), 3)
    lines = group_lines.offsets(
        kstore.ConsumerGroup("g", PartitionMapping({tp: committed})), verbose=True
    )
    assert [line.split() for line in lines[1:]] == [
        header,
        ["g", "orders", "0", "3", "5", "10", "5", "-", "-", "-"],
    ]


def test_describe_all_groups(tool: Tool) -> None:
    _, lines, _ = tool("--describe", "--all-groups")
    assert [line.split()[0] for line in lines if line and line[0] in "go"] == ["g", "g", "other"]


def test_describe_a_group_with_an_open_consumer(data: Path, tool: Tool) -> None:
    with kstore.open(data) as store, store.consumer("orders", group="g"):
        status, lines, errors = tool("--describe", "--group", "g")
        assert (status, errors) == (0, [])
        assert [line.split()[1:6] for line in lines[2:]] == [
            ["logs", "0", "0", "1", "1"],
            ["orders", "0", "5", "10", "5"],
            ["orders", "1", "-", "-", "-"],
        ]
        assert tool("--describe", "--group", "g", "--members")[1] == [
            "",
            "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
            "ASSIGNMENT",
            "g               -               -               -               2               "
            "orders(0,1)",
        ]
        lines = tool("--describe", "--group", "g", "--state")[1]
        assert lines[2].split() == ["g", "-", "-", "Stable", "-"]


def test_describe_a_group_that_does_not_exist(tool: Tool) -> None:
    text = "Error: Consumer group 'none' does not exist."
    assert tool("--describe", "--group", "none") == (1, ["", text], [])


# --- several directories, damage, and changes meanwhile -------------------------------------------


def test_groups_of_every_log_dir_are_shown(tmp_path: Path, capfd: Any) -> None:
    """A reader of the second directory only commits there."""
    first, second = tmp_path / "a", tmp_path / "b"
    with kstore.open([first, second]) as store:
        for log in store.create_topic("orders", partitions=2):
            log.extend([b"x"] * 9)
        assert store["orders"][1].path == str(second / "orders-1")
        store.alter_group_offsets("g", dict.fromkeys(ORDERS, 7))
    with kstore.open(second, "r") as reader:
        reader.alter_group_offsets("g", {("orders", 1): 3})
        reader.alter_group_offsets("h", {("orders", 1): 4})

    def tool(*words: str) -> Outcome:
        status = main(["consumer-groups", *words, "--log-dir", f"{first},{second}"])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    assert tool("--list") == (0, ["g", "h"], [])
    _, lines, _ = tool("--describe", "--all-groups")
    shown = [line.split()[:4] for line in lines if line.startswith(("g ", "h "))]
    assert shown == [
        ["g", "orders", "0", "7"],
        ["g", "orders", "1", "3"],
        ["h", "orders", "1", "4"],
    ]
    with kstore.open(second, "r") as reader, reader.consumer(group="g", assignment=[ORDERS[1]]):
        assert tool("--list", "--state", "stable")[1][1].split() == ["g", "Stable"]
        status, lines, _ = tool("--delete", "--group", "g")
        assert status == 1
        assert "GroupNotEmptyException" in lines[2]
    assert tool("--delete", "--all-groups")[0] == 0
    assert tool("--list") == (0, [], [])


@pytest.fixture
def damaged(data: Path) -> Path:
    path = data / "kstore.offsets.g"
    path.write_text("{")
    return path


def test_a_damaged_file_of_commits_concerns_its_group_only(damaged: Path, tool: Tool) -> None:
    assert tool("--list")[:2] == (0, ["g", "other"])
    status, lines, errors = tool("--describe", "--all-groups")
    assert status == 1
    assert [line.split()[0] for line in lines if line and line[0] in "go"] == ["other"]
    assert any("group 'g' cannot be read: not a file of" in line for line in errors)
    assert tool("--delete", "--group", "other")[0] == 0
    for _ in range(2):
        status, lines, _ = tool("--delete", "--group", "g")
        assert status == 1
        assert str(damaged) in lines[2]


@pytest.mark.parametrize(
    "words",
    [
        ["--topic", "orders", "--to-current"],
        ["--topic", "orders:0", "--shift-by", "1"],
        ["--all-topics", "--to-earliest"],
    ],
)
def test_offsets_that_cannot_be_read_are_no_base_for_a_reset(
    data: Path, damaged: Path, reset: Tool, words: list[str]
) -> None:
    status, lines, _ = reset(*words, "--execute")
    assert status == 1
    assert lines[1].startswith("Error: the offsets of group 'g' cannot be read: not a file of")
    damaged.unlink()
    assert committed(data) == {("orders", 0): 5, ("logs", 0): 0}


def test_a_topic_that_is_deleted_meanwhile_is_omitted(
    data: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exists when the tool finds its name, and no more when the tool asks for its partitions."""
    get = Store.__getitem__

    def delete_then_get(store: Store, name: str) -> Topic:
        with kstore.open(data) as writer:
            if name in writer:
                writer.delete_topic(name)
        return get(store, name)

    monkeypatch.setattr(Store, "__getitem__", delete_then_get)
    status, lines, _ = tool("--reset-offsets", "--group", "g", "--all-topics", "--to-latest")
    assert (status, new_offset(lines)) == (0, [])


# --- reset-offsets ------------------------------------------------------------------------------


def new_offset(lines: list[str]) -> list[tuple[str, str, str, str]]:
    assert lines[:2] == [
        "",
        "GROUP                          TOPIC                          PARTITION  NEW-OFFSET     ",
    ]
    return [tuple(line.split()) for line in lines[2:]]


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (["--to-earliest"], 2),
        (["--to-latest"], 10),
        (["--to-current"], 5),
        (["--to-offset", 7], 7),
        (["--shift-by", 2], 7),
        (["--shift-by", -2], 3),
        (["--to-datetime", "2023-11-14T22:13:26.000"], 6),  # UTC, as in Kafka
        (["--to-datetime", "2023-11-14T23:13:26+01:00"], 6),
        (["--to-datetime", FIRST + 4000], 4),
        (["--to-datetime", "2023-11-14"], 2),
        (["--by-duration", "P36500D"], 2),
    ],
    ids=str,
)
def test_every_reset_option_shows_and_sets_the_same_offset(
    data: Path, reset: Tool, words: list[object], offset: int
) -> None:
    scope = ("--topic", "orders:0")
    status, lines, errors = reset(*scope, *words, "--dry-run")
    assert (status, errors) == (0, [])
    assert new_offset(lines) == [("g", "orders", "0", str(offset))]
    assert committed(data)["orders", 0] == 5
    status, lines, errors = reset(*scope, *words, "--execute")
    assert (status, errors) == (0, [])
    assert new_offset(lines) == [("g", "orders", "0", str(offset))]
    assert committed(data) == {("logs", 0): 0, ("orders", 0): offset}


def test_without_execute_nothing_is_done_and_a_warning_says_so(data: Path, reset: Tool) -> None:
    status, lines, errors = reset("--topic", "orders", "--to-latest")
    assert status == 0
    assert errors[0].startswith(
        "WARN: No action will be performed as the --execute option is missing."
    )
    assert new_offset(lines) == [("g", "orders", "0", "10"), ("g", "orders", "1", "0")]
    assert committed(data)["orders", 0] == 5


def test_all_topics_are_those_with_commits(data: Path, reset: Tool) -> None:
    _, lines, _ = reset("--all-topics", "--to-latest", "--execute")
    assert new_offset(lines) == [
        ("g", "logs", "0", "1"),
        ("g", "orders", "0", "10"),
        ("g", "orders", "1", "0"),
    ]
    assert committed(data) == {("logs", 0): 1, ("orders", 0): 10, ("orders", 1): 0}


@pytest.mark.parametrize(
    ("words", "offset", "text"),
    [
        (["--to-offset", 99], 10, "New offset (99) is higher than latest offset"),
        (["--to-offset", 0], 2, "New offset (0) is lower than earliest offset"),
        (["--shift-by", -100], 2, "New offset (-95) is lower than earliest offset"),
    ],
)
def test_an_offset_outside_the_log_becomes_its_end(
    reset: Tool, words: list[object], offset: int, text: str
) -> None:
    _, lines, errors = reset("--topic", "orders:0", *words, "--dry-run")
    assert new_offset(lines) == [("g", "orders", "0", str(offset))]
    assert errors == [f"{text} for topic partition orders-0. Value will be set to {offset}"]


@pytest.mark.parametrize("words", [["--to-datetime", "2033-01-01"], ["--by-duration", "PT1M"]])
def test_a_time_behind_the_last_record_is_the_log_end(reset: Tool, words: list[str]) -> None:
    _, lines, errors = reset("--topic", "orders:0", *words, "--dry-run")
    assert new_offset(lines) == [("g", "orders", "0", "10")]
    assert errors == [
        "",
        "Warn: Partition 0 from topic orders is empty. Falling back to latest known offset.",
    ]


def test_a_new_group_is_created(data: Path, tool: Tool) -> None:
    words = ("--topic", "orders", "--to-earliest", "--execute")
    assert tool("--reset-offsets", "--group", "new", *words)[0] == 0
    assert committed(data, "new") == {("orders", 0): 2, ("orders", 1): 0}


def test_offsets_are_exported_and_reset_from_a_file(
    data: Path, reset: Tool, tool: Tool, tmp_path: Path
) -> None:
    status, lines, _ = reset("--all-topics", "--to-current", "--export", "--dry-run")
    assert (status, lines) == (0, ["logs,0,0", "orders,0,5", "orders,1,0", ""])
    path = tmp_path / "offsets.csv"
    path.write_text("orders,0,4\n\n")
    assert reset("--from-file", path, "--execute")[0] == 0
    assert committed(data) == {("logs", 0): 0, ("orders", 0): 4}
    words = ("--all-groups", "--all-topics", "--to-latest", "--export", "--dry-run")
    _, lines, _ = tool("--reset-offsets", *words)
    assert lines == ["g,logs,0,1", "g,orders,0,10", "g,orders,1,0", "other,logs,0,1", ""]
    path.write_text("\n".join(lines))
    assert tool("--reset-offsets", "--all-groups", "--from-file", path, "--execute")[0] == 0
    assert committed(data, "other") == {("logs", 0): 1}
    assert committed(data)["orders", 0] == 10


def test_an_error_of_one_group_changes_none(data: Path, tool: Tool) -> None:
    words = ("--all-groups", "--topic", "orders:0", "--shift-by", 1, "--execute")
    status, lines, errors = tool("--reset-offsets", *words)
    assert (status, lines) == (1, [])
    assert "Cannot shift offset for partition orders-0 since there is no current" in errors[-1]
    assert committed(data)["orders", 0] == 5


def test_a_group_with_an_open_consumer_is_not_reset(data: Path, reset: Tool) -> None:
    with kstore.open(data, "r") as store, store.consumer("orders", group="g"):
        status, lines, _ = reset("--topic", "orders", "--to-latest", "--execute")
        assert status == 1
        assert lines[:2] == [
            "",
            "Error: Assignments can only be reset if the group 'g' is inactive, but the current "
            "state is Stable.",
        ]
    assert committed(data)["orders", 0] == 5


# --- delete and delete-offsets ------------------------------------------------------------------


def test_deleted_groups_have_no_committed_offsets(data: Path, tool: Tool) -> None:
    text = "Deletion of requested consumer groups ('g', 'other') was successful."
    assert tool("--delete", "--group", "g", "--group", "other") == (0, [text], [])
    assert tool("--list") == (0, [], [])
    assert committed(data) == {}


def test_delete_of_some_fails(data: Path, tool: Tool) -> None:
    with kstore.open(data, "r") as store, store.consumer("orders", group="g"):
        words = ("--delete", "--group", "g", "--group", "none", "--group", "other")
        status, lines, _ = tool(*words)
    assert status == 1
    assert lines[:2] == ["", "Error: Deletion of some consumer groups failed:"]
    prefix = "could not be deleted due to: org.apache.kafka.common.errors."
    assert lines[2].startswith(
        f"* Group 'g' {prefix}GroupNotEmptyException: The group is not empty."
    )
    assert lines[3] == (
        f"* Group 'none' {prefix}GroupIdNotFoundException: The group id does not exist."
    )
    assert lines[4:] == ["", "These consumer groups were deleted successfully: 'other'"]
    assert committed(data)["orders", 0] == 5


def test_delete_offsets_prints_kafkas_table(data: Path, tool: Tool) -> None:
    assert tool("--delete-offsets", "--group", "g", "--topic", "orders") == (
        0,
        [
            "Request succeed for deleting offsets with topic orders group g",
            "",
            "TOPIC                          PARTITION       STATUS         ",
            "orders                         0               Successful     ",
            "orders                         1               Successful     ",
        ],
        [],
    )
    assert committed(data) == {("logs", 0): 0}


def test_delete_offsets_of_what_does_not_exist(data: Path, tool: Tool) -> None:
    status, lines, _ = tool("--delete-offsets", "--group", "g", "--topic", "none")
    assert status == 1
    assert lines[1].startswith("Error: Encounter some partition level error")
    assert lines[-1].split()[:3] == ["none", "Not", "Provided"]
    status, lines, _ = tool("--delete-offsets", "--group", "none", "--topic", "orders")
    assert (status, lines) == (1, ["'none' does not exist."])
    with kstore.open(data, "r") as store, store.consumer("orders", group="g"):
        status, lines, _ = tool("--delete-offsets", "--group", "g", "--topic", "orders")
    assert status == 1
    assert lines[0].startswith("Deleting offsets of a consumer group 'g' is forbidden if")


# --- wrong use, and the parts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Command must include exactly one action: --list, --describe"),
        (["--list", "--describe", "--all-groups"], "Command must include exactly one action"),
        (["--list", "--group", "g"], 'Option "[group]" can\'t be used with option "[list]"'),
        (["--list", "--topic", "t"], 'Option "[topic]" can\'t be used with option "[list]"'),
        (["--list", "--members", "--verbose"], "Option(s) [members, verbose] are unavailable"),
        (["--describe"], "Option [describe] takes one of these options: [all-groups], [group]"),
        (["--describe", "--group", "g", "--all-groups"], "can't be used with option"),
        (["--describe", "--group", "g", "--topic", "t"],
         'Option "[topic]" can\'t be used with option "[describe]"'),
        (["--describe", "--group", "g", "--state", "stable"], "does not take a value for [state]"),
        (["--describe", "--group", "g", "--type"], "Option(s) [type] are unavailable"),
        (["--describe", "--group", "g", "--execute"], "--execute goes with --reset-offsets"),
        (["--list", "--to-offset", "0"], "--to-offset goes with --reset-offsets"),
        (["--delete", "--group", "g", "--topic", "t"], "topic-specific offset deletion"),
        (["--delete", "--group", "g", "--members"], "Option(s) [members] are unavailable"),
        (["--list", "--state", "x"], "Invalid state list 'x'"),
        (["--delete-offsets", "--group", "g"], "following options: [topic], [group]"),
        (["--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"], "only one"),
        (["--list", "--timeout", "5"], "--timeout goes with --bootstrap-server"),
    ],
)  # fmt: skip
def test_invalid_options_of_consumer_groups_are_errors(
    tool: Tool, words: list[str], text: str
) -> None:
    status, lines, errors = tool(*words)
    assert (status, lines) == (1, [])
    assert text in errors[0]
    assert "usage: kstore consumer-groups" in "\n".join(errors)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--topic", "orders"], "requires one of the following scenarios: [[to-offset], [to-cu"),
        (["--to-latest"], "One of the reset scopes should be defined: --all-topics, --topic."),
        (["--to-latest", "--topic", "orders", "--all-topics"], '"[all-topics]" can\'t be used'),
        (["--to-latest", "--to-earliest", "--topic", "orders"],
         'Option "[to-earliest]" can\'t be used with option "[to-latest]"'),
        (["--to-latest", "--group", "g", "--verbose"], "Option(s) [verbose] are unavailable"),
        (["--to-latest", "--topic", "orders", "--execute", "--dry-run"], "only accepts one of"),
        (
            ["--to-datetime", "noon", "--topic", "orders", "--dry-run"],
            "2026-01-31, 2026-01-31T10:00 (UTC) or 2026-01-31T10:00:00+01:00, not 'noon'",
        ),
        (["--by-duration", "1 day", "--topic", "orders", "--dry-run"], "P1DT2H30M"),
        (["--shift-by", "1", "--topic", "orders:1", "--dry-run"], "Cannot shift offset"),
        (["--to-latest", "--topic", "none", "--dry-run"], "none does not exist"),
        (["--to-latest", "--topic", "orders:7", "--dry-run"], "orders-7 does not exist"),
        (["--to-latest", "--topic", "orders:x", "--dry-run"], "Invalid partition 'x'"),
        (["--from-file", "none.csv", "--dry-run"], "there is no file none.csv"),
    ],
)  # fmt: skip
def test_wrong_use_of_reset(data: Path, reset: Tool, words: list[str], text: str) -> None:
    status, lines, errors = reset(*words)
    assert (status, lines) == (1, [])
    assert text in errors[0]
    assert committed(data)["orders", 0] == 5


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("P1DT2H30M", 95_400_000),
        ("PT1.5S", 1500),
        ("PT0.0005S", 0),
        ("pt5m", 300_000),
        ("-PT1M", -60_000),
        ("P2DT-1H", 169_200_000),
    ],
)
def test_iso_durations_become_milliseconds(text: str, milliseconds: int) -> None:
    assert milliseconds_of(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1Y", "P1M", "1D", "P1DT", "PT1H1D", "9" * 5000])
def test_a_text_that_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(KStoreError, match="P1DT2H30M"):
        milliseconds_of(text)


def test_long_names_are_quoted_as_by_kafka() -> None:
    long = "a" * 25
    rows = [("g 1", TopicPartition(long, 0), 7)]
    assert to_csv(rows, with_group=True) == f'"g 1","{long}",0,7\n'
    assert to_csv(rows, with_group=False) == f'"{long}",0,7\n'
    assert from_csv(to_csv(rows, with_group=True), []) == {"g 1": {TopicPartition(long, 0): 7}}
    assert from_csv(to_csv(rows, with_group=False), ["g 1"]) == {None: {TopicPartition(long, 0): 7}}


@pytest.mark.parametrize("text", ["orders,0", "orders,x,1", "orders,0,-1", "a,b,c,d,e", "t,0,1"])
def test_rows_of_another_shape_are_refused(text: str) -> None:
    with pytest.raises(KStoreError, match="line 1 of the file reads group,topic,partition,offset"):
        from_csv(text, ["g", "h"])
