"""InitProducerId for idempotent and transactional producers (Kafka's
KafkaApis.handleInitProducerIdRequest).

An id is random, from 2^62 to 2^63 - 1, as for embedded producers of the same store; a Kafka cluster
assigns ids from 0 upwards. Ids therefore stay unique across restarts, in a directory written by
Kafka, and between processes, without a counter on disk.
"""

from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.clock import now_ms
from kstore.coordinator.transaction.transaction_events import InitProducerId, TransactionAnswer
from kstore.producer_state.producer_ids import new_producer_id
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services

_PRODUCER_FENCED_FROM = 4  # earlier versions know only INVALID_PRODUCER_EPOCH


class ProducerIdHandlers:
    """Serves InitProducerId."""

    def __init__(self, services: "Services") -> None:
        self._service = transaction_service(services)

    def apis(self) -> list[Api]:
        return [Api(ApiKey.INIT_PRODUCER_ID, 0, 5, self.init_producer_id)]

    def init_producer_id(self, request: Request) -> Answer:
        """Give an idempotent producer a new id with epoch 0, even if the request names its old id.
        The coordinator decides for a transactional producer."""
        message = InitProducerIdRequest.decode(request.reader, request.api_version)
        if (message.producer_id == -1) != (message.producer_epoch == -1):
            return _refused(ErrorCode.INVALID_REQUEST)
        transactional_id = message.transactional_id
        if transactional_id is None:
            return InitProducerIdResponse(producer_id=new_producer_id(), producer_epoch=0)
        error = self._service.check(transactional_id)
        if error != ErrorCode.NONE:
            return _refused(error)
        pending = Pending()

        def reply(answer: TransactionAnswer) -> None:
            error = answer.error
            if error == ErrorCode.PRODUCER_FENCED and request.api_version < _PRODUCER_FENCED_FROM:
                error = ErrorCode.INVALID_PRODUCER_EPOCH
            pending.complete(
                InitProducerIdResponse(
                    error_code=int(error),
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                )
            )

        self._service.coordinator.init_producer_id(
            InitProducerId(
                transactional_id=transactional_id,
                timeout_ms=message.transaction_timeout_ms,
                producer_id=message.producer_id,
                producer_epoch=message.producer_epoch,
                reply=reply,
            ),
            now_ms(),
        )
        self._service.carry_out()
        return pending


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)
