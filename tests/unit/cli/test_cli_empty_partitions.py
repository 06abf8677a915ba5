"""The fifty partitions of an internal topic: one line for those without a record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main

Tool = Callable[..., tuple[int, list[str]]]
USED = "__consumer_offsets-2"  # group-4 belongs there


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One commit, in one of the fifty partitions of __consumer_offsets."""
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("orders")[0].append(b"v")
        with store.consumer("orders", group="group-4") as consumer:
            consumer.commit({("orders", 0): 1})
    assert [each.parent.name for each in path.glob("__*/*.log") if each.stat().st_size] == [USED]
    return path


@pytest.fixture
def tool(data: Path, capfd: Any) -> Tool:
    def run(name: str, *words: str) -> tuple[int, list[str]]:
        status = main([name, *words, "--log-dir", str(data)])
        return status, capfd.readouterr().out.splitlines()

    return run


def of_internal_topics(lines: list[str]) -> list[str]:
    return [line for line in lines if "__consumer_offsets" in line]


def test_verify_has_one_line_for_empty_internal_partitions(tool: Tool) -> None:
    status, lines = tool("verify")
    assert status == 0
    used, empty = of_internal_topics(lines)
    assert used.startswith(f"{USED}: ok (1 segment, 1 batch, ")
    assert empty == "__consumer_offsets: 49 empty partitions, ok"
    assert lines[-1].startswith("51 partitions: all ok (2 batches, ")
    status, lines = tool("verify", "--json")
    assert len(json.loads("\n".join(lines))["partitions"]) == 51


def test_an_empty_partition_with_a_finding_has_its_line(data: Path, tool: Tool) -> None:
    (data / "__consumer_offsets-3" / "leader-epoch-checkpoint").write_text("nonsense")
    _, lines = tool("verify")
    assert any(line.startswith("__consumer_offsets-3: 1 ") for line in lines)
    assert "__consumer_offsets: 48 empty partitions, ok" in lines


def test_describe_has_one_line_for_empty_internal_partitions(tool: Tool) -> None:
    _, lines = tool("topics", "--describe")
    header, used, empty = of_internal_topics(lines)
    assert header.startswith("Topic: __consumer_offsets\t")
    assert used.startswith("\tTopic: __consumer_offsets\tPartition: 2\t")
    assert empty == (
        "\t__consumer_offsets: 49 empty partitions, shown with --topic __consumer_offsets"
    )
    _, lines = tool("topics", "--describe", "--topic", "__consumer_offsets")
    assert len(lines) == 51


@pytest.mark.parametrize(
    "words", [["recompress", "--compression", "zstd"], ["convert"], ["reindex"], ["compact"]]
)
def test_tools_that_change_each_partition(tool: Tool, words: list[str]) -> None:
    status, lines = tool(*words)
    assert status == 0
    used, empty = of_internal_topics(lines)
    assert used.startswith(f"{USED}: ")
    assert empty == "__consumer_offsets: 49 empty partitions, nothing to do"


def test_repair_has_one_line_for_empty_internal_partitions(tool: Tool) -> None:
    status, lines = tool("repair")
    assert status == 0
    used, empty = of_internal_topics(lines)
    assert used.startswith(f"{USED}: ok, 1 batch kept ")
    assert empty == "__consumer_offsets: 49 empty partitions, ok"


def test_partitions_of_a_users_topic_have_their_lines(data: Path, tool: Tool) -> None:
    with kstore.open(data) as store:
        store.create_topic("empty", partitions=3)
    _, lines = tool("verify", "--topic", "empty")
    assert [line.partition(":")[0] for line in lines[:-1]] == ["empty-0", "empty-1", "empty-2"]


def test_what_programs_read_lists_every_partition_as_kafkas_tools_do(tool: Tool) -> None:
    """Of GetOffsetShell and LogDirsCommand, which include internal topics unless asked not to."""
    status, lines = tool("get-offsets")
    assert (status, len(of_internal_topics(lines)), len(lines)) == (0, 50, 51)
    assert tool("get-offsets", "--exclude-internal-topics") == (0, ["orders:0:1"])
    (described,) = tool("log-dirs", "--describe")[1]
    (log_dir,) = json.loads(described)["brokers"][0]["logDirs"]
    assert len(log_dir["partitions"]) == 51
    (described,) = tool("log-dirs", "--describe", "--topic-list", "orders")[1]
    (log_dir,) = json.loads(described)["brokers"][0]["logDirs"]
    assert [each["partition"] for each in log_dir["partitions"]] == ["orders-0"]
