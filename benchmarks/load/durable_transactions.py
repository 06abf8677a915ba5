"""Commits a second under durable acknowledgement, of 1 and of 64 transactional producers.

    PYTHONPATH=benchmarks:src python -m load.durable_transactions [SECONDS] [--sync-ms MS ...]

Every transaction is AddPartitionsToTxn, one record of 100 bytes and EndTxn, to a
``kstore serve --acks-durable`` in a process of its own, whose files are in the temporary directory
(TMPDIR): the figure needs a real disk. One thread of this process sends for all producers, so that
the client is not the bottleneck; its own share of a core is printed. Where a broker is still
writing the markers (error 51), the request is repeated after a millisecond. At the end every
acknowledged record is read with read_committed.

``--sync-ms`` measures with syncs of at least so many milliseconds each (slow_sync.c), one after
another; 0 is the disk as it is. What a round of syncs saves depends on how long a sync takes.
"""

import argparse
import heapq
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers.kafka  # finds tests/interop

# isort: split

import kstore
from interop.node import free_ports
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest
from kstore.protocol.messages.produce import ProduceRequest
from kstore.record.builder import BatchBuilder
from load.brokers import PATIENCE, Topics, cpu_seconds, kstore_broker
from load.frame_connections import FrameConnections, decode, encode
from load.programs import compile_library

assert peers.kafka.VERSION
TOPIC, PARTITIONS = "durable", 16
MANY = 64  # producers
WANTED = 5  # times the commits of one producer
_INIT, _ADD, _PRODUCE, _END = 4, 3, 8, 3  # versions
_CONCURRENT = 51
_AGAIN_SECONDS = 0.001
_TRANSACTIONAL = 0x10  # attribute of a batch
_VALUE = b"%0100d"
_FLUSHES = re.compile(r"^kafka_log_logflushstats_logflushrateandtimems_count (\S+)$", re.MULTILINE)


@dataclass
class _Producer:
    """A producer whose transactions have one record each, and the request that it waits for."""

    number: int
    producer_id: int
    epoch: int
    builder: BatchBuilder = field(default_factory=BatchBuilder)
    commits: int = 0
    step: int = 0  # of the three requests

    @property
    def partition(self) -> int:
        return self.number % PARTITIONS

    def request(self) -> tuple[Any, int]:
        """The next request and its version."""
        name, who = f"producer-{self.number:02}", (self.producer_id, self.epoch)
        if self.step == 0:
            topics = [AddPartitionsToTxnRequest.V3AndBelowTopics(TOPIC, [self.partition])]
            return AddPartitionsToTxnRequest([], name, *who, topics), _ADD
        if self.step == 1:
            now = time.time_ns() // 1_000_000
            self.builder.set_producer(*who, self.commits)
            self.builder.append(_VALUE % (self.commits * MANY + self.number), timestamp=now)
            batch = self.builder.build(attributes=_TRANSACTIONAL)
            data = ProduceRequest.TopicData.PartitionData(self.partition, batch)
            topics = [ProduceRequest.TopicData(TOPIC, partition_data=[data])]
            return ProduceRequest(name, -1, 30_000, topics), _PRODUCE
        return EndTxnRequest(name, *who, True), _END

    def answered(self, answer: bytes) -> bool:
        """Take an answer; False if the same request has to be repeated."""
        if self.step == 0:
            added = decode(AddPartitionsToTxnRequest.API_KEY, _ADD, answer)
            (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
            error = result.partition_error_code
        elif self.step == 1:
            produced = decode(ProduceRequest.API_KEY, _PRODUCE, answer)
            error = produced.responses[0].partition_responses[0].error_code
        else:
            error = decode(EndTxnRequest.API_KEY, _END, answer).error_code
        if error == _CONCURRENT:
            return False
        assert error == 0, f"producer {self.number}, step {self.step}: error {error}"
        self.commits += self.step == 2
        self.step = (self.step + 1) % 3
        return True


def _producers(connections: FrameConnections, count: int) -> list[_Producer]:
    """Wait until the broker coordinates the producers' transactions, and initialise them."""
    names = [f"producer-{number:02}" for number in range(count)]
    until = time.monotonic() + PATIENCE
    while True:
        finds = [FindCoordinatorRequest(key=name, key_type=1) for name in names]
        inits = [InitProducerIdRequest(name, 60_000) for name in names]
        if not any(each.error_code for each in connections.ask(finds, 3)):
            answers = connections.ask(inits, _INIT)
            if not any(each.error_code for each in answers):
                break
        assert time.monotonic() < until, "no coordinator"
        time.sleep(0.05)
    return [
        _Producer(number, each.producer_id, each.producer_epoch)
        for number, each in enumerate(answers)
    ]


def _commit(connections: FrameConnections, producers: list[_Producer], seconds: float) -> int:
    """Let all commit for so long, to the end of each transaction; how many requests repeated."""
    started = time.monotonic()
    later: list[tuple[float, int]] = []  # when a producer sends its request again
    active, repeated = len(producers), 0

    def send(number: int) -> None:
        connections.send(number, encode(*producers[number].request()))

    for number in range(active):
        send(number)
    while active:
        now = time.monotonic()
        assert now < started + seconds + PATIENCE, f"{active} producers were not answered"
        while later and later[0][0] <= now:
            send(heapq.heappop(later)[1])
        for number, answer in connections.receive(later[0][0] - now if later else 1.0):
            producer = producers[number]
            if not producer.answered(answer):
                repeated += 1
                heapq.heappush(later, (time.monotonic() + _AGAIN_SECONDS, number))
            elif producer.step == 0 and time.monotonic() - started >= seconds:
                active -= 1
            else:
                send(number)
    return repeated


def _flushes(port: int) -> int:
    """How many syncs of logs the broker has made, by its metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        found = _FLUSHES.findall(page.read().decode())
    assert len(found) == 1, found
    return int(float(found[0]))


def _check(directory: Path, producers: list[_Producer]) -> None:
    """Each acknowledged record is present once, and nothing else."""
    expected = Counter(
        _VALUE % (number * MANY + each.number)
        for each in producers
        for number in range(each.commits)
    )
    with kstore.open(directory, "r") as store:
        found = Counter(
            bytes(record.value or b"")
            for log in store[TOPIC]
            for record in log.view(log.start_offset, isolation="read_committed")
        )
    assert found == expected, f"{found.total():,} records instead of {expected.total():,}"


def _measure(root: Path, count: int, seconds: float, sync_ms: float) -> float:
    metrics = free_ports(1)[0]
    slow = {}
    if sync_ms:
        library = os.fspath(compile_library("slow_sync", root))
        slow = {"LD_PRELOAD": library, "SLOW_SYNC_US": str(round(sync_ms * 1000))}
    broker = kstore_broker(root, ["--acks-durable", "--metrics-port", str(metrics)], slow)
    broker.start()
    try:
        Topics(broker).create(TOPIC, PARTITIONS)
        with FrameConnections(broker.port, count) as connections:
            producers = _producers(connections, count)
            _commit(connections, producers, min(1.0, seconds))  # warm
            before = sum(each.commits for each in producers)
            flushes, used, own = _flushes(metrics), cpu_seconds(broker.pid), time.process_time()
            started = time.monotonic()
            repeated = _commit(connections, producers, seconds)
            elapsed = time.monotonic() - started
            used, own = cpu_seconds(broker.pid) - used, time.process_time() - own
            flushes = _flushes(metrics) - flushes
    finally:
        broker.stop()
    commits = sum(each.commits for each in producers) - before
    _check(root / "kstore", producers)
    print(
        f"{count} producers: {commits / elapsed:,.0f} commits/s ({commits:,} in {elapsed:.1f} s), "
        f"{flushes / commits:.2f} syncs and {repeated / commits:.2f} repeated requests each; "
        f"broker {used / elapsed:.2f}, client {own / elapsed:.2f} of a core",
        flush=True,
    )
    return commits / elapsed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=float, nargs="?", default=10.0)
    parser.add_argument("--sync-ms", type=float, nargs="+", default=[0.0])
    options = parser.parse_args()
    for sync_ms in options.sync_ms:
        if sync_ms:
            print(f"syncs of at least {sync_ms:g} ms:")
        speeds = []
        for count in (1, MANY):
            with tempfile.TemporaryDirectory(prefix="kstore-durable-") as directory:
                speeds.append(_measure(Path(directory), count, options.seconds, sync_ms))
        ratio = speeds[1] / speeds[0]
        print(f"{MANY} producers have {ratio:.1f} times one (wanted: {WANTED})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
