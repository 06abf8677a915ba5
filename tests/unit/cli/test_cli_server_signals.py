"""Tools on a server, ended by a signal or a closed pipe: they send what they read, and leave."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore.broker.broker import Broker, serve
from kstore.remote import groups
from kstore.remote.store import RemoteStore

WAIT = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with serve(tmp_path / "kafka", port=0, settings=settings) as broker:
        broker.store.create_topic("orders")
        yield broker


def started(broker: Broker, tool: str, *words: str) -> "subprocess.Popen[bytes]":
    server = ("--bootstrap-server", broker.bootstrap_servers)
    return subprocess.Popen(
        [sys.executable, "-m", "kstore", tool, "--topic", "orders", *server, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_producer_sends_what_it_read(broker: Broker, number: signal.Signals) -> None:
    with started(broker, "console-producer", "--sync") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        log = broker.store["orders"][0]
        for _ in log.follow(start=0, timeout=WAIT):  # its signal handlers are set
            break
        process.stdin.write(b"second\n")
        process.stdin.flush()
        for _ in log.follow(start=1, timeout=WAIT):
            break
        process.send_signal(number)  # it waits for more lines
        assert process.wait(WAIT) == 128 + number
    assert [record.value for record in log] == [b"first", b"second"]


@pytest.mark.parametrize("ending", ["signal", "pipe"])
def test_a_consumer_commits_and_leaves_its_group(broker: Broker, ending: str) -> None:
    for number in range(3):
        broker.store["orders"][0].append(b"%d" % number)
    with started(broker, "console-consumer", "--group", "g", "--from-beginning") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        broker.store["orders"][0].append(b"3")
        assert process.stdout.readline() == b"3\n"  # so the batch before is noted as printed
        if ending == "signal":
            process.terminate()
        else:
            process.stdout.close()
        status = process.wait(WAIT)
        assert process.stderr is not None
        assert process.stderr.read() == b"Processed a total of 4 messages\n"
    assert status == (128 + signal.SIGTERM if ending == "signal" else 141)
    with RemoteStore(broker.bootstrap_servers) as store:
        assert groups.describe_group(store.cluster, "g").members == ()
        ((_, committed),) = groups.committed_offsets(store.cluster, "g").items()
        assert committed.offset in (3, 4)  # a signal may come before the last one is noted


def test_a_producer_with_an_open_transaction_aborts_it(broker: Broker) -> None:
    words = ("--num-records", "1000000", "--throughput", "100", "--record-size", "5")
    times = ("--transaction-duration-ms", "50000")
    with started(broker, "producer-perf", *words, *times) as process:
        log = broker.store["orders"][0]
        for _ in log.follow(start=0, timeout=WAIT):
            break
        process.terminate()
        assert process.wait(WAIT) == 128 + signal.SIGTERM
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert log.end_offset > 1
    assert log.last_stable_offset == log.end_offset
    assert list(log.view(isolation="read_committed")) == []
