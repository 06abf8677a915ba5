"""--broker-list, which five of Kafka 3's tools have as an older name of --bootstrap-server."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import TOOLS, main

UNUSED = "127.0.0.1:1"  # nothing listens there
LINES: dict[str, list[str]] = {
    "get-offsets": ["--topic", "read"],
    "console-producer": ["--topic", "written"],
    "consumer-perf": ["--topic", "read", "--messages", "1", "--hide-header"],
    "verifiable-producer": ["--topic", "written", "--max-messages", "1"],
    "verifiable-consumer": ["--topic", "read", "--group-id", "v", "--max-messages", "1"],
}
ONE_OF_THEM = ("verifiable-producer", "verifiable-consumer")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        broker.store.create_topic("read")[0].append(b"v")
        broker.store.create_topic("written")
        yield broker


def run(name: str, *words: str, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> tuple[int, Any]:
    lines = SimpleNamespace(
        buffer=io.BytesIO(b"line\n"), isatty=lambda: False, fileno=io.BytesIO().fileno
    )
    monkeypatch.setattr("sys.stdin", lines)
    capfd.readouterr()
    status = main([name, *LINES[name], *words])
    return status, capfd.readouterr()


@pytest.mark.parametrize("name", LINES)
def test_it_names_the_server(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    end = broker.store["written"][0].end_offset
    words = ("--broker-list", broker.bootstrap_servers)
    status, printed = run(name, *words, monkeypatch=monkeypatch, capfd=capfd)
    assert (status, printed.err) == (0, "")
    written = broker.store["written"][0].end_offset - end
    assert written == (name in ("console-producer", "verifiable-producer"))
    if name == "get-offsets":
        assert printed.out == "read:0:1\n"
    elif name == "consumer-perf":
        assert printed.out.split(", ")[4] == "1"
    elif name == "verifiable-consumer":
        assert json.loads(printed.out.splitlines()[2])["count"] == 1


@pytest.mark.parametrize("name", [name for name in LINES if name not in ONE_OF_THEM])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_newer_name_takes_precedence(
    broker: Broker, name: str, is_first: bool, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    older = ("--broker-list", UNUSED)
    newer = ("--bootstrap-server", broker.bootstrap_servers)
    words = (*older, *newer) if is_first else (*newer, *older)
    assert run(name, *words, monkeypatch=monkeypatch, capfd=capfd)[0] == 0


@pytest.mark.parametrize("name", ONE_OF_THEM)
def test_verifiable_tools_take_one_of_the_names(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    for words, sentence in (
        (
            ("--broker-list", UNUSED, "--bootstrap-server", UNUSED),
            "argument --bootstrap-server: not allowed with argument --broker-list",
        ),
        ((), "one of the arguments --bootstrap-server --broker-list is required"),
    ):
        status, printed = run(name, *words, monkeypatch=monkeypatch, capfd=capfd)
        assert (status, printed.err.splitlines()[0]) == (1, sentence)


def test_it_does_not_go_with_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    words = ("--broker-list", UNUSED, "--log-dir", str(tmp_path))
    for name in ("get-offsets", "console-producer"):
        status, printed = run(name, *words, monkeypatch=monkeypatch, capfd=capfd)
        assert status == 1
        assert "name a directory by --log-dir or a server by" in printed.err


def test_a_consumer_without_a_server_misses_its_newer_name(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    status, printed = run("consumer-perf", monkeypatch=monkeypatch, capfd=capfd)
    assert (status, printed.out) == (1, "")
    assert printed.err.startswith('Missing required argument "[bootstrap-server]"\n')


@pytest.mark.parametrize("name", sorted({*TOOLS} - {*LINES, "log-dirs", "reassign-partitions"}))
def test_no_other_tool_has_it(name: str, capfd: Any) -> None:
    """Those two have another option of this name, which lists brokers by id."""
    assert main([name, "--broker-list", UNUSED]) == 1
    assert "--broker-list" not in capfd.readouterr().out
