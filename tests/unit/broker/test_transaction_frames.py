"""AddPartitionsToTxn and EndTxn read from their frames: fields and answers are those of the
generated modules."""

import random
from typing import Any

import pytest

from kstore._native.broker.transaction_frames import parse_add_partitions, parse_end
from kstore.broker.answer_frames import encode_answer
from kstore.broker.api_table import ApiTable
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.headers import RequestHeader
from kstore.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kstore.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kstore.protocol.wire import Reader
from support.frame_pair import damaged, request_frame

ADD_VERSIONS, END_VERSIONS = range(4), range(5)
Topics = AddPartitionsToTxnRequest.V3AndBelowTopics
Result = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
PRODUCER = (2**62 + 5, 32_000)


def add(topics: list[Topics], name: str = "x") -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest([], name, *PRODUCER, topics)


def decoded(kind: Any, request: bytes) -> tuple[RequestHeader, Any]:
    reader = Reader(request)
    header = RequestHeader.decode(reader)
    message = kind.decode(reader, header.api_version)
    assert not reader.remaining
    return header, message


def answer_of(response: Any, header: RequestHeader) -> bytes:
    request = header.api_key, header.api_version, header.correlation_id
    chunks, _ = encode_answer(ApiTable(), response, *request)
    return b"".join(bytes(chunk) for chunk in chunks)


def is_add_parsed(request: bytes) -> bool:
    """Whether it is parsed; then compares the fields and the answer."""
    found = parse_add_partitions(memoryview(request))
    if found is None:
        return False
    header, message = decoded(AddPartitionsToTxnRequest, request)
    [topic] = message.v3_and_below_topics
    assert (found.version, found.correlation_id) == (header.api_version, header.correlation_id)
    assert (found.transactional_id, found.producer_id, found.producer_epoch) == (
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
    )
    assert (found.topic, list(found.partitions)) == (topic.name, topic.partitions)
    for error in (0, ErrorCode.PRODUCER_FENCED):
        results = [Result.ResultsByPartition(each, int(error)) for each in topic.partitions]
        response = AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[Result(topic.name, results)]
        )
        assert found.answer(error) == answer_of(response, header)
    return True


def is_end_parsed(request: bytes) -> bool:
    """Whether it is parsed; then compares the fields and the answer."""
    found = parse_end(memoryview(request))
    if found is None:
        return False
    header, message = decoded(EndTxnRequest, request)
    assert (found.version, found.correlation_id) == (header.api_version, header.correlation_id)
    assert (found.transactional_id, found.producer_id, found.producer_epoch) == (
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
    )
    assert found.is_commit is message.committed
    for error in (0, ErrorCode.CONCURRENT_TRANSACTIONS):
        assert found.answer(error) == answer_of(EndTxnResponse(error_code=int(error)), header)
    return True


@pytest.mark.parametrize("version", ADD_VERSIONS)
@pytest.mark.parametrize("name", ["x", "x" * 127, "x" * 32_767])
@pytest.mark.parametrize("client_id", [None, "", "me"])
def test_partitions_of_one_topic_are_parsed(version: int, name: str, client_id: str | None) -> None:
    for topic, partitions in (("t", [0]), ("t" * 249, list(range(64))), ("t", [5, 5, -1])):
        message = add([Topics(topic, partitions)], name)
        request = request_frame(message, version, client_id=client_id)[4:]
        assert is_add_parsed(request)
        assert not any(map(is_add_parsed, (request + b"\0", request[:-1], b"")))


@pytest.mark.parametrize("version", ADD_VERSIONS)
@pytest.mark.parametrize(
    "message",
    [
        add([]),
        add([Topics("t", [])]),
        add([Topics("t", [0]), Topics("u", [0])]),
        add([Topics("t" * 250, [0])]),
        add([Topics("t", list(range(65)))]),
        add([Topics("t\u00e4", [0])]),
        add([Topics("t", [0])], ""),
        add([Topics("t", [0])], "\u00e4"),
    ],
)
def test_other_partitions_are_left_to_the_generated_modules(
    version: int, message: AddPartitionsToTxnRequest
) -> None:
    assert not is_add_parsed(request_frame(message, version)[4:])


@pytest.mark.parametrize("version", END_VERSIONS)
@pytest.mark.parametrize("name", ["x", "x" * 127, "x" * 32_767])
def test_the_end_of_a_transaction_is_parsed(version: int, name: str) -> None:
    for is_commit in (True, False):
        request = request_frame(EndTxnRequest(name, *PRODUCER, is_commit), version)[4:]
        assert is_end_parsed(request)
        assert not any(map(is_end_parsed, (request + b"\0", request[:-1], b"")))
    for other in ("", "\u00e4"):
        message = EndTxnRequest(other, *PRODUCER, True)
        assert not is_end_parsed(request_frame(message, version)[4:])


def test_other_versions_are_left_to_the_generated_modules() -> None:
    assert not is_end_parsed(request_frame(EndTxnRequest("x", *PRODUCER, True), 5)[4:])
    added = AddPartitionsToTxnRequest.Transactions("x", *PRODUCER, False, [])
    assert not is_add_parsed(request_frame(AddPartitionsToTxnRequest([added]), 4)[4:])


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_damaged_frames_are_parsed_as_by_the_generated_modules(version: int) -> None:
    chance = random.Random(version)
    adding = request_frame(add([Topics("topic", [0, 1, 2])]), version)
    ending = request_frame(EndTxnRequest("x", *PRODUCER, True), version)
    count = 0
    for _ in range(3000):
        count += is_add_parsed(damaged(adding, chance)[4:])
        count += is_end_parsed(damaged(ending, chance)[4:])
    assert 0 < count < 6000
