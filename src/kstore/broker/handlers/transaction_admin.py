"""WriteTxnMarkers, DescribeTransactions, ListTransactions: transactions, for administrators and
other brokers (KIP-664, KIP-994)."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.durable_commits import durable_commits
from kstore.broker.partitions import HostedPartition, error_code_of
from kstore.broker.produce_turns import is_durable
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.clock import now_ms
from kstore.coordinator.transaction.end_markers import AppendedMarker
from kstore.coordinator.transaction.transaction_state_records import TransactionState
from kstore.errors import (
    InvalidProducerEpochError,
    InvalidRequestError,
    TransactionCoordinatorFencedError,
)
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
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

if TYPE_CHECKING:
    from kstore.broker.services import Services

Marker = WriteTxnMarkersRequest.Markers
Written = WriteTxnMarkersResponse.Markers
PartitionAnswer = Written.Topics.Partitions
Described = DescribeTransactionsResponse.TransactionStates


def _check_marker(marker: Marker) -> None:
    """Negative epochs are below all that a log has seen, so they have the errors of lower ones."""
    if marker.producer_id < 0:
        raise InvalidRequestError(f"a marker of producer id {marker.producer_id}")
    if marker.producer_epoch < 0:
        raise InvalidProducerEpochError(f"a marker of producer epoch {marker.producer_epoch}")
    if marker.coordinator_epoch < 0:
        raise TransactionCoordinatorFencedError(
            f"a marker of coordinator epoch {marker.coordinator_epoch}"
        )


class TransactionAdminHandlers:
    """Serves the APIs for administrators."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._service = transaction_service(services)
        self._commits = durable_commits(services)

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.WRITE_TXN_MARKERS, 0, 1, self.write_markers),
            Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, self.describe),
            Api(ApiKey.LIST_TRANSACTIONS, 0, 1, self.list),
        ]

    # --- WriteTxnMarkers --------------------------------------------------------------------

    def write_markers(self, request: Request) -> Answer:
        """Append markers; respond once all are appended, or on disk if acknowledgements are
        durable."""
        message = WriteTxnMarkersRequest.decode(request.reader, request.api_version)
        response = WriteTxnMarkersResponse()
        works: list[tuple[HostedPartition, Marker, PartitionAnswer]] = []
        for marker in message.markers:
            written = Written(marker.producer_id)
            response.markers.append(written)
            for topic in marker.topics:
                answers = [PartitionAnswer(number) for number in topic.partition_indexes]
                written.topics.append(Written.Topics(topic.name, answers))
                for answer in answers:
                    hosted = self._services.partitions.get(
                        topic.name, answer.partition_index, request.image
                    )
                    if hosted.error == ErrorCode.NONE or hosted.needs_opening:
                        works.append((hosted, marker, answer))
                    else:
                        answer.error_code = int(hosted.error)
        if not works:
            return response
        pending = Pending()
        left = len(works)

        def finish(answer: PartitionAnswer, error: BaseException | None) -> None:
            nonlocal left
            if error is not None:
                answer.error_code = int(error_code_of(error))
            left -= 1
            if not left:
                pending.complete(response)

        for hosted, marker, answer in works:
            self._services.workers.submit(
                hosted.key,
                partial(self._append, hosted, marker),
                partial(self._appended, hosted, partial(finish, answer)),
            )
        return pending

    def _append(self, hosted: HostedPartition, marker: Marker) -> AppendedMarker:
        """On a disk worker. Fences a coordinator whose epoch is lower than one seen in the log."""
        _check_marker(marker)
        log = self._services.partitions.open_log(hosted)
        log.append_end_marker(
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
        )
        return AppendedMarker(log, log.end_offset, marker.coordinator_epoch)

    def _appended(
        self,
        hosted: HostedPartition,
        finish: "partial[None]",
        appended: AppendedMarker | None,
        error: BaseException | None,
    ) -> None:
        if appended is None:
            if hosted.log is None:
                self._services.partitions.opened(hosted, None, error)
            finish(error)
            return
        self._services.partitions.opened(hosted, appended.log, None)
        if is_durable(hosted, self._services.settings):
            self._commits.wait(appended.log, appended.end_offset, finish)
        else:
            finish(None)

    # --- DescribeTransactions ---------------------------------------------------------------

    def describe(self, request: Request) -> Answer:
        """Return the state of each transactional id."""
        message = DescribeTransactionsRequest.decode(request.reader, request.api_version)
        return DescribeTransactionsResponse(
            transaction_states=[self._describe(each) for each in message.transactional_ids]
        )

    def _describe(self, transactional_id: str) -> Described:
        error = self._service.check(transactional_id)
        known = self._service.coordinator.find(transactional_id)
        if error == ErrorCode.NONE and known is None:
            error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if error != ErrorCode.NONE or known is None:
            return Described(error_code=int(error), transactional_id=transactional_id)
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(known.partitions):
            topics.setdefault(topic, []).append(partition)
        return Described(
            transactional_id=transactional_id,
            transaction_state=known.state.kafka_name,
            transaction_timeout_ms=known.timeout_ms,
            transaction_start_time_ms=known.start_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            topics=[Described.Topics(*each) for each in topics.items()],
        )

    # --- ListTransactions -------------------------------------------------------------------

    def list(self, request: Request) -> Answer:
        """List all transactional ids, or filter them by state, producer id, or duration of the
        transaction."""
        message = ListTransactionsRequest.decode(request.reader, request.api_version)
        names = {state.kafka_name for state in TransactionState}
        response = ListTransactionsResponse(
            unknown_state_filters=[each for each in message.state_filters if each not in names]
        )
        if self._service.topic.is_loading:
            response.error_code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return response
        states, producers = set(message.state_filters), set(message.producer_id_filters)
        shortest, now = message.duration_filter, now_ms()
        response.transaction_states = [
            ListTransactionsResponse.TransactionStates(
                each.transactional_id, each.producer_id, each.state.kafka_name
            )
            for each in self._service.coordinator
            if (not states or each.state.kafka_name in states)
            and (not producers or each.producer_id in producers)
            and (shortest < 0 or now - each.start_ms > shortest)
        ]
        return response
