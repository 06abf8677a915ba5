"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: the steps of a producer's transaction.

AddPartitionsToTxn is for brokers since version 4: a request has several transactions, each to add
to or only to verify (KIP-890).

Requests in the form that clients send are read from their frames, and answered with frames
(:mod:`kstore._native.broker.transaction_frames`): an object for each field of the messages would be
most of their time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kstore._native.broker.transaction_frames import (
    AddPartitionsFrame,
    EndFrame,
    parse_add_partitions,
    parse_end,
)
from kstore.broker.api_table import Api, FrameAnswer
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.clock import now_ms
from kstore.cluster.image import ClusterImage
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.coordinator.owned_topics import OWNED_TOPICS
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

# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_PRODUCER_FENCED = ErrorCode.PRODUCER_FENCED
_PRODUCER_FENCED_FROM = 2  # earlier versions know only INVALID_PRODUCER_EPOCH
_BATCHED_FROM = 4  # of AddPartitionsToTxn
_MOST_ITEMS = 65  # of the arrays of a request on the fast path


class TransactionHandlers:
    """Serves the APIs of transactional producers."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._groups = group_service(services)
        self._service = transaction_service(services)
        self._coordinator = self._service.coordinator

    def apis(self) -> list[Api]:
        # The fast path does not count the elements of its arrays against the request limit.
        is_limited = self._services.settings.kstore_max_request_partitions < _MOST_ITEMS
        add_frame = None if is_limited else self.add_partitions_frame
        return [
            Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, self.add_partitions, add_frame),
            Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, self.add_offsets),
            Api(ApiKey.END_TXN, 0, 4, self.end, self.end_frame),
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
        wanted: list[AddPartitions] = []
        self._give_up_if_cut_short(pending, wanted)
        for index, each in enumerate(added):
            self._add(each, version, request.image, partial(take, index), wanted)
        return pending

    def add_partitions_frame(self, frame: memoryview) -> FrameAnswer:
        """Handle a request of one topic that can be answered alike for all its partitions."""
        added = parse_add_partitions(frame)
        if added is None or self._service.check(added.transactional_id) != _NONE:
            return None
        topic, image = added.topic, self._services.metadata.image
        if topic in OWNED_TOPICS:
            return None
        if any(image.partition(topic, number) is None for number in added.partitions):
            return None
        reply = _FrameReply(added)
        request = AddPartitions(
            transactional_id=added.transactional_id,
            producer_id=added.producer_id,
            producer_epoch=added.producer_epoch,
            partitions=frozenset([(topic, number) for number in added.partitions]),
            may_wait=True,
            reply=reply,
        )
        self._coordinator.add_partitions(request, now_ms())
        self._service.carry_out()
        if reply.answer is not None:
            return reply.answer
        self._give_up_if_cut_short(reply.wait(), [request])
        return reply.pending

    def _give_up_if_cut_short(self, pending: Pending, wanted: list[AddPartitions]) -> None:
        """Nothing of a request waits on when its connection is lost, or when the broker stops."""

        def give_up() -> None:
            for each in wanted:
                self._service.give_up(each)

        pending.on_cancel = pending.on_stop = give_up

    def _ask(self, request: AddPartitions, wanted: list[AddPartitions]) -> None:
        wanted.append(request)
        self._coordinator.add_partitions(request, now_ms())
        self._service.carry_out()

    def _add(
        self,
        added: Added,
        version: int,
        image: ClusterImage,
        then: Callable[[Errors], object],
        wanted: list[AddPartitions],
    ) -> None:
        keys = [(topic.name, number) for topic in added.topics for number in topic.partitions]
        unknown = [key for key in keys if image.partition(*key) is None]
        # No client may add internal topics, a super user neither (KafkaApis).
        internal = [key for key in keys if version < _BATCHED_FROM and key[0] in OWNED_TOPICS]
        if unknown or internal:
            refused = dict.fromkeys(keys, ErrorCode.OPERATION_NOT_ATTEMPTED)
            refused |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            then(refused | dict.fromkeys(internal, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return
        error = self._service.check(added.transactional_id)
        if error == _NONE and not keys:
            error = ErrorCode.INVALID_REQUEST
        if error != _NONE:
            then(dict.fromkeys(keys, error))
        elif added.verify_only:
            producer = added.transactional_id, added.producer_id, added.producer_epoch
            then({key: self._coordinator.verify(*producer, key) for key in keys})
        else:
            self._ask(
                AddPartitions(
                    transactional_id=added.transactional_id,
                    producer_id=added.producer_id,
                    producer_epoch=added.producer_epoch,
                    partitions=frozenset(keys),
                    may_wait=True,
                    reply=lambda answer: then(dict.fromkeys(keys, _code(answer, version))),
                ),
                wanted,
            )

    # --- AddOffsetsToTxn --------------------------------------------------------------------

    def add_offsets(self, request: Request) -> Answer:
        """Add the partition of ``__consumer_offsets`` that has the group's offsets."""
        version = request.api_version
        message = AddOffsetsToTxnRequest.decode(request.reader, version)
        error = self._service.check(message.transactional_id)
        if error == _NONE and not message.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        if error != _NONE:
            return AddOffsetsToTxnResponse(error_code=int(error))
        pending = Pending()
        wanted: list[AddPartitions] = []
        self._give_up_if_cut_short(pending, wanted)

        def reply(answer: TransactionAnswer) -> None:
            pending.complete(AddOffsetsToTxnResponse(error_code=int(_code(answer, version))))

        def add(error: ErrorCode) -> None:
            if error != _NONE:
                pending.complete(AddOffsetsToTxnResponse(error_code=int(error)))
                return
            partition = self._groups.partition_of(message.group_id)
            self._ask(
                AddPartitions(
                    transactional_id=message.transactional_id,
                    producer_id=message.producer_id,
                    producer_epoch=message.producer_epoch,
                    partitions=frozenset([(OFFSETS_TOPIC, partition)]),
                    may_wait=True,
                    reply=reply,
                ),
                wanted,
            )

        self._groups.with_topic(add)
        return pending

    # --- EndTxn -----------------------------------------------------------------------------

    def end(self, request: Request) -> Answer:
        """Respond once the outcome is stored; the markers follow."""
        version = request.api_version
        message = EndTxnRequest.decode(request.reader, version)
        error = self._service.check(message.transactional_id)
        if error != _NONE:
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

    def end_frame(self, frame: memoryview) -> FrameAnswer:
        """Handle a request of a transactional id that this broker coordinates."""
        message = parse_end(frame)
        if message is None or self._service.check(message.transactional_id) != _NONE:
            return None
        reply = _FrameReply(message)
        request = EndTransaction(
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            is_commit=message.is_commit,
            reply=reply,
        )
        self._coordinator.end(request, now_ms())
        self._service.carry_out()
        return reply.wait() if reply.answer is None else reply.answer


class _FrameReply:
    """Answers a request of the fast path: at once, or later if it has to ``wait``."""

    __slots__ = ("_message", "answer", "pending")

    def __init__(self, message: AddPartitionsFrame | EndFrame) -> None:
        self._message = message
        self.answer: bytes | None = None
        self.pending: Pending | None = None

    def __call__(self, answer: TransactionAnswer) -> None:
        encoded = self._message.answer(_code(answer, self._message.version))
        if self.pending is None:
            self.answer = encoded
        else:
            self.pending.complete(encoded)

    def wait(self) -> Pending:
        self.pending = Pending()
        return self.pending


def _code(answer: TransactionAnswer, version: int) -> ErrorCode:
    if answer.error == _PRODUCER_FENCED and version < _PRODUCER_FENCED_FROM:
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
