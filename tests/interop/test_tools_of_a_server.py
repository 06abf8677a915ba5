"""kstore's tools on a server print what Kafka's own tools print there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop.kafka_jars import run
from interop.node import Node
from kstore import cli


def kstore(*words: object, text: str = "") -> str:
    """What a tool prints; its exit status must be 0."""
    done = subprocess.run(
        [sys.executable, "-m", "kstore", *map(str, words)],
        input=text.encode(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def java(node: Node, tool: str, *words: object) -> str:
    server = ("--bootstrap-server", node.address)
    return run(node.version, f"org.apache.kafka.tools.{tool}", *server, *words).stdout.decode()


def test_tools_agree_with_kafkas(node: Node, tmp_path: Path) -> None:
    node.start()
    server = ("--bootstrap-server", node.address)
    created = ("--create", "--topic", "orders", "--partitions", 3, "--replication-factor", 1)
    assert "Created topic orders.\n" in kstore(
        "topics", *created, "--config", "segment.bytes=1048576", *server
    )
    lines = "".join(f"k{n}\tv{n}\n" for n in range(100))
    kstore(
        "console-producer", "--topic", "orders", "--reader-property", "parse.key=true",
        "--compression-codec", "lz4", *server, text=lines,
    )  # fmt: skip
    assert kstore("topics", "--list", *server) == java(node, "TopicCommand", "--list")
    ours = kstore("topics", "--describe", "--topic", "orders", *server)
    theirs = java(node, "TopicCommand", "--describe", "--topic", "orders")
    assert comparable(ours) == comparable(theirs)
    ours = kstore("get-offsets", "--topic", "orders", *server)
    assert ours == java(node, "GetOffsetShell", "--topic", "orders")
    assert sum(int(line.rpartition(":")[2]) for line in ours.splitlines()) == 100
    for when in ("earliest", "max-timestamp", "0"):
        ours = kstore("get-offsets", "--topic", "orders", "--time", when, *server)
        when = {"earliest": "-2", "max-timestamp": "-3"}.get(when, when)
        assert ours == java(node, "GetOffsetShell", "--topic", "orders", "--time", when)
    consumed = node.consume("orders", 100)
    printed = kstore(
        "console-consumer", "--topic", "orders", "--from-beginning", "--timeout-ms", 500,
        "--property", "print.offset=true", "--property", "print.partition=true", *server,
    )  # fmt: skip
    assert sorted(printed.splitlines()) == sorted(
        f"Partition:{each.partition}\tOffset:{each.offset}\t{each.value}" for each in consumed
    )
    kstore(
        "configs", "--alter", "--entity-type", "topics", "--entity-name", "orders",
        "--add-config", "retention.ms=3600000", "--delete-config", "segment.bytes", *server,
    )  # fmt: skip
    asked = ("--describe", "--entity-type", "topics", "--entity-name", "orders")
    theirs = run(node.version, "kafka.admin.ConfigCommand", *server, *asked).stdout.decode()
    assert settings(kstore("configs", *asked, *server)) == settings(theirs)
    offsets = tmp_path / "offsets.json"
    entry = {"topic": "orders", "partition": 0, "offset": 7}
    offsets.write_text(json.dumps({"partitions": [entry], "version": 1}))
    assert "low_watermark: 7" in kstore("delete-records", "--offset-json-file", offsets, *server)
    assert "orders:0:7" in java(node, "GetOffsetShell", "--topic", "orders", "--time", "-2")
    kstore("topics", "--delete", "--topic", "orders", *server)
    assert "orders" not in java(node, "TopicCommand", "--list")


def comparable(text: str) -> list[list[str]]:
    """Fields of described topics; settings in any order, empty fields by either name."""
    lines = [line for line in text.splitlines() if line.strip()]
    fields = [re.split(r"\t+", re.sub(r" *: *", ":", line.strip())) for line in lines]
    for line in fields:
        line[:] = [re.sub(r"^(Elr|LastKnownElr):.*", r"\1", each) for each in line]
        line[:] = [
            "Configs:" + ",".join(sorted(each.removeprefix("Configs:").split(",")))
            if each.startswith("Configs:")
            else each
            for each in line
        ]
    return fields


def settings(text: str) -> list[str]:
    return sorted(line.strip() for line in text.splitlines() if "sensitive" in line)


def test_a_refusal_says_why(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    node.start()
    server = ["--bootstrap-server", node.address]
    node.create_topic("orders")
    assert cli.main(["topics", "--create", "--topic", "orders", *server]) == 1
    assert "Topic 'orders' already exists." in capfd.readouterr().out
    assert cli.main(["console-consumer", "--topic", "nope", *server]) == 1
    assert "Topic 'nope' does not exist" in capfd.readouterr().err
