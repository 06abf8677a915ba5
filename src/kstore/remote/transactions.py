"""Transaction administration, including aborting a hanging transaction."""

from collections.abc import Iterable
from typing import NamedTuple

from kstore.errors import KStoreError
from kstore.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kstore.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kstore.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kstore.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.coordinators import TRANSACTION, ask_coordinator, find_coordinator
from kstore.remote.groups import by_topic
from kstore.remote.remote_log import only
from kstore.topic_partition import TopicPartition

TRANSACTIONAL_ID_NOT_FOUND = 105


class ListedTransaction(NamedTuple):
    """A transactional id, the broker that coordinates it, and its state."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The state of a transactional id; times in ms, no start time if no transaction is open."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerDescription(NamedTuple):
    """A producer of a partition, with the start offset of its open transaction, if any."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None


def list_transactions(
    cluster: Cluster, *, producer_ids: Iterable[int] = (), longer_than_ms: int | None = None
) -> list[ListedTransaction]:
    """The transactional ids of all brokers, or only those of these producers, or those whose
    transaction has been open for longer than a time, which brokers know since Kafka 3.8."""
    cluster.metadata([])
    request = ListTransactionsRequest(producer_id_filters=list(producer_ids))
    if longer_than_ms is not None:
        request.duration_filter = longer_than_ms
    found = []
    for node in cluster.nodes:
        newest = cluster.versions(node).get(ListTransactionsRequest.API_KEY, (0, 0))[1]
        if longer_than_ms is not None and newest < 1:
            raise KStoreError(f"broker {node} does not support a duration as a filter")

        def ask(node: int = node) -> ListTransactionsResponse:
            answer = cluster.ask(request, ListTransactionsResponse, node=node)
            raise_for(answer.error_code, None, "")
            return answer

        found += [
            ListedTransaction(each.transactional_id, node, each.producer_id, each.transaction_state)
            for each in cluster.retrying(ask, forget=None).transaction_states
        ]
    return found


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """The state of one transactional id. Raises KStoreError with TRANSACTIONAL_ID_NOT_FOUND."""
    answer = ask_coordinator(
        cluster,
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        kind=TRANSACTION,
        code_of=lambda answer: only(answer.transaction_states, transactional_id).error_code,
    )
    found = only(answer.transaction_states, transactional_id)
    raise_for(found.error_code, None, transactional_id)
    start = found.transaction_start_time_ms
    return TransactionDescription(
        transactional_id,
        find_coordinator(cluster, transactional_id, TRANSACTION),
        found.producer_id,
        found.producer_epoch,
        found.transaction_state,
        found.transaction_timeout_ms,
        None if start < 0 else start,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in found.topics
            for number in topic.partitions
        ),
    )


def find_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    """Like :func:`describe_transaction`; None if the id does not exist."""
    try:
        return describe_transaction(cluster, transactional_id)
    except KStoreError as error:
        if error.code == TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, broker: int | None = None
) -> dict[TopicPartition, list[ProducerDescription]]:
    """The active producers of partitions, from their leaders or from one broker."""
    wanted = list(partitions)
    if broker is not None:
        cluster.metadata([])
        cluster.address(broker)  # an unknown one is an error at once
    return cluster.retrying(lambda: _ask_producers(cluster, wanted, broker), forget=None)


def _ask_producers(
    cluster: Cluster, partitions: list[TopicPartition], broker: int | None
) -> dict[TopicPartition, list[ProducerDescription]]:
    by_node: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        node = cluster.leader(tp.topic, tp.partition) if broker is None else broker
        by_node.setdefault(node, []).append(tp)
    Topics = DescribeProducersRequest.Topics  # noqa: N806 (a class)
    found = {}
    for node, wanted in by_node.items():
        topics = [Topics(name, numbers) for name, numbers in by_topic(wanted).items()]
        request = DescribeProducersRequest(topics=topics)
        for topic in cluster.ask(request, DescribeProducersResponse, node=node).topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    cluster.forget_leader(tp.topic, tp.partition)
                raise_for(each.error_code, each.error_message, f"{tp.topic}-{tp.partition}")
                found[tp] = [
                    ProducerDescription(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        (
                            None
                            if producer.current_txn_start_offset < 0
                            else producer.current_txn_start_offset
                        ),
                    )
                    for producer in each.active_producers
                ]
    return found


def abort_transaction(
    cluster: Cluster,
    tp: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Write a producer's ABORT marker to one partition (WriteTxnMarkers, KIP-664)."""
    Markers = WriteTxnMarkersRequest.Markers  # noqa: N806 (a class)
    marker = Markers(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[Markers.Topics(tp.topic, [tp.partition])],
        coordinator_epoch=coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    about = f"{tp.topic}-{tp.partition}"

    def attempt() -> None:
        node = cluster.leader(tp.topic, tp.partition)
        answer = cluster.ask(request, WriteTxnMarkersResponse, node=node)
        topic = only(only(answer.markers, about).topics, about)
        raise_for(only(topic.partitions, about).error_code, None, about)

    cluster.retrying(attempt, forget=(tp.topic, tp.partition))
