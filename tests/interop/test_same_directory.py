"""A directory that Kafka and kstore serve by turns: Kafka takes the commands of the report, and
deletes only the records that a warning of the report names."""

import shlex
import time
from pathlib import Path

import kstore
from interop.handover_checks import end_of
from interop.kafka_jars import libs
from interop.kafka_tools_process import kafka_tools
from interop.node import Node
from interop.test_exported_commands import MAIN, SECURE, VERSION, described
from kstore import cli
from kstore.handover import plan_handover
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import EARLIEST
from support.waiting import until

CHANGES = (
    "configs --alter --topic orders --add-config max.message.bytes=5000,retention.ms=-1",
    "configs --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2",
    "configs --alter --user alice --add-config producer_byte_rate=1048576",
    "configs --alter --user bob --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
    "acls --add --allow-principal User:bob --operation Read --topic orders",
)
OLD = time.time_ns() // 1_000_000 - 8 * 86_400_000
# What a broker does by default, with checks of retention that the test need not wait for.
RETENTION = {"log.retention.ms": 7 * 86_400_000, "log.retention.check.interval.ms": 500}


def first_offset(node: Node, topic: str) -> int:
    with KafkaSource(node.address, topic) as source:
        source.describe()
        return source.offsets([0], EARLIEST)[0]


def test_kafka_takes_the_commands_and_keeps_the_records(tmp_path: Path) -> None:
    libs(VERSION)
    broker = Node(VERSION, tmp_path)
    broker.settings = {**SECURE, **RETENTION}
    with kafka_tools(VERSION) as java:
        try:
            broker.start()
            for topic in ("orders", "kept", "lost"):
                broker.create_topic(topic)
            before = described(java, broker.address)
            broker.stop()
            with kstore.serve(broker.log_dir, port=0, settings=SECURE) as served:
                for topic in ("orders", "kept", "lost"):
                    log = served.store[topic][0]
                    log.append(b"old", timestamp=OLD)
                    log.roll()
                    log.append(b"new")
                for line in CHANGES:
                    words = shlex.split(line)
                    assert cli.main([*words, "--bootstrap-server", served.bootstrap_servers]) == 0
            report = plan_handover(broker.log_dir, broker.log_dir)
            assert report.ok
            warned = {each.where for each in report.findings if each.level == "warning"}
            assert warned == {"orders", "kept", "lost"}

            # A start in which retention deletes nothing, as the warning says; then one as usual.
            broker.settings["log.initial.task.delay.ms"] = 3_600_000
            broker.start()
            for command in report.commands:
                if "--entity-name lost" not in command:
                    name, *words = shlex.split(command.replace("HOST:PORT", broker.address))
                    printed = java.run(MAIN[name], *words)
                    assert printed.status == 0, (command, printed)
            after = "\n".join(line for lines in described(java, broker.address) for line in lines)
            for text in (
                "max.message.bytes=5000", "log.cleaner.threads=2", "producer_byte_rate=1048576",
                "SCRAM-SHA-256=iterations=8192", "principal=User:bob",
            ):  # fmt: skip
                assert text in after
                assert not any(text in line for lines in before for line in lines)
            broker.stop()
            assert warnings_of(broker) == {"lost"}
            del broker.settings["log.initial.task.delay.ms"]
            broker.start()
            assert [end_of(broker, topic) for topic in ("orders", "kept", "lost")] == [2, 2, 2]
            until(lambda: first_offset(broker, "lost") == 1, 60)
            assert [first_offset(broker, topic) for topic in ("orders", "kept")] == [0, 0]
        finally:
            broker.kill()


def warnings_of(node: Node) -> set[str]:
    findings = plan_handover(node.log_dir, node.log_dir).findings
    return {each.where for each in findings if each.level == "warning"}
