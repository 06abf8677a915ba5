"""Kafka's LogCompactionTester validates a log that kstore compacted instead of the broker.

The tester produces, sleeps so that the broker may clean, consumes, and compares the last value of
each key. When it says that it sleeps it is held; the broker, which cleans nothing, is stopped,
kstore rolls and compacts the partition, the broker is started again, and the tester continues.
"""

import re
import signal
import subprocess
from pathlib import Path

import pytest

import kstore
from interop.kafka_jars import java_command
from interop.node import Node

# It is a client: the newest one, in Kafka's ordinary jars since 4.0, speaks to every broker here.
TESTER = ("4.3.0", "org.apache.kafka.tools.LogCompactionTester")
MESSAGES, DUPLICATES = 20_000, 5
SLEEP = 5  # seconds in which it can be held after its word


@pytest.mark.parametrize(
    "version", ["4.3.0", pytest.param("3.9.2", marks=pytest.mark.all_versions)]
)
def test_tester_validates_what_kstore_compacted(version: str, tmp_path: Path) -> None:
    broker = Node(version, tmp_path)
    broker.settings = {"log.cleaner.enable": "false", "log.segment.bytes": 1_048_576}
    command = java_command(*TESTER, "--bootstrap-server", broker.address)
    command += ["--messages", str(MESSAGES), "--duplicates", str(DUPLICATES), "--topics", "2"]
    command += ["--percent-deletes", "10", "--compression-type", "lz4", "--sleep", str(SLEEP)]
    command.insert(1, f"-Djava.io.tmpdir={tmp_path}")
    broker.start()
    tester = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output_lines = []
    try:
        assert tester.stdout is not None
        for line in tester.stdout:
            output_lines.append(line)
            if line.startswith("Sleeping"):
                tester.send_signal(signal.SIGSTOP)  # its sleep ends when the broker is back
                compact(broker)
                tester.send_signal(signal.SIGCONT)
        assert tester.wait(60) == 0, "".join(output_lines)
    finally:
        tester.kill()
        tester.communicate()
        broker.kill()
    text = "".join(output_lines)
    (consumed,) = re.findall(r"(\d+) rows of data consumed", text)
    assert int(consumed) < MESSAGES, text  # of twice as many produced
    (validated,) = re.findall(r"Validated (\d+) values, 0 mismatches", text)
    assert int(validated) > MESSAGES // DUPLICATES, text
    assert "Data verification is completed" in text


def compact(broker: Node) -> None:
    """Between two starts of the broker: kstore cleans every partition of the tester's topics."""
    broker.stop()
    with kstore.open(broker.log_dir) as store:
        names = [name for name in store if name.startswith("log-cleaner-test")]
        assert len(names) == 2
        for name in names:
            store.alter_topic(name, config={"cleanup_policy": "compact"})
            for log in store[name]:
                before = log.size
                log.roll()
                log.compact()
                log.verify().raise_if_corrupt()
                assert log.size < before * 0.7
    broker.start()
