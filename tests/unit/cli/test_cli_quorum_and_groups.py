"""kstore metadata-quorum and kstore groups, on a broker and on what other servers answer."""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main
from kstore.cli.groups import is_wanted
from kstore.cli.metadata_quorum import replication_rows, status_lines
from kstore.errors import KStoreError
from kstore.remote.groups import ListedGroup
from kstore.remote.quorum import Quorum, Replica

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]
NONE = '"directoryId": null'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"offsets.topic.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        broker.store.create_topic("orders")
        for group in ("billing", "a-group-with-a-long-name"):
            with broker.store.consumer("orders", group=group) as consumer:
                consumer.commit({("orders", 0): 0})
        yield broker


@pytest.fixture
def tool(broker: Broker, capfd: Any) -> Tool:
    def run(*words: str) -> Outcome:
        capfd.readouterr()
        status = main([*words, "--bootstrap-server", broker.bootstrap_servers])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def test_the_status_has_kafkas_lines(broker: Broker, tool: Tool) -> None:
    status, lines, errors = tool("metadata-quorum", "describe", "--status")
    assert (status, errors) == (0, [])
    assert [line[:24].rstrip() for line in lines] == [
        "ClusterId:", "LeaderId:", "LeaderEpoch:", "HighWatermark:", "MaxFollowerLag:",
        "MaxFollowerLagTimeMs:", "CurrentVoters:", "CurrentObservers:",
    ]  # fmt: skip
    values = [line[24:] for line in lines]
    assert len(values[0]) == 22
    assert values[1:3] == ["0", "1"]
    assert values[3].isdecimal()
    endpoint = f"PLAINTEXT://127.0.0.1:{broker.port}"
    assert values[4:] == ["0", "0", f'[{{"id": 0, {NONE}, "endpoints": ["{endpoint}"]}}]', "[]"]


def test_the_replication_is_a_table(tool: Tool) -> None:
    status, lines, _ = tool("metadata-quorum", "describe", "--replication")
    assert status == 0
    header, row = (re.split(r" *\t", line) for line in lines)
    assert header == [
        "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp",
        "LastCaughtUpTimestamp", "Status", "",
    ]  # fmt: skip
    assert (row[0], row[1], row[3], row[6]) == ("0", "A" * 22, "0", "Leader")
    assert row[4].isdecimal()
    _, lines, _ = tool("metadata-quorum", "describe", "--replication", "--human-readable")
    assert re.fullmatch(r"\d{1,4} ms ago", re.split(r" *\t", lines[1])[4])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--status", "--replication"], "Only one of --status or --replication should be"),
        ([], "One of --status or --replication must be specified with describe sub-command"),
        (["--status", "--human-readable"], "The option --human-readable is only supported along"),
    ],
)
def test_wrong_options_get_kafkas_sentences(tool: Tool, words: list[str], text: str) -> None:
    status, lines, errors = tool("metadata-quorum", "describe", *words)
    assert (status, lines) == (1, [])
    assert errors[0].startswith(text)


DIRECTORY = "KkfQFslATR-nwp1ii66Mkw"


def quorum(*, leader: int = 1, caught_up: int = 1000) -> Quorum:
    """Three controllers, of which 2 is behind, and a broker."""
    voters = (
        Replica(2, None, 70, 900, caught_up),
        Replica(1, DIRECTORY, 100, 1500, 1500),
        Replica(3, None, 100, 1400, 1400),
    )
    endpoints = {1: ("CONTROLLER://a:9093", "CONTROLLER://[::1]:9094")}
    return Quorum(leader, 5, 90, voters, (Replica(4, None, 60, -1, -1),), endpoints)


def test_a_follower_s_lag_is_shown() -> None:
    lines = status_lines(quorum(), "id")
    assert lines[4:6] == ["MaxFollowerLag:         30", "MaxFollowerLagTimeMs:   500"]
    assert lines[6][24:] == (
        f'[{{"id": 2, {NONE}}}, {{"id": 1, "directoryId": "{DIRECTORY}", "endpoints": '
        f'["CONTROLLER://a:9093", "CONTROLLER://[::1]:9094"]}}, {{"id": 3, {NONE}}}]'
    )
    assert lines[7][24:] == f'[{{"id": 4, {NONE}}}]'
    assert status_lines(quorum(caught_up=-1), "id")[5].endswith(" -1")
    with pytest.raises(KStoreError, match="the leader of the quorum, node 9, is no voter"):
        status_lines(quorum(leader=9), "id")


def test_the_leader_comes_first_and_observers_last() -> None:
    rows = replication_rows(quorum(), human=False)
    assert [(row[0], row[3], row[6]) for row in rows] == [
        (1, 0, "Leader"), (2, 30, "Follower"), (3, 0, "Follower"), (4, 40, "Observer"),
    ]  # fmt: skip
    assert rows[3][4:6] == ("-1", "-1")
    assert replication_rows(quorum(), human=True)[3][4:6] == ("-1", "-1")


def test_groups_are_a_table_as_wide_as_the_longest_cell(tool: Tool) -> None:
    status, lines, errors = tool("groups", "--list")
    assert (status, errors) == (0, [])
    width = len("a-group-with-a-long-name")
    assert lines == [
        f"{'GROUP':<{width}} {'TYPE':<{width}} {'PROTOCOL':<{width}}",
        f"{'a-group-with-a-long-name':<{width}} {'Classic':<{width}} {'consumer':<{width}} ",
        f"{'billing':<{width}} {'Classic':<{width}} {'consumer':<{width}} ",
    ]
    assert tool("groups", "--list", "--share") == (0, [" ".join(
        f"{name:<20}" for name in ("GROUP", "TYPE", "PROTOCOL")
    )], [])  # fmt: skip


GROUPS = [
    ListedGroup("c", "consumer", "Stable", "classic"),
    ListedGroup("e", "", "Empty", "classic"),
    ListedGroup("t", "connect", "Stable", "classic"),
    ListedGroup("n", "consumer", "Stable", "Consumer"),
    ListedGroup("s", "share", "Stable", "share"),
    ListedGroup("m", "streams", "Stable", "streams"),
]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, "cetnsm"),
        ({"group_type": "CLASSIC"}, "cet"),
        ({"group_type": "classic", "protocol": "connect"}, "t"),
        ({"protocol": "consumer"}, "cn"),
        ({"consumer": True}, "cen"),
        ({"share": True}, "s"),
        ({"streams": True}, "m"),
    ],
)
def test_filters(filters: dict[str, object], found: str) -> None:
    none = {"group_type": None, "protocol": None, "consumer": 0, "share": 0, "streams": 0}
    arguments = Namespace(**{**none, **filters})
    assert "".join(each.group_id for each in GROUPS if is_wanted(each, arguments)) == found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Command must include exactly one action: --list."),
        (["--list", "--group-type", "x"], "--group-type must be a valid group type."),
        (["--list", "--share", "--protocol", "x"], 'Option "[share]" can\'t be used with option '),
        (["--list", "--consumer", "--share"], 'Option "[consumer]" can\'t be used with option "['),
    ],
)
def test_wrong_options_of_groups(tool: Tool, words: list[str], text: str) -> None:
    status, lines, errors = tool("groups", *words)
    assert (status, lines) == (1, [])
    assert errors[0].startswith(text)
