"""A directory that a broker and kstore serve by turns: what the broker lacks or would delete."""

import json
import time
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from kstore.cluster.client_quotas import entity_of
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp
from kstore.errors import HandoverError
from kstore.handover import HandoverReport, check_broker, hand_over, plan_handover
from kstore.security.acl import Acl, AclOperation, PatternType, Permission, ResourceType
from kstore.security.acl_store import AclStore
from kstore.security.authorizer import Authorizer
from kstore.security.credentials import Credentials
from kstore.security.scram import ScramCredential
from support import metadata
from support.serve_process import WAIT, serving
from support.stores import QUIET, snapshot
from unit.handover.test_handover import broker, refusals, warnings

IDS = {
    "t": "AAAAAAAAAAAAAAAAAAABAA",
    "u": "AAAAAAAAAAAAAAAAAAACAA",
    "__consumer_offsets": "AAAAAAAAAAAAAAAAAAADAA",
}
ACL = Acl(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:al", "*", AclOperation.READ,
    Permission.ALLOW,
)  # fmt: skip
CONFIGS = "kafka-configs --bootstrap-server HOST:PORT --alter --entity-type"
NOW = time.time_ns() // 1_000_000


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The directory of a stopped broker with three topics, which its metadata have."""
    path = broker(tmp_path / "shared", *(f"{name}-0" for name in IDS))
    for name, topic_id in IDS.items():
        (path / f"{name}-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    topics = [metadata.topic(name, topic_id) for name, topic_id in IDS.items()]
    metadata.write(path, *topics, *(metadata.partition(each, 0) for each in IDS.values()))
    return path


def append_old(path: Path, topic: str) -> int:
    """Append a segment that is older than Kafka's retention, and a new one; returns its size."""
    with kstore.open(path, config=QUIET) as store:
        log = store[topic][0]
        log.append(b"x" * 100, timestamp=NOW - 8 * 86_400_000)
        log.roll()
        log.append(b"new")
        return log.segments.views[0].size


def turn(path: Path) -> HandoverReport:
    return plan_handover(path, path)


def test_what_was_set_in_kstore_becomes_commands(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kstore.open(shared, config=QUIET) as store:
        there = LocalMetadata(store)
        there.alter_topic_config("t", [(AlterOp.SET, "retention.ms", "3600000")])
        there.alter_broker_config([(AlterOp.SET, "max.connections", "500")])
        there.alter_client_quotas(
            [(entity_of({"user": "al"}.items()), {"producer_byte_rate": 1024.0})]
        )
        there.close()
        AclStore(store._manager._dirs, Authorizer((), allows_everyone=False)).create([ACL])
        credential = ScramCredential(b"s" * 16, b"stored" * 5, b"server" * 5, 8192)
        Credentials(store._manager._dirs).alter([("al", "SCRAM-SHA-256", credential)])
    before = snapshot(shared)
    words = ["handover", "--log-dir", str(shared), "--to", str(shared)]
    assert main([*words, "--execute"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "nothing is copied; start the broker and run the commands"
    commands = [
        f"{CONFIGS} topics --entity-name t --add-config retention.ms=3600000",
        "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:al --allow-host '*' "
        "--operation Read --topic t",
        f"{CONFIGS} users --entity-name al "
        "--add-config 'SCRAM-SHA-256=[iterations=8192,password=NEW_PASSWORD]'",
        f"{CONFIGS} brokers --entity-name 1 --add-config max.connections=500",
        f"{CONFIGS} users --entity-name al --add-config producer_byte_rate=1024.0",
    ]
    assert [line for line in printed if line.startswith("command")] == [
        f"command: {each}" for each in commands
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["commands"], found["partitions"]) == (commands, [])
    assert found["is_same_directory"]
    assert not hand_over(shared, shared).executed
    assert snapshot(shared) == before


def test_a_directory_that_kstore_only_appended_to_needs_no_command(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kstore.open(shared, config=QUIET) as store:
        store["t"][0].append(b"x")
    report = turn(shared)
    assert (report.ok, report.commands, warnings(report)) == (True, [], [])
    assert main(["handover", "--log-dir", str(shared), "--to", str(shared)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is copied; no command is needed"


def test_records_that_the_brokers_retention_would_delete(shared: Path) -> None:
    size = append_old(shared, "t")
    command = f"{CONFIGS} topics --entity-name t --add-config retention.ms=-1"
    report = turn(shared)
    [warning] = warnings(report)
    assert f"(retention.ms=604800000, retention.bytes=-1) would delete {size:,} bytes" in warning
    assert "from 30 seconds after its start on: run the command below" in warning
    assert report.commands == [command]

    metadata.write(shared, metadata.setting("t", "retention.ms", "1000"))
    report = turn(shared)
    assert any("retention.ms=1000" in each for each in warnings(report))
    assert report.commands == [command]


@pytest.mark.parametrize(
    "kept",
    [
        metadata.setting("t", "retention.ms", "-1"),
        metadata.broker_setting("", "log.retention.ms", "-1"),
        metadata.broker_setting("1", "log.retention.ms", "-1"),
    ],
    ids=("topic", "all brokers", "broker"),
)
def test_records_that_the_broker_keeps_by_its_settings(shared: Path, kept: bytes) -> None:
    append_old(shared, "t")
    metadata.write(shared, kept)
    report = turn(shared)
    assert (report.commands, warnings(report)) == ([], [])


def test_records_that_the_broker_would_delete_after_the_commands(shared: Path) -> None:
    append_old(shared, "t")
    metadata.write(shared, metadata.broker_setting("", "log.retention.ms", "-1"))
    with kstore.open(shared, config=QUIET) as store:
        there = LocalMetadata(store)
        there.alter_broker_config([(AlterOp.SET, "log.retention.ms", "7200000")], for_all=True)
        there.close()
    report = turn(shared)
    assert any("retention.ms=7200000" in each for each in warnings(report))
    topic, brokers = report.commands
    assert topic.endswith("--entity-name t --add-config retention.ms=-1")
    assert brokers.endswith("--entity-default --add-config log.retention.ms=7200000")


def test_a_setting_of_the_topic_takes_precedence_over_keeping_all(shared: Path) -> None:
    append_old(shared, "t")
    with kstore.open(shared, config=QUIET) as store:
        store.alter_topic("t", {"retention.ms": 30 * 86_400_000})
    report = turn(shared)
    assert len(warnings(report)) == 1
    assert report.commands == [
        f"{CONFIGS} topics --entity-name t --add-config retention.ms={30 * 86_400_000}"
    ]


def test_only_the_topics_that_are_named(shared: Path) -> None:
    append_old(shared, "t")
    append_old(shared, "u")
    assert len(turn(shared).commands) == 2
    report = plan_handover(shared, shared, topics=["u"])
    assert [each.where for each in report.findings if each.level == "warning"] == ["u"]
    assert ["--entity-name u" in each for each in report.commands] == [True]
    assert refusals(plan_handover(shared, shared, topics=["none"])) == [
        "the directory has no such topic"
    ]


def test_a_topic_that_was_created_in_kstore_is_refused(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kstore.open(shared, config=QUIET) as store:
        store.create_topic("new", config={"retention.ms": 5000})[0].append(b"x")
    assert main(["handover", "--log-dir", str(shared), "--to", str(shared)]) == 2
    printed = capsys.readouterr().out
    assert "the cluster has no topic 'new'" in printed
    assert f"{CONFIGS} topics --entity-name new --add-config retention.ms=5000" in printed
    with pytest.raises(HandoverError, match="'new'"):
        hand_over(shared, shared)


def test_options_of_a_copy_and_directories_in_part_are_refused(
    shared: Path, tmp_path: Path
) -> None:
    for options in ({"topic_ids": {"t": IDS["t"]}}, {"abort_open_transactions": True}):
        [refusal] = refusals(plan_handover(shared, shared, **options))
        assert "nothing is copied" in refusal
    second = broker(tmp_path / "second")
    meta = (second / "meta.properties").read_text()
    (second / "meta.properties").write_text(meta.replace("ABQQ", "AHQQ"))
    assert plan_handover([second, shared], [shared, second]).is_same_directory
    [refusal] = refusals(plan_handover(shared, [shared, second]))
    assert "in common" in refusal


def test_a_damaged_directory_is_refused(shared: Path) -> None:
    (shared / "kstore.topics").write_text("{")
    assert any("kstore.topics" in each for each in refusals(turn(shared)))


def test_offsets_of_readers_that_the_broker_does_not_read(shared: Path) -> None:
    append_old(shared, "u")
    metadata.write(shared, metadata.setting("u", "retention.ms", "-1"))
    with kstore.open(shared, "r") as store, store.consumer("u", group="g") as consumer:
        consumer.poll()
        consumer.commit()
    [warning] = warnings(turn(shared))
    assert "start and stop kstore serve" in warning
    kstore.open(shared, config=QUIET).close()
    assert warnings(turn(shared)) == []


def test_the_check_before_kstores_turn_names_the_command(shared: Path) -> None:
    append_old(shared, "t")
    command = f"kstore handover --log-dir {shared} --to {shared}"
    assert not any(command in each.sentence for each in check_broker(shared).findings)
    with kstore.open(shared, config=QUIET) as store:
        store.alter_topic("t", {"retention.ms": 5000})
    [note] = [each for each in check_broker(shared).findings if command in each.sentence]
    assert note.level == "note"


def test_serving_such_a_directory_ends_with_a_line_that_names_the_command(shared: Path) -> None:
    with serving("--log-dir", shared) as (process, _):
        process.terminate()
        said = process.communicate(timeout=WAIT)[1].decode()
    assert f"kstore handover --log-dir {shared} --to {shared}" in said
    assert process.returncode == 0


def test_a_symbolic_link_leads_to_the_same_directory(shared: Path, tmp_path: Path) -> None:
    append_old(shared, "t")
    link = tmp_path / "link"
    link.symlink_to(shared)
    before = snapshot(shared)
    for source, target in ((link, shared), (shared, link)):
        report = hand_over(source, target)
        assert report.is_same_directory
        assert not report.partitions
        assert len(warnings(report)) == len(warnings(turn(shared)))
    assert snapshot(shared) == before
