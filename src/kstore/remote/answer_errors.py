"""Converts Kafka's error codes in responses to kstore's exceptions."""

from kstore import errors
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode

_CLASSES = (
    errors.OffsetOutOfRangeError,
    errors.CorruptRecordError,
    errors.UnknownTopicOrPartitionError,
    errors.MessageTooLargeError,
    errors.InvalidTopicError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
    errors.TopicExistsError,
    errors.InvalidConfigError,
    errors.UnsupportedForMessageFormatError,
    errors.PolicyViolationError,
    errors.OutOfOrderSequenceError,
    errors.InvalidProducerEpochError,
    errors.InvalidTxnStateError,
    errors.InvalidProducerIdMappingError,
    errors.InvalidTransactionTimeoutError,
    errors.ConcurrentTransactionsError,
    errors.ProducerFencedError,
    errors.StorageError,
    errors.UnsupportedCompressionTypeError,
    errors.InvalidRecordError,
    errors.UnknownTopicIdError,
    errors.InvalidGroupError,
    errors.NonEmptyGroupError,
    errors.GroupIdNotFoundError,
)
_BY_CODE: dict[int, type[KStoreError]] = {each.code: each for each in _CLASSES}

# Kafka's exceptions whose name does not follow from their error code.
_EXCEPTIONS = {
    "NON_EMPTY_GROUP": "GroupNotEmpty",
    "KAFKA_STORAGE_ERROR": "KafkaStorage",
    "REQUEST_TIMED_OUT": "Timeout",
    "CORRUPT_MESSAGE": "CorruptRecord",
    "MESSAGE_TOO_LARGE": "RecordTooLarge",
    "NETWORK_EXCEPTION": "Network",
    "UNKNOWN_SERVER_ERROR": "UnknownServer",
}


# Kafka's sentences for codes that a server sends without one.
_KAFKA_TEXTS = {
    1: "The requested offset is not within the range of offsets maintained by the server.",
    3: "This server does not host this topic-partition.",
}


def exception_name(error: KStoreError) -> str:
    """The name of Kafka's exception for an error code, as Kafka's tools print it."""
    try:
        code = ErrorCode(error.code).name
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR.name
    name = _EXCEPTIONS.get(code, code.removesuffix("_EXCEPTION").title().replace("_", ""))
    return f"org.apache.kafka.common.errors.{name}Exception"


def error_of(code: int, message: str | None, about: str) -> KStoreError:
    """The exception for an error code: kstore's class of that code, or KStoreError with the
    code."""
    said = message or _KAFKA_TEXTS.get(code)
    if not message:
        try:
            known = ErrorCode(code)
        except ValueError:
            message = f"error {code}, which is unknown to this version of kstore"
        else:
            message = known.message
    text = message
    if about and about not in message:
        text = f"{message.removesuffix('.')}: {about}"
    error = _BY_CODE.get(code, KStoreError)(text)
    error.code = code
    error.server_message = said
    return error


def kafka_text(error: KStoreError) -> str:
    """The sentence of Kafka's tools for an error: the server's own, or Kafka's for its code."""
    return error.server_message or error.reason


def raise_for(code: int, message: str | None, about: str) -> None:
    """Raise the exception for an error code; do nothing for code 0."""
    if code:
        raise error_of(code, message, about)


def is_retriable(code: int) -> bool:
    """Whether Kafka's clients retry after this error."""
    try:
        return ErrorCode(code).is_retriable
    except ValueError:
        return False
