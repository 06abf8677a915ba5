"""The groups of directories that real brokers wrote, compared with Kafka's own dump of them."""

import json
import re
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import unpack
from kstore.errors import GroupIdNotFoundError
from support.stores import QUIET

_RECORD = re.compile(r"^\| offset: .* key: (\{.*?\}\}) payload: (.*)$", re.MULTILINE)


@pytest.fixture(params=["3.9.2", "4.3.0"])
def broker_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(f"made-kraft-{request.param}-clean", tmp_path)


def dumped(broker_dir: Path) -> tuple[set[str], dict[tuple[str, str, int], tuple[int, str]]]:
    """The groups, and their offsets and metadata, as DumpLogSegments --offsets-decoder shows."""
    last: dict[str, tuple[dict[str, str], str]] = {}
    for key, payload in _RECORD.findall((broker_dir / "dump.txt").read_text()):
        last[key] = (json.loads(key), payload)
    groups, commits = set(), {}
    for key, payload in last.values():
        data = key["data"]
        if "data" not in payload or not isinstance(data, dict) or "transactionalId" in data:
            continue
        group = data.get("group") or data.get("groupId")
        groups.add(group)
        if key["type"] == "1":
            value = json.loads(payload)["data"]
            tp = (group, data["topic"], data["partition"])
            commits[tp] = (value["offset"], value["metadata"])
    return groups, commits


def test_groups_are_those_of_kafkas_dump(broker_dir: Path) -> None:
    groups, commits = dumped(broker_dir)
    assert len(groups) >= 5
    with kstore.open(broker_dir / "log-dir", "r") as store:
        found = store.groups()
    assert set(found) == groups
    assert all(group.error is None for group in found.values())
    plain = {tp: each for tp, each in commits.items() if tp[0] != "group-tx"}
    assert len(plain) >= 4
    assert {
        (group.name, *tp): (each.offset, each.metadata)
        for group in found.values()
        for tp, each in group.offsets.items()
        if group.name != "group-tx"  # its last commits were aborted
    } == plain
    assert all(each.lag is not None for group in found.values() for each in group.offsets.values())


def test_a_group_of_a_broker_is_deleted_with_its_members(broker_dir: Path) -> None:
    with kstore.open(broker_dir / "log-dir", config=QUIET) as store:
        for group in list(store.groups()):
            store.delete_group(group)
        assert store.groups() == {}
        with pytest.raises(GroupIdNotFoundError):
            store.delete_group("joined")


def test_the_tool_shows_the_groups(broker_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from kstore.cli import main

    groups, commits = dumped(broker_dir)
    assert main(["consumer-groups", "--list", "--log-dir", str(broker_dir / "log-dir")]) == 0
    assert capfd.readouterr().out.split() == sorted(groups)
    words = ["--describe", "--all-groups", "--log-dir", str(broker_dir / "log-dir")]
    assert main(["consumer-groups", *words]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    shown = {(row[0], row[1], int(row[2])): int(row[3]) for row in rows if row and row[-4:] != [
        "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]}  # fmt: skip
    plain = {tp: each[0] for tp, each in commits.items() if tp[0] != "group-tx"}
    assert {tp: each for tp, each in shown.items() if tp[0] != "group-tx"} == plain
