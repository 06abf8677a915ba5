"""The same requests to a real broker and to kstore's log as leader: the same numbers of errors.

Produce and WriteTxnMarkers as they go over the wire, from kafka-python's protocol classes, which
add nothing of their own. Kafka's number is what a client of kstore's would be sent.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka.protocol.producer import ProduceRequest, WriteTxnMarkersRequest

import kstore
from interop.kafka_python_requests import KafkaPythonRequests
from interop.node import Node
from kstore.errors import KStoreError
from kstore.log.log import Log
from oracle.reader import read_log as oracle_read
from oracle.writer import batch
from support.client_batches import NOT_OLD, ODD, WRONG, flipped, rows
from support.logs import log_bytes, open_log
from support.producers import sent

NOW = time.time_ns() // 1_000_000  # a broker forgets producers whose batches are a day old
LARGEST = 2**31 - 1
IDLE, ONE, TWO, NEVER = 1001, 1002, 1003, 1004  # producer ids
TOPICS = ("listed", "drawn", "shapes", "compacted", "small", "strict")
SETTINGS: dict[str, dict[str, object]] = {
    "compacted": {"cleanup_policy": "compact"},
    "small": {"max_message_bytes": 1200},
    "strict": {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 1000},
}


class Answer(NamedTuple):
    """Kafka's number of the error, 0 for none, and where the batch went or had gone (else -1)."""

    code: int
    base_offset: int = -1


class Mark(NamedTuple):
    """A coordinator's word on a producer's transaction."""

    producer_id: int
    epoch: int
    commit: bool = True
    coordinator_epoch: int = 0
    version: int = 0


def the_brokers(
    broker: KafkaPythonRequests, topic: str, request: bytes | Mark, *, has_versions: bool
) -> Answer:
    if isinstance(request, Mark):
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=request.producer_id,
            producer_epoch=request.epoch,
            transaction_result=request.commit,
            topics=[
                WriteTxnMarkersRequest.WritableTxnMarker.WritableTxnMarkerTopic(
                    name=topic, partition_indexes=[0]
                )
            ],
            coordinator_epoch=request.coordinator_epoch,
            transaction_version=request.version,
        )
        response = broker.ask(
            WriteTxnMarkersRequest(markers=[marker], version=2 if has_versions else 1)
        )
        return Answer(response.markers[0].topics[0].partitions[0].error_code)
    part = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=request)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    is_transactional = len(request) > 22 and request[22] & 0x10
    response = broker.ask(
        ProduceRequest(
            transactional_id="t" if is_transactional else None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[data],
            version=9,
        )
    )
    found = response.responses[0].partition_responses[0]
    return Answer(found.error_code, found.base_offset)


def ours(log: Log, request: bytes | Mark) -> Answer:
    try:
        if isinstance(request, Mark):
            log.append_end_marker(
                request.producer_id,
                request.epoch,
                commit=request.commit,
                coordinator_epoch=request.coordinator_epoch,
                transaction_version=request.version,
            )
            return Answer(0)
        return Answer(0, log.append_as_leader(request).first_offset)
    except KStoreError as error:
        return Answer(error.code)


def plain(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    return sent(producer_id, epoch, sequence, count, timestamp=NOW)


def within(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    """A batch of a transaction."""
    return sent(producer_id, epoch, sequence, count, transactional=True, timestamp=NOW)


# What is sent, and the number that both have to answer.
REQUESTS: list[tuple[str, bytes | Mark, int]] = [
    *[(f"batch {n}", plain(IDLE, 0, 2 * n, 2), 0) for n in range(6)],
    *[(f"batch {n} again", plain(IDLE, 0, 2 * n, 2), 0) for n in range(1, 6)],
    ("the sixth from the end", plain(IDLE, 0, 0, 2), 45),
    ("half of a batch", plain(IDLE, 0, 10, 1), 45),
    ("two batches in one", plain(IDLE, 0, 8, 4), 45),
    ("one was skipped", plain(IDLE, 0, 13), 45),
    ("its epoch rises, not from 0", plain(IDLE, 1, 12), 45),
    ("its epoch rises", plain(IDLE, 1, 0), 0),
    ("the old epoch", plain(IDLE, 0, 12), 47),
    ("the old epoch, repeated", plain(IDLE, 0, 10, 2), 47),
    ("the new one, repeated", plain(IDLE, 1, 0), 0),
    ("unknown producer, not from 0", plain(NEVER, 3, 7), 0),
    ("to the largest sequence", plain(NEVER, 4, 0), 0),
    ("sequences run over", plain(ONE, 0, LARGEST - 1, 4), 0),
    ("and on", plain(ONE, 0, 2), 0),
    ("run over, repeated", plain(ONE, 0, LARGEST - 1, 4), 0),
    ("a transaction", within(TWO, 2, 0, 3), 0),
    ("in it, out of order", within(TWO, 2, 4), 45),
    ("in it, an old epoch", within(TWO, 1, 3), 47),
    ("in it, not of it", plain(TWO, 2, 3), 48),
    ("a marker of an old epoch", Mark(TWO, 1), 47),
    ("a marker", Mark(TWO, 2, coordinator_epoch=5), 0),
    ("a second one", Mark(TWO, 2, coordinator_epoch=5), 0),
    ("an older coordinator's", Mark(TWO, 2, coordinator_epoch=4), 52),
    ("it continues", within(TWO, 2, 3), 0),
    ("an abort by a higher epoch", Mark(TWO, 3, commit=False, coordinator_epoch=5), 0),
    ("fenced", within(TWO, 2, 4), 47),
    ("it comes back, not from 0", within(TWO, 3, 4), 45),
    ("it comes back", within(TWO, 3, 0), 0),
    ("a marker of an unknown producer", Mark(NEVER + 1, 0, commit=False), 0),
]
# Kafka 4.3 knows what kind of transaction a marker ends (KIP-1228).
VERSIONED: list[tuple[str, bytes | Mark, int]] = [
    ("the records' own epoch", Mark(TWO, 3, coordinator_epoch=5, version=2), 47),
    ("a higher one", Mark(TWO, 4, coordinator_epoch=5, version=2), 0),
    ("sent again", Mark(TWO, 4, coordinator_epoch=5, version=2), 0),
]


def drawn(seed: int, count: int) -> Iterator[tuple[str, bytes | Mark]]:
    """Anything that a few confused producers and coordinators may send."""
    chosen = random.Random(seed)
    following: dict[int, list[int]] = {id_: [0, 0] for id_ in range(1, 5)}  # epoch, sequence
    for number in range(count):
        producer_id = chosen.choice([*following])
        state = following[producer_id]
        if chosen.random() < 0.25:
            epoch = max(0, state[0] + chosen.choice((0, 0, 0, 1, -1)))
            mark = Mark(producer_id, epoch, chosen.random() < 0.5, chosen.choice((0, 1, 1, 2)))
            yield f"{number}: {mark}", mark
            state[:] = [max(epoch, state[0]), 0 if epoch > state[0] else state[1]]
            continue
        size = chosen.randint(1, 3)
        epoch = max(0, state[0] + chosen.choice((0,) * 8 + (1, -1)))
        first = 0 if epoch != state[0] else state[1]
        first = max(0, first + chosen.choice((0,) * 8 + (1, -1, -2, -3)))
        of_transaction = chosen.random() < (0.8 if producer_id < 3 else 0.1)
        make = within if of_transaction else plain
        what = f"{make.__name__}({producer_id}, {epoch}, {first}, {size})"
        yield f"{number}: {what}", make(producer_id, epoch, first, size)
        if epoch >= state[0] and (epoch > state[0] or first == state[1]):
            state[:] = [epoch, first + size]


@pytest.fixture(scope="module")
def broker(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(kafka, tmp_path_factory.mktemp("refusals"))
    # Whether a coordinator knows of a transaction is no question to the log.
    node.settings["transaction.partition.verification.enable"] = "false"
    try:
        node.start()
        for topic in TOPICS:
            node.create_topic(topic, **SETTINGS.get(topic, {}))
        yield node
    finally:
        node.kill()


@pytest.fixture
def both(
    broker: Node, tmp_path: Path
) -> Iterator[Callable[[str, bytes | Mark], tuple[Answer, Answer]]]:
    """Sends to a topic of the broker's and to a log of its settings; what each answered."""
    requests = KafkaPythonRequests(broker.address)
    logs: dict[str, Log] = {}

    def ask(topic: str, request: bytes | Mark) -> tuple[Answer, Answer]:
        if topic not in logs:
            settings = {"message_timestamp_after_max_ms": 2**63 - 1, **SETTINGS.get(topic, {})}
            logs[topic] = open_log(tmp_path / topic / "t-0", **settings)
        theirs = the_brokers(requests, topic, request, has_versions=broker.version >= "4.3")
        return theirs, ours(logs[topic], request)

    yield ask
    requests.close()
    for topic, log in logs.items():
        log.close()
        assert same_batches(broker.log_dir / f"{topic}-0", tmp_path / topic / "t-0")


def same_batches(theirs: Path, made: Path) -> bool:
    """Whether two logs hold the same batches of the same producers at the same offsets."""
    found = []
    for folder in (theirs, made):
        found.append(
            [
                (each.base_offset, each.producer_id, each.producer_epoch, each.base_sequence)
                for each in oracle_read(log_bytes(folder)).batches
            ]
        )
    assert found[0]
    return found[0] == found[1]


Both = Callable[[str, bytes | Mark], tuple[Answer, Answer]]


def test_producers_and_coordinators_are_refused_by_the_same_numbers(
    broker: Node, both: Both
) -> None:
    for what, request, code in REQUESTS + (VERSIONED if broker.version >= "4.3" else []):
        theirs, answer = both("listed", request)
        assert (theirs.code, answer) == (code, theirs), what


def test_whatever_confused_producers_send(both: Both) -> None:
    refused = set()
    for what, request in drawn(7, 300):
        theirs, answer = both("drawn", request)
        assert answer == theirs, what
        refused.add(theirs.code)
    assert refused == {0, 45, 47, 48, 52}


def shapes() -> dict[str, bytes]:
    """Batches v2, right and wrong, that this version of Produce may carry."""
    found = {f"right: {codec}": batch(rows(5, timestamp=NOW), codec=codec) for codec in range(5)}
    found["not sealed"] = flipped(batch(rows(5), codec=0), 70)
    found["large"] = batch(rows(2, value=b"x" * 1500), codec=0)
    for name, data in (ODD | WRONG | NOT_OLD).items():
        if len(data) > 16 and data[16] == 2:
            found[name] = data
    del found["two"]  # Produce takes one batch a partition, whatever the log would say of it
    return found


@pytest.mark.parametrize("topic", ["shapes", "compacted", "small", "strict"])
def test_batches_are_refused_by_the_same_numbers(both: Both, topic: str) -> None:
    differences, refused = [], set()
    for what, data in shapes().items():
        theirs, answer = both(topic, data)
        refused.add(theirs.code)
        if answer != theirs:
            differences.append((what, theirs, answer))
    assert differences == []
    assert 0 in refused or topic == "strict"
    assert {"shapes": 87, "compacted": 87, "small": 10, "strict": 32}[topic] in refused


def test_every_number_is_kafkas() -> None:
    """The code of each of our errors is that of a name that Kafka has."""
    import kafka.errors

    known = {0, -1}
    for kind in vars(kstore.errors).values():
        if isinstance(kind, type) and issubclass(kind, KStoreError) and kind.code not in known:
            assert kafka.errors.for_code(kind.code).errno == kind.code, kind
            known.add(kind.code)
    assert len(known) > 20
