"""Ten rounds: Kafka and kstore take turns on one directory, one of them killed each time.

Each opening checks what both were promised: nothing acknowledged is lost, nothing comes
twice, no offset is skipped, no producer is fenced by the other's ids, no leader epoch goes.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import kstore
from interop import append_to_broker_dir
from interop.append_to_broker_dir import OURS, OurProducer, now_ms
from interop.clients import Clients, clients
from interop.compare_with_kafka import (
    Judged,
    assert_same_producers,
    assert_same_records,
    assert_same_transactions,
    batches_of,
)
from interop.node import Node

ROUNDS = 10
PARTITIONS = ("turns-0", "turns-1")
SHARED = "shared"  # a transactional id that both use: who comes next ends what the other left
SMALL = {"segment_bytes": 4000, "index_interval_bytes": 256}


def epochs_of(folder: Path) -> list[tuple[int, int]]:
    lines = (folder / "leader-epoch-checkpoint").read_text().split("\n")[2:]
    return [(int(a), int(b)) for a, b in (line.split() for line in lines if line)]


class Promises:
    """What was acknowledged: values by partition, with their offsets where those were answered."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[bytes, int]] = {tp: {} for tp in PARTITIONS}
        self.values: dict[str, set[bytes]] = {tp: set() for tp in PARTITIONS}
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.epochs: dict[str, list[tuple[int, int]]] = {tp: [] for tp in PARTITIONS}

    def add(self, tp: str, value: bytes, offset: int | None = None) -> None:
        self.values[tp].add(value)
        if offset is not None:
            self.offsets[tp][value] = offset

    def check(self, log_dir: Path, consumed: dict[str, Judged]) -> None:
        for tp in PARTITIONS:
            self._check_partition(tp, consumed[tp])
            self._check_files(tp, log_dir / tp, consumed[tp].end_offset)

    def _check_partition(self, tp: str, consumed: Judged) -> None:
        found = {record.value: record.offset for record in consumed.records}
        twice = [v for v, n in Counter(r.value for r in consumed.records).items() if n > 1]
        assert twice == [], tp
        assert sorted(self.values[tp] - found.keys()) == [], f"{tp}: lost"
        moved = {v: o for v, o in self.offsets[tp].items() if found[v] != o}
        assert moved == {}, tp
        assert consumed.committed is not None
        shown = {r.value for r in consumed.records if r.offset in set(consumed.committed)}
        below = {r.value for r in consumed.records if r.offset < (consumed.last_stable_offset or 0)}
        assert self.committed & self.values[tp] & below <= shown, f"{tp}: not shown"
        assert not self.aborted & shown, f"{tp}: aborted, and shown"

    def _check_files(self, tp: str, folder: Path, end: int) -> None:
        """Every offset belongs to a batch; leader epochs are only added."""
        following, used = 0, set()
        for batch, _ in batches_of(folder):
            if batch.base_offset >= end:
                break  # a running broker's coordinator has gone on meanwhile
            assert batch.base_offset == following, folder
            following = batch.last_offset + 1
            used.add(batch.leader_epoch)
        assert following == end, folder
        # An epoch in which nothing was appended is forgotten when the next one begins.
        epochs = epochs_of(folder)
        until = time.monotonic() + 20
        while not used <= {epoch for epoch, _ in epochs} and time.monotonic() < until:
            time.sleep(0.1)  # a running broker writes the file a moment after the batch
            epochs = epochs_of(folder)
        assert used == {epoch for epoch, _ in epochs if epoch in used}, folder
        kept = [entry for entry in self.epochs[tp] if entry[0] in used]
        assert [entry for entry in epochs if entry in kept] == kept, folder
        self.epochs[tp] = epochs


# --- Kafka's turn ---------------------------------------------------------------------------------


def kafka_turn(java: Clients, promises: Promises, number: int, kill: Node | None) -> None:
    """Idempotent records, two transactions, and a burst that a kill interrupts."""
    java.producer("plain", linger_ms=0)
    for n in range(20):
        java.send("plain", "turns", b"kafka-%d-%d" % (number, n), partition=n % 2)
    for n, offset in enumerate(java.flush("plain")):
        promises.add(PARTITIONS[n % 2], b"kafka-%d-%d" % (number, n), offset)
    java.producer(
        "tx",
        transactional_id="kafkas" if kill else SHARED,
        transaction_timeout_ms=900_000,
        linger_ms=0,
    )
    for commit in (True, False):
        java.begin("tx")
        values = [b"kafka-tx-%d-%s-%d" % (number, str(commit).encode(), n) for n in range(6)]
        for n, value in enumerate(values):
            java.send("tx", "turns", value, partition=n % 2)
        offsets = java.flush("tx")
        (java.commit if commit else java.abort)("tx")
        for n, (value, offset) in enumerate(zip(values, offsets, strict=True)):
            promises.add(PARTITIONS[n % 2], value, offset)
        (promises.committed if commit else promises.aborted).update(values)
    if kill is None:
        return
    java.producer("burst", transactional_id=SHARED, transaction_timeout_ms=900_000)
    java.burst("burst", "turns", f"burst-{number}-", 0, 5)
    java.burst("plain", "turns", f"free-{number}-", 1)
    time.sleep(Random().uniform(0.1, 0.5))  # the moment is the test's input
    kill.kill()
    for n in range(java.rest("burst")):
        promises.add(PARTITIONS[0], b"burst-%d-%d" % (number, n))
        promises.committed.add(b"burst-%d-%d" % (number, n))
    for n in range(java.rest("plain")):
        promises.add(PARTITIONS[1], b"free-%d-%d" % (number, n))


# --- kstore's turn --------------------------------------------------------------------------------


def our_part(store: kstore.Store, number: int) -> list[tuple[str, str, int | None, str]]:
    """Appends of every kind; (partition, value, offset, outcome) of each record."""
    store.alter_topic("turns", config=SMALL)
    logs = list(store["turns"])
    done: list[tuple[str, str, int | None, str]] = []
    idempotent = OurProducer(OURS + 10 * number, transactional=False)
    transactional = OurProducer(OURS + 10 * number + 1, transactional=True)
    for partition, log in enumerate(logs):
        values = [f"ours-{number}-{partition}-{n}" for n in range(20)]
        for value, offset in zip(values, log.extend([v.encode() for v in values]), strict=True):
            done.append((PARTITIONS[partition], value, offset, ""))
        for n in range(4):
            value = f"ours-idempotent-{number}-{partition}-{n}"
            offset = idempotent.send(log, [(b"k", value.encode())], now_ms())
            done.append((PARTITIONS[partition], value, offset, ""))
    for outcome in ("commit", "abort"):
        for n in range(6):
            value = f"ours-tx-{number}-{outcome}-{n}"
            offset = transactional.send(logs[n % 2], [(b"k", value.encode())], now_ms())
            done.append((PARTITIONS[n % 2], value, offset, outcome))
        transactional.end(commit=outcome == "commit")
    for name in ("ours", SHARED):
        with store.transactional_producer(name) as producer:
            for outcome in ("commit", "abort"):
                producer.begin_transaction()
                for n in range(4):
                    value = f"ours-{name}-{number}-{outcome}-{n}"
                    producer.send("turns", value.encode(), key=b"k", partition=n % 2)
                    done.append((PARTITIONS[n % 2], value, None, outcome))
                producer.flush()
                if outcome == "commit":
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
    for log in logs:
        log.flush()
    return done


def keep(promises: Promises, done: list[tuple[str, str, int | None, str]]) -> None:
    for tp, value, offset, outcome in done:
        promises.add(tp, value.encode(), offset)
        if outcome:
            (promises.committed if outcome == "commit" else promises.aborted).add(value.encode())


def killed_part(log_dir: Path, number: int) -> list[tuple[str, str, int | None, str]]:
    """The same in a process that is killed while it continues to append."""
    command = [sys.executable, "-m", "interop.test_alternate_writers", str(log_dir), str(number)]
    writer = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=append_to_broker_dir.environment()
    )
    try:
        assert writer.stdout is not None
        done = json.loads(writer.stdout.readline())
        time.sleep(Random().uniform(0.02, 0.3))  # the moment is the test's input
    finally:
        writer.kill()
        writer.communicate()
    return [tuple(each) for each in done]


def main() -> None:
    with kstore.open(sys.argv[1]) as store:
        number = int(sys.argv[2])
        print(json.dumps(our_part(store, number)), flush=True)
        producer = OurProducer(OURS + 10 * number + 2, transactional=True)
        shared = store.transactional_producer(SHARED)
        n = 0
        while True:
            n += 1
            for log in store["turns"]:
                value = b"ours-late-%d-%d-%d" % (number, log.partition, n)
                producer.send(log, [(b"k", value)], now_ms())
            producer.end(commit=n % 2 == 0)
            shared.begin_transaction()
            for partition in (0, 1):
                shared.send("turns", b"ours-shared-late-%d-%d" % (number, n), partition=partition)
            shared.flush()
            shared.commit_transaction()


def compare(log_dir: Path, consumed: dict[str, Judged]) -> None:
    """kstore, beside the stopped broker's directory, says what the broker said."""
    with kstore.open(log_dir, mode="r") as store:
        for tp in PARTITIONS:
            log = store["turns"][int(tp[-1])]
            assert_same_records(log, consumed[tp])
            assert_same_transactions(log, consumed[tp])
            assert_same_producers(log, consumed[tp])


def look_and_stop(broker: Node, java: Clients) -> dict[str, Judged]:
    """What the broker says of the directory that it leaves: again if markers came in between."""
    while True:
        consumed = java.look(PARTITIONS)
        broker.stop()
        late = [
            batch
            for tp in PARTITIONS
            for batch, _ in batches_of(broker.log_dir / tp, consumed[tp].end_offset)
        ]
        if not late:
            return consumed
        assert all(batch.control for batch in late), late
        broker.start()
        java.use(broker)


@pytest.mark.timeout(600)
def test_a_broker_and_kstore_alternate_on_a_directory_for_ten_rounds(
    kafka: str, tmp_path: Path
) -> None:
    broker = Node(kafka, tmp_path)
    promises = Promises()
    with clients(kafka, tmp_path) as java:
        try:
            broker.start()
            java.use(broker)
            java.create_topic("turns", 2, **SMALL)
            for number in range(ROUNDS):
                kafka_dies = number % 2 == 0
                kafka_turn(java, promises, number, broker if kafka_dies else None)
                if not kafka_dies:
                    consumed = look_and_stop(broker, java)
                    promises.check(broker.log_dir, consumed)
                    compare(broker.log_dir, consumed)
                if kafka_dies:
                    with kstore.open(broker.log_dir) as store:
                        assert store["turns"][0].recovery is not None
                        keep(promises, our_part(store, number))
                else:
                    keep(promises, killed_part(broker.log_dir, number))
                broker.start()
                java.use(broker)
                promises.check(broker.log_dir, java.look(PARTITIONS))
            consumed = look_and_stop(broker, java)
            compare(broker.log_dir, consumed)
        finally:
            broker.kill()
    assert sum(map(len, promises.values.values())) > ROUNDS * 90


if __name__ == "__main__":
    main()
