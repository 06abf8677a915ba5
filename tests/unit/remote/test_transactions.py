"""The administration of transactions asks again while a broker opens its logs."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from kstore.errors import KStoreError, SourceError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kstore.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kstore.remote.cluster import Cluster
from kstore.remote.transactions import abort_transaction, describe_producers
from kstore.topic_partition import TopicPartition
from support.fake_broker import FakeBroker, fake_brokers

DESCRIBE, MARKERS = DescribeProducersRequest.API_KEY, WriteTxnMarkersRequest.API_KEY
TP = TopicPartition("t", 0)
Described = DescribeProducersResponse.Topics
Written = WriteTxnMarkersResponse.Markers


def described(code: ErrorCode) -> DescribeProducersResponse:
    producer = Described.Partitions.ActiveProducers(producer_id=7, current_txn_start_offset=-1)
    partition = Described.Partitions(
        partition_index=0,
        error_code=code,
        active_producers=[] if code else [producer],
    )
    return DescribeProducersResponse(topics=[Described("t", [partition])])


def written(code: ErrorCode) -> WriteTxnMarkersResponse:
    partition = Written.Topics.Partitions(partition_index=0, error_code=code)
    return WriteTxnMarkersResponse(markers=[Written(7, [Written.Topics("t", [partition])])])


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """One whose first response has an error that clients retry."""
    with fake_brokers(1) as (broker,):
        broker.highest |= {DESCRIBE: 0, MARKERS: 1}
        for key, answer, first in (
            (DESCRIBE, described, ErrorCode.LEADER_NOT_AVAILABLE),
            (MARKERS, written, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            codes = chain([first], repeat(ErrorCode.NONE))
            broker.answers[key] = lambda _, answer=answer, codes=codes: answer(next(codes))
        yield broker


@pytest.fixture
def cluster(broker: FakeBroker) -> Iterator[Cluster]:
    with Cluster(broker.address) as cluster:
        yield cluster


@pytest.mark.parametrize("node", [None, 1])
def test_producers_are_asked_for_again(
    cluster: Cluster, broker: FakeBroker, node: int | None
) -> None:
    [producer] = describe_producers(cluster, [TP], broker=node)[TP]
    assert producer.producer_id == 7
    assert len(broker.of(DESCRIBE)) == 2


def test_a_marker_is_sent_again(cluster: Cluster, broker: FakeBroker) -> None:
    abort_transaction(cluster, TP, 7, 0, 0)
    assert len(broker.of(MARKERS)) == 2


def test_other_errors_are_raised_at_once(cluster: Cluster, broker: FakeBroker) -> None:
    broker.answers[DESCRIBE] = lambda _: described(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KStoreError):
        describe_producers(cluster, [TP])
    with pytest.raises(SourceError, match="the cluster has no broker 9"):
        describe_producers(cluster, [TP], broker=9)
    assert len(broker.of(DESCRIBE)) == 1
