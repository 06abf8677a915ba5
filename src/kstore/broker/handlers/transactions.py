"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: the steps of a producer's transaction.

AddPartitionsToTxn is for brokers since version 4: a request has several transactions, each to add
to or only to verify (KIP-890).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.clock import now_ms
from kstore.cluster.image import ClusterImage
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.coordinator.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    TransactionAnswer,
)
from kstore.coordinator.transaction.transaction_state_records import PartitionKey
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kstore.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kstore.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services

Added = AddPartitionsToTxnRequest.Transactions
AddedTopics = list[Added.Topics] | list[AddPartitionsToTxnRequest.V3AndBelowTopics]
Errors = Mapping[PartitionKey, ErrorCode]
Result = AddPartitionsToTxnResponse.ResultsByTransaction
OldResult = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow

_PRODUCER_FENCED_FROM = 2  # earlier versions know only INVALID_PRODUCER_EPOCH
_BATCHED_FROM = 4  # of AddPartitionsToTxn


class TransactionHandlers:
    """Serves the APIs of transactional producers."""

    def __init__(self, services: "Services") -> None:
        self._groups = group_service(services)
        self._service = transaction_service(services)
        self._coordinator = self._service.coordinator

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, self.add_partitions),
            Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, self.add_offsets),
            Api(ApiKey.END_TXN, 0, 4, self.end),
        ]

    # --- AddPartitionsToTxn -----------------------------------------------------------------

    def add_partitions(self, request: Request) -> Answer:
        """Respond once the partitions are stored."""
        version = request.api_version
        message = AddPartitionsToTxnRequest.decode(request.reader, version)
        if version >= _BATCHED_FROM:
            added = message.transactions
        else:
            added = [
                Added(
                    message.v3_and_below_transactional_id,
                    message.v3_and_below_producer_id,
                    message.v3_and_below_producer_epoch,
                    False,
                    [
                        Added.Topics(each.name, each.partitions)
                        for each in message.v3_and_below_topics
                    ],
                )
            ]
        pending = Pending()
        results: list[Errors | None] = [None] * len(added)

        def take(index: int, errors: Errors) -> None:
            results[index] = errors
            found = [each for each in results if each is not None]
            if len(found) == len(results):
                pending.complete(_added(version, added, found))

        if not added:
            return AddPartitionsToTxnResponse()
        for index, each in enumerate(added):
            self._add(each, version, request.image, partial(take, index))
        return pending

    def _add(
        self, added: Added, version: int, image: ClusterImage, then: Callable[[Errors], object]
    ) -> None:
        keys = [(topic.name, number) for topic in added.topics for number in topic.partitions]
        unknown = [key for key in keys if image.partition(*key) is None]
        if unknown:
            refused = dict.fromkeys(keys, ErrorCode.OPERATION_NOT_ATTEMPTED)
            then(refused | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        error = self._service.check(added.transactional_id)
        if error == ErrorCode.NONE and not keys:
            error = ErrorCode.INVALID_REQUEST
        if error != ErrorCode.NONE:
            then(dict.fromkeys(keys, error))
        elif added.verify_only:
            producer = added.transactional_id, added.producer_id, added.producer_epoch
            then({key: self._coordinator.verify(*producer, key) for key in keys})
        else:
            self._coordinator.add_partitions(
                AddPartitions(
                    transactional_id=added.transactional_id,
                    producer_id=added.producer_id,
                    producer_epoch=added.producer_epoch,
                    partitions=frozenset(keys),
                    reply=lambda answer: then(dict.fromkeys(keys, _code(answer, version))),
                ),
                now_ms(),
            )
            self._service.carry_out()

    # --- AddOffsetsToTxn --------------------------------------------------------------------

    def add_offsets(self, request: Request) -> Answer:
        """Add the partition of ``__consumer_offsets`` that has the group's offsets."""
        version = request.api_version
        message = AddOffsetsToTxnRequest.decode(request.reader, version)
        error = self._service.check(message.transactional_id)
        if error == ErrorCode.NONE and not message.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        if error != ErrorCode.NONE:
            return AddOffsetsToTxnResponse(error_code=int(error))
        pending = Pending()

        def reply(answer: TransactionAnswer) -> None:
            pending.complete(AddOffsetsToTxnResponse(error_code=int(_code(answer, version))))

        def add(error: ErrorCode) -> None:
            if error != ErrorCode.NONE:
                pending.complete(AddOffsetsToTxnResponse(error_code=int(error)))
                return
            partition = self._groups.partition_of(message.group_id)
            self._coordinator.add_partitions(
                AddPartitions(
                    transactional_id=message.transactional_id,
                    producer_id=message.producer_id,
                    producer_epoch=message.producer_epoch,
                    partitions=frozenset([(OFFSETS_TOPIC, partition)]),
                    reply=reply,
                ),
                now_ms(),
            )
            self._service.carry_out()

        self._groups.with_topic(add)
        return pending

    # --- EndTxn -----------------------------------------------------------------------------

    def end(self, request: Request) -> Answer:
        """Respond once the outcome is stored; the markers follow."""
        version = request.api_version
        message = EndTxnRequest.decode(request.reader, version)
        error = self._service.check(message.transactional_id)
        if error != ErrorCode.NONE:
            return EndTxnResponse(error_code=int(error))
        pending = Pending()
        self._coordinator.end(
            EndTransaction(
                transactional_id=message.transactional_id,
                producer_id=message.producer_id,
                producer_epoch=message.producer_epoch,
                is_commit=message.committed,
                reply=lambda answer: pending.complete(
                    EndTxnResponse(error_code=int(_code(answer, version)))
                ),
            ),
            now_ms(),
        )
        self._service.carry_out()
        return pending


def _code(answer: TransactionAnswer, version: int) -> ErrorCode:
    if answer.error == ErrorCode.PRODUCER_FENCED and version < _PRODUCER_FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return answer.error


def _added(version: int, added: list[Added], results: list[Errors]) -> AddPartitionsToTxnResponse:
    """The response in the format of its version."""
    if version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                Result(
                    each.transactional_id,
                    [
                        Result.TopicResults(
                            topic.name,
                            [
                                Result.TopicResults.ResultsByPartition(
                                    number, int(errors[topic.name, number])
                                )
                                for number in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each, errors in zip(added, results, strict=True)
            ]
        )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            OldResult(
                topic.name,
                [
                    OldResult.ResultsByPartition(number, int(results[0][topic.name, number]))
                    for number in topic.partitions
                ],
            )
            for topic in added[0].topics
        ]
    )
