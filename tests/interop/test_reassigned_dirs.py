"""reassign-partitions prints and does what Kafka's tool does, on Kafka and on kstore."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode
from interop.node import Node
from kstore import cli

VERSION = "3.9.2"
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
Served = Node | KstoreNode


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A node with two log directories."""
    libs(VERSION)
    root = tmp_path_factory.mktemp("served")
    node: Served
    if request.param == "kstore":
        node = KstoreNode(root)
        (root / "log-dir-2").mkdir()
        node.options = ["--log-dir", str(root / "log-dir-2")]
    else:
        node = Node(VERSION, root, dirs=2)
    try:
        node.start()
        yield node
    finally:
        node.kill()


def moves(path: Path, topic: str, *log_dirs: object) -> Path:
    """A file that moves the partitions of a topic."""
    entries = [
        {"topic": topic, "partition": number, "replicas": [1], "log_dirs": [str(log_dir)]}
        for number, log_dir in enumerate(log_dirs)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def theirs(served: Served, action: str, path: Path, *words: object) -> str:
    asked = ("--bootstrap-server", served.address, action, "--reassignment-json-file", path)
    return run(VERSION, TOOL, *asked, *words).stdout.decode()


def ours(served: Served, action: str, path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    asked = ("reassign-partitions", "--bootstrap-server", served.address, action)
    assert cli.main([*asked, "--reassignment-json-file", str(path)]) == 0
    return capfd.readouterr().out


def verified(served: Served, path: Path) -> str:
    """What Kafka's tool says once the moves have ended."""
    until = time.monotonic() + 60
    while "in progress" in (text := theirs(served, "--verify", path)):
        assert time.monotonic() < until, text
    return text


def second_dir(served: Served) -> Path:
    return served.log_dir.parent / "log-dir-2"


def test_moves(served: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each tool moves two partitions; what they print differs in the topic's name only."""
    other = second_dir(served)
    found = []
    for who in ("first", "other"):
        served.create_topic(who, partitions=3)
        served.produce(who, [(f"k{number}", "v") for number in range(20)])
        start = {number: folder_of(served, f"{who}-{number}") for number in range(3)}
        targets = [other if start[n] == served.log_dir else served.log_dir for n in (0, 1)]
        path = moves(tmp_path / f"{who}.json", who, *targets, "any")
        if who == "first":
            printed = theirs(served, "--execute", path)
        else:
            printed = ours(served, "--execute", path, capfd)
        ended = verified(served, path)
        assert ours(served, "--verify", path, capfd) == ended
        assert [folder_of(served, f"{who}-{n}") for n in (0, 1)] == targets
        assert folder_of(served, f"{who}-2") == start[2]
        assert len(served.consume(who, 20)) == 20
        # No move is left to cancel.
        assert ours(served, "--cancel", path, capfd) == theirs(served, "--cancel", path)
        for number, target in enumerate(targets):
            printed = printed.replace(f"to {target} for replica {who}-{number}", f"to {number}")
        found.append(printed.replace(who, "topic"))
    assert found[0] == found[1]


def folder_of(served: Served, name: str) -> Path:
    """The log directory that has a partition."""
    (found,) = (path for path in (served.log_dir, second_dir(served)) if (path / name).is_dir())
    return found


def test_a_move_that_is_not_complete(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On Kafka, whose moves can be throttled: both tools report the move, and both cancel one."""
    libs(VERSION)
    node = Node(VERSION, tmp_path, dirs=2)
    try:
        node.start()
        node.create_topic("large")
        node.produce("large", [("k", "v" * 1000)] * 4000)  # several fetches
        start = folder_of(node, "large-0")
        target = second_dir(node) if start == node.log_dir else node.log_dir
        path = moves(tmp_path / "moves.json", "large", target)
        endings = []
        for who in ("theirs", "ours"):
            slowly = ("--replica-alter-log-dirs-throttle", 1)
            theirs(node, "--execute", path, *slowly)
            pending = theirs(node, "--verify", path)
            assert "still in progress" in pending
            assert ours(node, "--verify", path, capfd) == pending
            if who == "theirs":
                endings.append(theirs(node, "--cancel", path))
            else:
                endings.append(ours(node, "--cancel", path, capfd))
            assert "is not being moved" in theirs(node, "--verify", path)
        assert endings[0] == endings[1]
        assert folder_of(node, "large-0") == start
    finally:
        node.kill()
