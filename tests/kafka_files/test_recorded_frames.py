"""What old clients and Kafka sent each other: decoded, and encoded again to the same bytes."""

from collections import Counter
from collections.abc import Iterator

import pytest

from interop.recorded.messages import (
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    version_of_answer,
)
from interop.recorded.recording import recorded
from interop.recorded.session import Exchange, Session, exchanges
from kstore._native.read.decode import Scanner
from kstore.config import CODECS
from kstore.protocol.api_keys import ApiKey
from kstore.record.codec import decompress
from kstore.record.format_conversion import rebuild
from oracle import codec as codecs
from oracle.plain import PlainBatch
from oracle.reader import read_log

# The first versions that a broker of Kafka 4 takes, of the APIs whose older ones it does not.
KAFKA_4 = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
}
BELOW_KAFKA_4 = {(api, version) for api, first in KAFKA_4.items() for version in range(first)}
# How many batches there are of each format and codec.
RECORDED_KINDS = {
    (0, "none"): 88,
    (0, "gzip"): 10,
    (0, "snappy"): 4,
    (1, "none"): 68,
    (1, "snappy"): 6,
    (1, "lz4"): 6,
    (2, "none"): 24,
    (2, "gzip"): 8,
    (2, "lz4"): 8,
    (2, "zstd"): 6,
}
SESSIONS = [pytest.param(each, id=each.name) for each in recorded()]


def all_exchanges() -> Iterator[Exchange]:
    for session in recorded():
        yield from exchanges(session)


def test_every_version_below_those_of_kafka_4_is_recorded() -> None:
    found = {each.pair for each in all_exchanges() if each.answer is not None}
    assert BELOW_KAFKA_4 - found == set()


@pytest.mark.parametrize("session", SESSIONS)
def test_requests_and_answers_are_encoded_to_the_same_bytes(session: Session) -> None:
    for each in exchanges(session):
        header, request = decode_request(each.request)
        assert encode_request(header, request) == each.request, each.pair
        if each.answer is None:
            continue
        answer = decode_answer(header, each.answer)
        version = version_of_answer(header, each.answer)
        assert encode_answer(header, answer, version) == each.answer, each.pair


def produced(each: Exchange) -> Iterator[bytes]:
    """The record sets of a Produce request."""
    if each.api == ApiKey.PRODUCE:
        for topic in decode_request(each.request)[1].topic_data:
            yield from (bytes(partition.records) for partition in topic.partition_data)


def fetched(each: Exchange) -> Iterator[bytes]:
    """The record sets of an answer to Fetch."""
    if each.api == ApiKey.FETCH and each.answer is not None:
        for topic in decode_answer(each.header, each.answer).responses:
            yield from (bytes(partition.records or b"") for partition in topic.partitions)


def record_sets() -> Iterator[bytes]:
    for each in all_exchanges():
        yield from produced(each)
        yield from fetched(each)


def body(batch: PlainBatch, data: bytes) -> bytes:
    """The uncompressed records of a batch v2, the inner messages of a wrapper."""
    if batch.magic == 2:
        return codecs.decompress(batch.codec, data[61:], 2)
    start = 14 + 4 + 8 * (batch.magic == 1) + 4 + 4  # behind the key, which wrappers lack
    return codecs.decompress(batch.codec, data[start:], batch.magic)


def test_record_sets_are_decoded_and_encoded_again() -> None:
    """To the same bytes; compressed ones to the same records in other bytes of the codec.

    A wrapper gets the offsets that its leader gives: old clients give each message offset 0.
    """
    kinds: Counter[tuple[int, str]] = Counter()
    for records in record_sets():
        for batch in read_log(records).batches:
            data = records[batch.position : batch.position + batch.size]
            batch = batch._replace(position=0)
            if not batch.control:
                kinds[batch.magic, CODECS[batch.codec]] += 1
                assert_encoded_again(batch, data)
    assert kinds == RECORDED_KINDS


def assert_encoded_again(batch: PlainBatch, data: bytes) -> None:
    made = rebuild(
        data, batch.magic,
        base_offset=batch.base_offset,
        compression=CODECS[batch.codec],
        leader_epoch=batch.leader_epoch,
    )  # fmt: skip
    if batch.codec == 0:
        assert made == data
        return
    (ours,) = read_log(made).batches
    if batch.magic == 2:
        assert ours._replace(size=batch.size) == batch
        assert body(ours, made) == body(batch, data)
    elif all(record.offset == 0 for record in batch.records):  # Java's clients up to 0.9
        assert [record._replace(offset=0) for record in ours.records] == list(batch.records)
    else:
        assert ours.records == batch.records
        assert body(ours, made) == body(batch, data)


def test_record_sets_of_fetches_are_read_as_the_oracle_reads_them() -> None:
    count = 0
    for each in all_exchanges():
        for records in fetched(each):
            log = read_log(records)
            scanner = Scanner(records[: log.tail_position], decompress=decompress)
            found = []
            while (some := scanner.next_records()) is not None:
                found += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in some]
            assert found == [record[:5] for record in log.records if not record.control]
            count += len(found)
    assert count == 169
