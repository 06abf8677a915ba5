"""SIGKILL of ``kstore serve`` under load: every acknowledged record exists once, in order.

Two loads of their own partitions. Idempotent producers keep five batches in flight and send what
has no answer again after a kill, with the same sequence numbers, as Kafka's client does. A counter
without an id reads the last number of its partition after a kill and continues behind it.
"""

import random
import threading
import time
from collections import deque
from typing import Any

from interop.kstore_node import KstoreNode
from interop.node import Node
from kstore._native.append.encode import BatchBuffer
from kstore.log.read_only_log import ReadOnlyLog
from kstore.protocol.api_keys import ApiKey
from oracle.reader import read_log
from support.logs import read_log as open_reader
from support.wire_client import PATIENCE, Connection, encode, frame

TOPIC = "killed"
PRODUCERS = 3
COUNTER = PRODUCERS  # its partition
BATCH = 4  # records
IN_FLIGHT = 5
DUPLICATE_SEQUENCE = 46
LONGEST_LIFE = 0.6  # seconds between a start and its kill
_VERSION = 8
_GONE = (ConnectionError, TimeoutError, OSError)


def produce_body(partition: int, batch: bytes) -> bytes:
    """The body of a Produce request with acks=1."""
    partitions = [{"index": partition, "records": batch}]
    topics = [{"name": TOPIC, "partition_data": partitions}]
    fields = {"acks": 1, "timeout_ms": 30_000, "topic_data": topics}
    return encode(ApiKey.PRODUCE, _VERSION, fields)


def batch_of(values: list[bytes], producer: tuple[int, int] | None = None) -> bytes:
    """A batch; ``producer``: its id and the sequence number of the first record."""
    buffer = BatchBuffer()
    if producer is not None:
        buffer.set_producer(producer[0], 0, producer[1])
    for value in values:
        buffer.put(value, None, None, time.time_ns() // 1_000_000)
    return buffer.to_bytes(0, -1)


class Load(threading.Thread):
    """Writes to one partition until it is stopped, over as many connections as it takes.

    ``acknowledged``: the offset of each number of which an answer came.
    """

    def __init__(self, address: str, partition: int) -> None:
        super().__init__(name=f"load-{partition}", daemon=True)
        self.partition = partition
        self.acknowledged: dict[int, int] = {}
        self.error: BaseException | None = None
        self._address = address
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    connection = Connection(self._address)
                except OSError:
                    self._stopping.wait(0.01)  # the broker is about to start
                    continue
                try:
                    self.work(connection)
                except _GONE:
                    continue
                finally:
                    connection.close()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End after the answers to what was sent, and raise what went wrong."""
        self._stopping.set()
        self.join(2 * PATIENCE)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.error is not None:
            raise self.error

    def work(self, connection: Connection) -> None:
        raise AssertionError("a subclass has it")

    def take(self, answer: Any, numbers: range) -> bool:
        """Note an answer; False where the partition is not served yet."""
        found = answer.responses[0].partition_responses[0]
        if found.error_code in (3, 5, 6):
            return False
        assert found.error_code in (0, DUPLICATE_SEQUENCE), (self.name, numbers, found)
        if found.base_offset >= 0:
            for at, number in enumerate(numbers):
                self.acknowledged[number] = found.base_offset + at
        return True


class IdempotentLoad(Load):
    """One producer id for all of its life; unanswered batches are sent again."""

    _producer_id = -1
    _next = 0

    def __init__(self, address: str, partition: int) -> None:
        super().__init__(address, partition)
        self._unanswered: deque[range] = deque()

    def _send(self, connection: Connection, numbers: range) -> None:
        batch = batch_of([b"%d" % n for n in numbers], (self._producer_id, numbers.start))
        body = produce_body(self.partition, batch)
        connection.send(frame(ApiKey.PRODUCE, _VERSION, numbers.start, body))

    def work(self, connection: Connection) -> None:
        if self._producer_id < 0:
            fields = {"transactional_id": None, "transaction_timeout_ms": 1000}
            answer = connection.ask(ApiKey.INIT_PRODUCER_ID, 1, **fields)
            assert answer.error_code == 0, answer
            self._producer_id = answer.producer_id
        for numbers in self._unanswered:
            self._send(connection, numbers)
        while self._unanswered or not self._stopping.is_set():
            while len(self._unanswered) < IN_FLIGHT and not self._stopping.is_set():
                numbers = range(self._next, self._next + BATCH)
                self._next += BATCH
                self._unanswered.append(numbers)
                self._send(connection, numbers)
            answer = connection.answer(ApiKey.PRODUCE, _VERSION)
            if not self.take(answer, self._unanswered[0]):
                return  # the rest would be out of order: all of it again
            self._unanswered.popleft()


class CounterLoad(Load):
    """One number at a time; after a kill it reads which was the last."""

    def _last(self, connection: Connection) -> int | None:
        """The last number of the log, -1 of an empty one, None if the partition is not served."""
        partitions = [{"partition_index": self.partition, "timestamp": -1}]
        topics = [{"name": TOPIC, "partitions": partitions}]
        answer = connection.ask(ApiKey.LIST_OFFSETS, 1, replica_id=-1, topics=topics)
        found = answer.topics[0].partitions[0]
        if found.error_code in (3, 5, 6):
            return None
        assert found.error_code == 0, found
        if found.offset == 0:
            return -1
        wanted = {"partition": self.partition, "fetch_offset": found.offset - 1}
        topics = [{"topic": TOPIC, "partitions": [{**wanted, "partition_max_bytes": 1 << 20}]}]
        fields = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1 << 20, "topics": topics}
        fetched = connection.ask(ApiKey.FETCH, 4, **fields)
        records = read_log(bytes(fetched.responses[0].partitions[0].records)).records
        value = records[-1].value
        assert records[-1].offset == found.offset - 1
        assert value is not None
        return int(value)

    def work(self, connection: Connection) -> None:
        last = self._last(connection)
        if last is None:
            return
        assert last >= max(self.acknowledged, default=-1), "an acknowledged number is lost"
        while not self._stopping.is_set():
            number = last + 1
            body = produce_body(self.partition, batch_of([b"%d" % number]))
            connection.send(frame(ApiKey.PRODUCE, _VERSION, number, body))
            answer = connection.answer(ApiKey.PRODUCE, _VERSION)
            if not self.take(answer, range(number, number + 1)):
                return
            last = number


def create_topic(node: KstoreNode | Node) -> None:
    """The topic of all loads."""
    connection = Connection(node.address)
    wanted = {"name": TOPIC, "num_partitions": PRODUCERS + 1, "replication_factor": 1}
    answer = connection.ask(ApiKey.CREATE_TOPICS, 4, topics=[wanted], timeout_ms=30_000)
    assert answer.topics[0].error_code == 0, answer
    connection.close()


def check(log: ReadOnlyLog, load: Load) -> int:
    """Every number once and in order, and each acknowledged one at its offset; how many."""
    numbers = [int(record.value or b"") for record in log]
    assert numbers == list(range(len(numbers))), f"{load.name}: not every number once, in order"
    lost = {n: at for n, at in load.acknowledged.items() if at >= len(numbers) or numbers[at] != n}
    assert not lost, f"{load.name}: acknowledged numbers are lost: {lost}"
    return len(numbers)


def kill_often(node: KstoreNode | Node, kills: int, seed: int) -> dict[str, int]:
    """Start a node and kill it so often under load; the numbers that it then has, by load.

    AssertionError where an acknowledged record is missing, repeated or out of order.
    """
    draw = random.Random(seed)
    node.start()
    try:
        create_topic(node)
        loads = [IdempotentLoad(node.address, each) for each in range(PRODUCERS)]
        everything: list[Load] = [*loads, CounterLoad(node.address, COUNTER)]
        for load in everything:
            load.start()
        for _ in range(kills):
            time.sleep(draw.uniform(0, LONGEST_LIFE))
            node.kill()
            node.start()
        time.sleep(LONGEST_LIFE)
        for load in everything:
            load.stop()
    finally:
        node.kill()
    found = {}
    for load in everything:
        log = open_reader(node.log_dir / f"{TOPIC}-{load.partition}", own=False)
        found[load.name] = check(log, load)
        log.close()
    return found
