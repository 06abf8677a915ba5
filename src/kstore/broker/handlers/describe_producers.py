"""DescribeProducers: the producer state of partitions (KIP-664; Kafka's
ReplicaManager.activeProducerState)."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.partitions import HostedPartition, Partitions, continue_with, error_code_of
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

PartitionAnswer = DescribeProducersResponse.Topics.Partitions


class DescribeProducersHandlers:
    """Serves DescribeProducers."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._partitions: Partitions = services.partitions

    def apis(self) -> list[Api]:
        return [Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, self.describe_producers)]

    def describe_producers(self, request: Request) -> Answer:
        """Return all known producers of each partition. A disk worker collects them, as they may be
        many."""
        message = DescribeProducersRequest.decode(request.reader, request.api_version)
        get = self._partitions.get
        hosted = [
            [(number, get(topic.name, number, request.image)) for number in topic.partition_indexes]
            for topic in message.topics
        ]
        answer = partial(self._answer, request, [topic.name for topic in message.topics], hosted)
        return self._partitions.when_open([each for topic in hosted for _, each in topic], answer)

    def _answer(
        self,
        request: Request,
        names: list[str],
        hosted: list[list[tuple[int, HostedPartition]]],
    ) -> Answer:
        response = DescribeProducersResponse()
        found: list[tuple[HostedPartition, PartitionAnswer]] = []
        for name, partitions in zip(names, hosted, strict=True):
            answers = [PartitionAnswer(number) for number, _ in partitions]
            response.topics.append(DescribeProducersResponse.Topics(name, answers))
            for answer, (_, each) in zip(answers, partitions, strict=True):
                answer.error_code = int(each.error)
                if each.error != ErrorCode.NONE:
                    answer.error_message = each.error.message
                else:
                    found.append((each, answer))
        if not found:
            return response
        pending = Pending()
        self._services.workers.submit(
            request,
            partial(_describe_all, found),
            lambda _, error: continue_with(pending, partial(_respond, response, error)),
        )
        return pending


def _respond(response: DescribeProducersResponse, error: BaseException | None) -> Answer:
    if error is not None:
        raise error
    return response


def _describe_all(found: list[tuple[HostedPartition, PartitionAnswer]]) -> None:
    for hosted, answer in found:
        log = hosted.log
        try:
            entries = [] if log is None else log.producers()
        except Exception as error:
            answer.error_code = int(error_code_of(error))
            continue
        answer.active_producers = [
            PartitionAnswer.ActiveProducers(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_transaction_first_offset,
            )
            for entry in entries
        ]
