"""reassign-partitions prints and does what Kafka's tool does, on Kafka and on kstore."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode
from interop.node import Node
from kstore import cli
from support.waiting import until

VERSION = "3.9.2"
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
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


def ours(
    served: Served, action: str, path: Path, capfd: pytest.CaptureFixture[str], *words: object
) -> str:
    capfd.readouterr()
    asked = ("reassign-partitions", "--bootstrap-server", served.address, action)
    assert cli.main([*asked, "--reassignment-json-file", str(path), *map(str, words)]) == 0
    return capfd.readouterr().out


def verified(served: Served, path: Path) -> str:
    """What Kafka's tool says once the moves have ended."""
    return once_ended(lambda: theirs(served, "--verify", path))


def once_ended(verify: Callable[[], str]) -> str:
    said: list[str] = []

    def has_ended() -> bool:
        said.append(verify())
        return "in progress" not in said[-1]

    until(has_ended, said=lambda: said[-1])
    return said[-1]


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


def test_a_move_that_is_not_complete(
    served: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both tools report the move, and both cancel one."""
    start, path = large_topic(served, "large", tmp_path)
    endings = []
    for who in ("theirs", "ours"):
        slowly = ("--replica-alter-log-dirs-throttle", 1)
        theirs(served, "--execute", path, *slowly)
        pending = theirs(served, "--verify", path)
        assert "still in progress" in pending
        assert ours(served, "--verify", path, capfd) == pending
        if who == "theirs":
            endings.append(theirs(served, "--cancel", path))
        else:
            endings.append(ours(served, "--cancel", path, capfd))
        cancelled = once_ended(lambda: theirs(served, "--verify", path))
        assert "is not being moved" in cancelled
        assert ours(served, "--verify", path, capfd) == cancelled
    assert endings[0] == endings[1]
    assert folder_of(served, "large-0") == start


def test_throttles(served: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both tools slow a move down, change its throttle, and remove all throttles at its end."""
    found: list[list[str]] = []
    for who in ("theirs", "ours"):
        topic = f"throttled-{who}"
        start, path = large_topic(served, topic, tmp_path)

        def tool(action: str, *options: object, who: str = who, path: Path = path) -> str:
            if who == "theirs":
                return theirs(served, action, path, *options)
            return ours(served, action, path, capfd, *options)

        printed = tool("--execute", *limits(throttle=5000, log_dirs=1))
        slow = settings(served, topic, capfd, lambda text: f"{RATE}=1 " in text)
        pending = tool("--verify")
        assert "still in progress" in pending
        printed += tool("--execute", "--additional", *limits(throttle=-1, log_dirs=10**9))
        fast = settings(served, topic, capfd, lambda text: f"{RATE}=1000000000 " in text)
        printed += once_ended(partial(tool, "--verify"))
        assert folder_of(served, f"{topic}-0") != start
        seen = [printed, slow, pending, fast]
        assert settings(served, topic, capfd, lambda text: "=" not in text)
        target = str(folder_of(served, f"{topic}-0"))
        found.append([each.replace(target, "DIR").replace(topic, "TOPIC") for each in seen])
    assert found[0] == found[1]
    printed, slow, _, fast = found[0]
    assert printed.count("\nWarning: You must run --verify periodically, until") == 2
    assert printed.count("\nThe inter-broker throttle limit was set to 5000 B/s\n") == 1
    assert "\nThe replica-alter-dir throttle limit was set to 1000000000 B/s\n" in printed
    assert [line.split()[0] for line in slow.splitlines() if line.startswith(" ")] == [
        "follower.replication.throttled.rate=5000",
        "leader.replication.throttled.rate=5000",
        f"{RATE}=1",
        "follower.replication.throttled.replicas=",
        "leader.replication.throttled.replicas=0:1",
    ]
    assert fast == slow.replace(f"{RATE}=1", f"{RATE}=1000000000")


def large_topic(served: Served, topic: str, tmp_path: Path) -> tuple[Path, Path]:
    """A topic whose move takes several fetches: its directory, and a file that moves it."""
    served.create_topic(topic)
    served.produce(topic, [("k", "v" * 1000)] * 4000)
    start, other = folder_of(served, f"{topic}-0"), second_dir(served)
    target = other if start == served.log_dir else served.log_dir
    return start, moves(tmp_path / f"{topic}.json", topic, target)


def limits(*, throttle: int, log_dirs: int) -> tuple[object, ...]:
    return "--throttle", throttle, "--replica-alter-log-dirs-throttle", log_dirs


def settings(
    served: Served,
    topic: str,
    capfd: pytest.CaptureFixture[str],
    is_wanted: Callable[[str], bool],
) -> str:
    """What is set of the broker and the topic; a change reaches Kafka's broker after a while."""
    said: list[str] = []

    def is_set() -> bool:
        capfd.readouterr()
        for kind, name in (("brokers", "1"), ("topics", topic)):
            asked = ("--entity-type", kind, "--entity-name", name)
            cli.main(["configs", "--bootstrap-server", served.address, "--describe", *asked])
        said.append(capfd.readouterr().out)
        return is_wanted(said[-1])

    until(is_set, said=lambda: said[-1])
    return said[-1]
