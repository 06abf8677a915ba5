"""kstore topics --topic-id: a topic by its id, in a directory and on a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore.cli import main

UNKNOWN, NONE = "AAAAAAAAAAAAAAAAAAAAAQ", "A" * 22


@pytest.fixture(params=["directory", "server"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[list[str], str]]:
    """The option that names the store, and the id of its topic b; a is another one."""
    with kstore.open(tmp_path) as store:
        store.create_topic("a")
        name = store.create_topic("b", 2).topic_id
        assert name is not None
        if request.param == "server":
            with kstore.Broker(store, port=0) as broker:
                yield ["--bootstrap-server", broker.bootstrap_servers], name
            return
    yield ["--log-dir", str(tmp_path)], name


def test_a_topic_is_described_by_its_id(
    where: tuple[list[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    options, name = where
    for words in (["--topic-id", name], ["--topic-id", name, "--topic", "a"]):
        assert main(["topics", "--describe", *words, *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"Topic: b\tTopicId: {name}\tPartitionCount: 2")
        assert len(lines) == 3
    assert main(["topics", "--describe", "--topic-id", NONE, "--topic", "a", *options]) == 0
    assert capsys.readouterr().out.startswith("Topic: a\t")


def test_an_unknown_id_is_an_error_unless_the_topic_may_be_missing(
    where: tuple[list[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    options, _ = where
    asked = ["topics", "--describe", "--topic-id"]
    assert main([*asked, UNKNOWN, *options]) == 1
    assert f"TopicId '{UNKNOWN}' does not exist as expected" in capsys.readouterr().out
    assert main([*asked, UNKNOWN, "--if-exists", *options]) == 0
    assert capsys.readouterr().out == ""
    assert main([*asked, "nope", *options]) == 1
    assert "not a UUID in 22 characters" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["--list", "--delete", "--alter"])
def test_other_actions_refuse_an_id(
    where: tuple[list[str], str], action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options, name = where
    words = ["--topic", "b"] if action != "--list" else []
    words += ["--partitions", "3"] if action == "--alter" else []
    assert main(["topics", action, *words, "--topic-id", name, *options]) == 1
    assert "topic-id" in capsys.readouterr().err
    assert main(["topics", "--list", *options]) == 0
    assert capsys.readouterr().out == "a\nb\n"


def test_the_limit_of_partitions_in_a_response_does_not_change_what_is_printed(
    where: tuple[list[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    options, _ = where
    asked = ["topics", "--describe", *options]
    assert main(asked) == 0
    expected = capsys.readouterr().out
    assert main([*asked, "--partition-size-limit-per-response", "1"]) == 0
    assert capsys.readouterr().out == expected
