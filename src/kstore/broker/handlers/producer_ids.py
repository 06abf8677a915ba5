"""InitProducerId for idempotent producers (Kafka's KafkaApis.handleInitProducerIdRequest).

An id is random, above every id that a Kafka cluster assigns from 0 up (2^62 to 2^63 - 1), as those
of the embedded producers of the same store: it stays unique over restarts, in a directory that
Kafka has written, and between processes, without a counter on disk.
"""

from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Request
from kstore.coordinator.transaction.transaction_state_records import new_producer_id
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services


class ProducerIdHandlers:
    """Serves InitProducerId. A transactional id is refused: no coordinator serves it here."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [Api(ApiKey.INIT_PRODUCER_ID, 0, 5, self.init_producer_id)]

    def init_producer_id(self, request: Request) -> Answer:
        """A fresh producer id with epoch 0, also for a producer that names its old one."""
        message = InitProducerIdRequest.decode(request.reader, request.api_version)
        error = refusal(message)
        if error != ErrorCode.NONE:
            return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=new_producer_id(), producer_epoch=0)


def refusal(message: InitProducerIdRequest) -> ErrorCode:
    """Why no id is assigned, or NONE."""
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if message.transactional_id is None:
        return ErrorCode.NONE
    return ErrorCode.NOT_COORDINATOR if message.transactional_id else ErrorCode.INVALID_REQUEST
