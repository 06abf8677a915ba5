"""SIGKILL of ``kstore serve`` while copiers copy in transactions: each record exactly once.

As Kafka's TransactionalMessageCopier: a copier reads numbers behind its group's committed offset,
writes each to two partitions, and commits the next offset in the same transaction. After a kill it
takes its transactional id again, which ends what was open, and continues at the committed offset.
A reader in another process reads committed records meanwhile.
"""

import random
import threading
import time
from pathlib import Path
from typing import Any

from interop.kstore_node import KstoreNode
from interop.node import Node
from kstore._native.append.encode import BatchBuffer
from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from support.logs import read_log as open_reader
from support.wire_client import Connection

SOURCE, COPY = "source", "copy"
COPIERS = 2  # each with partitions of its own
OF_EACH = 3  # records of a transaction
ABORTS_EACH = 7  # every seventh transaction
LONGEST_LIFE = 0.8  # seconds between a start and its kill
_TRANSACTIONAL = 0x10
_AGAIN = frozenset((3, 5, 6, 7, 14, 15, 16, 19, 51, 88))  # may succeed later
_FENCED = frozenset((47, 48, 49, 90, 120))  # a transaction of before the kill
_GONE = (ConnectionError, TimeoutError, OSError)


class Interrupted(Exception):
    """An answer after which the copier begins again."""


def expect(code: int, what: str) -> None:
    if code in _AGAIN or code in _FENCED:
        raise Interrupted
    assert code == 0, f"{what}: error {code}"


class Copier(threading.Thread):
    """Copies the numbers of its source partition until it is stopped."""

    def __init__(self, address: str, number: int) -> None:
        super().__init__(name=f"copier-{number}", daemon=True)
        self.number = number
        self.error: BaseException | None = None
        self.answered = 0  # the committed offset after the last commit that was answered
        self.transactions = 0
        self._address = address
        self._tries = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    connection = Connection(self._address)
                except OSError:
                    self._stopping.wait(0.01)
                    continue
                try:
                    self._copy(connection)
                except (*_GONE, Interrupted):
                    self._stopping.wait(0.01)
                finally:
                    connection.close()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.error is not None:
            raise self.error

    def _copy(self, connection: Connection) -> None:
        """Copy over one connection. Raises Interrupted or ConnectionError after a kill."""
        producer = self._begin(connection)
        sequence = 0
        offset = self._committed(connection)
        assert offset >= self.answered, "a commit that was answered is lost"
        while not self._stopping.is_set():
            numbers = range(offset, offset + OF_EACH)
            self._transaction(connection, producer, sequence, numbers)
            sequence += OF_EACH
            offset = numbers.stop
            self.answered = offset
            self.transactions += 1

    def _begin(self, connection: Connection) -> tuple[int, int]:
        for key_type in (0, 1):
            found = connection.ask(
                ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[self.name]
            )
            expect(found.coordinators[0].error_code, "FindCoordinator")
        while True:
            fields = {"transactional_id": self.name, "transaction_timeout_ms": 30_000}
            answer = connection.ask(ApiKey.INIT_PRODUCER_ID, 4, **fields)
            if answer.error_code not in (14, 51):
                expect(answer.error_code, "InitProducerId")
                return answer.producer_id, answer.producer_epoch
            time.sleep(0.005)

    def _committed(self, connection: Connection) -> int:
        topics = [{"name": SOURCE, "partition_indexes": [self.number]}]
        while True:
            answer = connection.ask(
                ApiKey.OFFSET_FETCH, 7, group_id=self.name, topics=topics, require_stable=True
            )
            if answer.error_code == 14:
                time.sleep(0.005)
                continue
            expect(answer.error_code, "OffsetFetch")
            found = answer.topics[0].partitions[0]
            expect(found.error_code, "OffsetFetch")
            return max(found.committed_offset, 0)

    def _transaction(
        self, connection: Connection, producer: tuple[int, int], sequence: int, numbers: range
    ) -> None:
        mine = {
            "transactional_id": self.name,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
        }
        copies = [2 * self.number, 2 * self.number + 1]
        while True:
            added = connection.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[{"name": COPY, "partitions": copies}],
            )
            codes = {
                each.partition_error_code
                for topic in added.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            if codes != {51}:
                break
            time.sleep(0.001)
        expect(max(codes), "AddPartitionsToTxn")
        expect(
            connection.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, **mine, group_id=self.name).error_code,
            "AddOffsetsToTxn",
        )
        batch = transactional_batch(producer, sequence, numbers)
        partitions = [{"index": each, "records": batch} for each in copies]
        produced = connection.ask(
            ApiKey.PRODUCE,
            8,
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[{"name": COPY, "partition_data": partitions}],
        )
        for answer in produced.responses[0].partition_responses:
            expect(answer.error_code, "Produce")
        offset = {"partition_index": self.number, "committed_offset": numbers.stop}
        topics = [{"name": SOURCE, "partitions": [offset]}]
        stored = connection.ask(
            ApiKey.TXN_OFFSET_COMMIT, 3, **mine, group_id=self.name, topics=topics
        )
        expect(stored.topics[0].partitions[0].error_code, "TxnOffsetCommit")
        self._tries += 1
        is_aborted = self._tries % ABORTS_EACH == 0
        ended = connection.ask(ApiKey.END_TXN, 3, **mine, committed=not is_aborted)
        expect(ended.error_code, "EndTxn")
        if is_aborted:
            raise Interrupted


def transactional_batch(producer: tuple[int, int], sequence: int, numbers: range) -> bytes:
    buffer = BatchBuffer()
    buffer.set_producer(*producer, sequence)
    for number in numbers:
        buffer.put(b"%d" % number, None, None, time.time_ns() // 1_000_000)
    return buffer.to_bytes(0, -1, _TRANSACTIONAL)


class Watcher(threading.Thread):
    """Reads the committed records of each copy beside the broker: never a part of a transaction."""

    def __init__(self, log_dir: Path) -> None:
        super().__init__(name="watcher", daemon=True)
        self.looks = 0
        self.error: BaseException | None = None
        self._log_dir = log_dir
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                for partition in range(2 * COPIERS):
                    numbers = committed(self._log_dir, partition)
                    if numbers is not None:
                        check_numbers(numbers, partition)
                        self.looks += 1
                self._stopping.wait(0.05)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def committed(log_dir: Path, partition: int) -> list[int] | None:
    """The committed numbers of a copy; None while the broker changes its files."""
    try:
        log = open_reader(log_dir / f"{COPY}-{partition}", own=False)
    except (KStoreError, OSError):
        return None
    try:
        return [int(each.value or b"") for each in log.view(isolation="read_committed")]
    except (KStoreError, OSError):
        return None
    finally:
        log.close()


def check_numbers(numbers: list[int], partition: int) -> None:
    assert numbers == list(range(len(numbers))), f"{COPY}-{partition}: not every number once"
    assert len(numbers) % OF_EACH == 0, f"{COPY}-{partition}: a part of a transaction is visible"


def create_topics(address: str) -> None:
    connection = Connection(address)
    wanted: list[dict[str, Any]] = [
        {"name": SOURCE, "num_partitions": COPIERS, "replication_factor": 1},
        {"name": COPY, "num_partitions": 2 * COPIERS, "replication_factor": 1},
    ]
    answer = connection.ask(ApiKey.CREATE_TOPICS, 4, topics=wanted, timeout_ms=30_000)
    assert not any(each.error_code for each in answer.topics), answer
    connection.close()


def kill_often(node: KstoreNode | Node, kills: int, seed: int) -> dict[str, int]:
    """Start a node and kill it so often under copying; how much each copier has copied.

    AssertionError where a record is missing, repeated, out of order or visible too early.
    """
    draw = random.Random(seed)
    node.start()
    copiers = [Copier(node.address, each) for each in range(COPIERS)]
    watcher = Watcher(node.log_dir)
    try:
        create_topics(node.address)
        for each in (*copiers, watcher):
            each.start()
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, LONGEST_LIFE))
            node.kill()
            node.start()
        before = [each.transactions for each in copiers]
        until = time.monotonic() + 60  # every copier continues after the last kill
        while any(c.transactions <= b for c, b in zip(copiers, before, strict=True)):
            assert time.monotonic() < until, "a copier does not continue"
            assert all(each.error is None for each in copiers), [e.error for e in copiers]
            time.sleep(0.01)
        for copier in copiers:
            copier.stop()
        watcher.stop()
        finish(node, copiers)
    finally:
        node.kill()
    found = {}
    for copier in copiers:
        for partition in (2 * copier.number, 2 * copier.number + 1):
            numbers = committed(node.log_dir, partition)
            assert numbers is not None
            check_numbers(numbers, partition)
            assert len(numbers) == copier.answered, f"{copier.name}: answered {copier.answered}"
        found[copier.name] = len(numbers)
    found["looks"] = watcher.looks
    return found


def finish(node: KstoreNode | Node, copiers: list[Copier]) -> None:
    """Take every transactional id once more, which ends what is open."""
    for copier in copiers:
        until = time.monotonic() + 60
        while True:
            assert time.monotonic() < until
            connection = Connection(node.address)
            try:
                copier._begin(connection)
                copier.answered = copier._committed(connection)
                break
            except Interrupted:
                time.sleep(0.01)
            finally:
                connection.close()
