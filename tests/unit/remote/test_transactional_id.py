"""What a transactional id asks its coordinator, and when it asks again."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from kstore.errors import InvalidProducerIdMappingError, KStoreError, ProducerFencedError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kstore.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kstore.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kstore.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kstore.remote.cluster import Cluster
from kstore.remote.transactional_id import TransactionalId
from kstore.topic_partition import TopicPartition
from support.fake_broker import FakeBroker, fake_brokers

FIND, INIT = FindCoordinatorRequest.API_KEY, InitProducerIdRequest.API_KEY
ADD, END = AddPartitionsToTxnRequest.API_KEY, EndTxnRequest.API_KEY
TP = TopicPartition("t", 0)
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
Added = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with fake_brokers(1) as (broker,):
        broker.highest |= {FIND: 4, INIT: 5, ADD: 5, END: 5}
        broker.answers[FIND] = lambda _: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinators("tx", 1, "127.0.0.1", broker.port)]
        )
        answer(broker, INIT)
        answer(broker, ADD)
        answer(broker, END)
        yield broker


def answer(broker: FakeBroker, key: int, *codes: int) -> None:
    """Answer requests of this kind with these errors, and then without."""
    given = chain(codes, repeat(0))

    def added(code: int) -> AddPartitionsToTxnResponse:
        partition = Added.ResultsByPartition(0, code)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[Added("t", [partition])])

    make = {
        INIT: lambda code: InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=3),
        ADD: added,
        END: lambda code: EndTxnResponse(error_code=code),
    }[key]
    broker.answers[key] = lambda _: make(next(given))


def test_it_asks_again_while_the_coordinator_is_busy_or_moves(broker: FakeBroker) -> None:
    for key in (INIT, ADD, END):
        answer(broker, key, *PASSING)
    with Cluster(broker.address) as cluster:
        transactions = TransactionalId(cluster, "tx", 5000)
        transactions.init()
        assert (transactions.producer_id, transactions.producer_epoch) == (7, 3)
        assert transactions.add_partition(TP) == 0
        transactions.wrote(TP, 5)
        assert transactions.add_partition(TP) == 5
        transactions.commit()
        assert transactions.add_partition(TP) == 5
        transactions.abort()
    assert {request.transaction_timeout_ms for _, request in broker.of(INIT)} == {5000}
    # Later versions are those of brokers, or change the epoch.
    assert {key: {version for version, _ in broker.of(key)} for key in (ADD, END)} == {
        ADD: {3}, END: {4},
    }  # fmt: skip
    assert [len(broker.of(key)) for key in (INIT, ADD, END)] == [4, 5, 5]
    assert [request.committed for _, request in broker.of(END)] == [True] * 4 + [False]
    assert len(broker.of(FIND)) == 7  # the coordinator of each kind of request moves twice


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, InvalidProducerIdMappingError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KStoreError),
    ],
)
@pytest.mark.parametrize("key", [INIT, ADD, END])
def test_other_errors_are_raised_with_their_type(
    broker: FakeBroker, key: int, code: ErrorCode, kind: type[KStoreError]
) -> None:
    answer(broker, key, code)
    with Cluster(broker.address) as cluster, pytest.raises(kind):
        complete_transaction(cluster)
    assert len(broker.of(key)) == 1


def complete_transaction(cluster: Cluster) -> None:
    transactions = TransactionalId(cluster, "tx", 5000)
    transactions.init()
    transactions.add_partition(TP)
    transactions.commit()


def test_after_a_failure_an_abort_gets_a_new_epoch(broker: FakeBroker) -> None:
    with Cluster(broker.address) as cluster:
        transactions = TransactionalId(cluster, "tx", 5000)
        transactions.init()
        transactions.add_partition(TP)
        transactions.wrote(TP, 2)
        transactions.fail(KStoreError("lost"))
        transactions.abort()
        assert transactions.add_partition(TP) == 0
        transactions.commit()
    known = [(request.producer_id, request.producer_epoch) for _, request in broker.of(INIT)]
    assert known == [(-1, -1), (7, 3)]
    assert [request.committed for _, request in broker.of(END)] == [False, True]


def test_an_abort_of_a_transaction_that_the_coordinator_does_not_have(broker: FakeBroker) -> None:
    """The answer to its first request was lost, or the request."""
    answer(broker, END, ErrorCode.INVALID_TXN_STATE)
    with Cluster(broker.address) as cluster:
        transactions = TransactionalId(cluster, "tx", 5000)
        transactions.init()
        transactions.fail(KStoreError("lost"))
        transactions.abort()
    assert len(broker.of(INIT)) == 2
