"""Kafka's own command-line tools of 3.9.2 and 4.3.0 against a served directory, and old clients.

With all versions the tools run against Kafka 3.9.2, too, which proves the tests.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import VERSIONS, libs, run
from interop.kstore_node import KstoreNode, either_node, kstore_node
from interop.node import Node

PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
T0_RETENTION = "retention.ms=-1"


@pytest.fixture(
    scope="module", params=["kstore", pytest.param("3.9.2", marks=pytest.mark.all_versions)]
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KstoreNode | Node]:
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        yield broker


def tool(version: str, name: str, served: KstoreNode | Node, *words: object) -> str:
    """What one of Kafka's tools prints; ToolError if it fails."""
    done = run(version, name, "--bootstrap-server", served.address, *words)
    return done.stdout.decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_command_line_tools_work_against_a_served_directory(
    served: KstoreNode | Node, version: str, tmp_path: Path
) -> None:
    libs(version)
    topic = f"tools-{version}"
    topics = "org.apache.kafka.tools.TopicCommand"
    create = ["--create", "--topic", topic, "--partitions", 2, "--config", T0_RETENTION]
    assert f"Created topic {topic}." in tool(version, topics, served, *create)
    assert topic in tool(version, topics, served, "--list").split()
    tool(version, topics, served, "--alter", "--topic", topic, "--partitions", 3)
    described = tool(version, topics, served, "--describe", "--topic", topic)
    assert re.search(
        r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=-1", described
    )
    assert described.count("Leader: ") == 3

    performance = ["--topic", topic, "--num-records", 20_000, "--record-size", 100]
    performance += ["--throughput", -1, "--producer-props", f"bootstrap.servers={served.address}"]
    done = run(version, PRODUCER_PERFORMANCE, *performance, "acks=all", "compression.type=lz4")
    assert b"20000 records sent" in done.stdout
    offsets = tool(version, "org.apache.kafka.tools.GetOffsetShell", served, "--topic", topic)
    ends = {line.rsplit(":", 2)[1]: int(line.rsplit(":", 2)[2]) for line in offsets.split()}
    assert sum(ends.values()) == 20_000
    assert len(ends) == 3

    plan = tmp_path / "delete.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 5}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    deletion = "org.apache.kafka.tools.DeleteRecordsCommand"
    answer = tool(version, deletion, served, "--offset-json-file", plan)
    assert f"partition: {topic}-0\tlow_watermark: 5" in answer
    earliest = ["--topic", topic, "--partitions", 0, "--time", "-2"]
    found = tool(version, "org.apache.kafka.tools.GetOffsetShell", served, *earliest)
    assert found.strip() == f"{topic}:0:5"

    dirs = tool(version, "org.apache.kafka.tools.LogDirsCommand", served, "--describe")
    listed = json.loads(dirs[dirs.index("{") :])["brokers"][0]["logDirs"][0]
    assert listed["error"] is None
    assert f"{topic}-0" in [each["partition"] for each in listed["partitions"]]

    configs = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "topics", "--entity-name", topic]
    tool(version, configs, served, *entity, "--alter", "--add-config", "segment.ms=60000")
    shown = tool(version, configs, served, *entity, "--describe")
    assert "segment.ms=60000" in shown
    tool(version, configs, served, *entity, "--alter", "--delete-config", "segment.ms")
    assert "segment.ms" not in tool(version, configs, served, *entity, "--describe")
    tool(version, topics, served, "--delete", "--topic", topic)
    assert topic not in tool(version, topics, served, "--list").split()


@pytest.mark.parametrize("version", VERSIONS)
def test_console_clients(served: KstoreNode | Node, version: str) -> None:
    libs(version)
    topic = f"console-{version}"
    served.create_topic(topic, retention_ms=-1)
    producer = (
        "kafka.tools.ConsoleProducer" if version < "4" else "org.apache.kafka.tools.ConsoleProducer"
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        text = "".join(f"{codec} {n}\n" for n in range(20)).encode()
        words = ["--bootstrap-server", served.address, "--topic", topic]
        run(version, producer, *words, "--compression-codec", codec, text=text)
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    words = ["--topic", topic, "--partition", 0, "--offset", 10, "--max-messages", 90]
    lines = tool(version, consumer, served, *words, "--timeout-ms", 20_000).splitlines()
    assert lines == [f"none {n}" for n in range(10, 20)] + [
        f"{codec} {n}" for codec in ("gzip", "snappy", "lz4", "zstd") for n in range(20)
    ]


@pytest.mark.all_versions
def test_clients_of_0_8_to_4_one_after_another(tmp_path: Path) -> None:
    """Each version writes to one topic and reads what all of them wrote."""
    for version in ("0.8.2.2", "0.10.2.2", *VERSIONS):
        libs(version)
    with kstore_node(tmp_path) as serving:
        serving.create_topic("ages", retention_ms=-1)
        brokers = ["--broker-list", serving.address, "--topic", "ages"]
        expected = []
        for version, name in (
            ("0.8.2.2", "kafka.tools.ConsoleProducer"),
            ("0.10.2.2", "kafka.tools.ConsoleProducer"),
            ("3.9.2", "kafka.tools.ConsoleProducer"),
        ):
            for codec in ("none", "gzip", "snappy"):
                lines = [f"{version} {codec} {n}" for n in range(10)]
                text = "".join(f"{line}\n" for line in lines).encode()
                words = [*brokers, "--compression-codec", codec]
                if version == "3.9.2":
                    words[:2] = ["--bootstrap-server", serving.address]
                run(version, name, *words, text=text)
                expected += lines
        count = len(expected)
        shell = ["--broker-list", serving.address, "--topic", "ages", "--partition", 0]
        shell += ["--offset", -2, "--max-messages", count, "--no-wait-at-logend"]
        old = run("0.8.2.2", "kafka.tools.SimpleConsumerShell", *shell).stdout.decode()
        assert [line for line in old.splitlines() if line in expected] == expected
        words = ["--new-consumer", "--bootstrap-server", serving.address, "--topic", "ages"]
        words += ["--partition", 0, "--offset", "earliest", "--max-messages", count]
        middle = run("0.10.2.2", "kafka.tools.ConsoleConsumer", *words).stdout.decode()
        assert middle.splitlines() == expected
        for version in VERSIONS:
            words = ["--bootstrap-server", serving.address, "--topic", "ages", "--partition", 0]
            words += ["--offset", "earliest", "--max-messages", count, "--timeout-ms", 20_000]
            name = "org.apache.kafka.tools.consumer.ConsoleConsumer"
            assert run(version, name, *words).stdout.decode().splitlines() == expected


@pytest.mark.all_versions
def test_kcat(served: KstoreNode | Node) -> None:
    """It lists, writes and reads."""
    assert shutil.which("kcat") is not None, "kcat is missing (Debian: apt-get install kcat)"
    served.create_topic("kcat", retention_ms=-1)
    base = ["kcat", "-b", served.address, "-t", "kcat"]
    text = "".join(f"k{n}:v{n}\n" for n in range(50))
    subprocess.run([*base, "-P", "-K:"], input=text, text=True, check=True, timeout=60)
    words = [*base, "-C", "-e", "-q", "-o", "beginning", "-f", "%o %k %s\n"]
    read = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert read.stdout.splitlines() == [f"{n} k{n} v{n}" for n in range(50)]
