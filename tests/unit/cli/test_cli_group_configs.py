"""``kstore configs --entity-type groups`` of a server: Kafka 4.3's lines."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main

Run = Callable[..., tuple[int, str, str]]
TIMEOUT = "consumer.session.timeout.ms=50000"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t")
        store.alter_group_offsets("reader", {("t", 0): 0})
        with kstore.Broker(store, port=0) as broker:
            yield broker


@pytest.fixture
def run(broker: kstore.Broker, capsys: Any) -> Run:
    def run(action: str, *words: str) -> tuple[int, str, str]:
        server = ("--bootstrap-server", broker.bootstrap_servers, "--entity-type", "groups")
        status = main(["configs", f"--{action}", *server, *words])
        return status, *capsys.readouterr()

    return run


def test_settings_of_a_group_are_altered_and_described(run: Run) -> None:
    group = ("--entity-name", "g")
    missing = "The group 'g' doesn't exist and doesn't have dynamic config.\n"
    assert run("describe", *group) == (0, missing, "")
    said = "Completed updating config for group g.\n"
    assert run("alter", *group, "--add-config", TIMEOUT) == (0, said, "")
    own = (
        "Dynamic configs for group g are:\n"
        f"  {TIMEOUT} sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{TIMEOUT}, "
        "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}\n"
    )
    assert run("describe", *group) == (0, own, "")
    assert run("describe") == (0, own + "Dynamic configs for group reader are:\n", "")
    assert "consumer.heartbeat.interval.ms=5000" in run("describe", *group, "--all")[1].split()
    assert run("alter", *group, "--delete-config", "consumer.session.timeout.ms")[0] == 0
    assert run("describe", *group) == (0, missing, "")


@pytest.mark.parametrize("change", ["no.such.setting=1", "consumer.session.timeout.ms=1"])
def test_a_refused_setting_is_named(run: Run, change: str) -> None:
    status, _, said = run("alter", "--entity-name", "g", "--add-config", change)
    assert status == 1
    assert change.split("=")[0] in said


def test_a_directory_has_no_groups_with_settings(tmp_path: Path, capsys: Any) -> None:
    words = ("--entity-type", "groups", "--entity-name", "g", "--log-dir", str(tmp_path))
    assert main(["configs", "--describe", *words]) != 0
    assert "must be one of topics" in capsys.readouterr().err


def test_a_change_needs_a_name(run: Run) -> None:
    status, _, said = run("alter", "--add-config", TIMEOUT)
    assert status != 0
    assert "with --alter of groups" in said
