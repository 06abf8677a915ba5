"""Kafka's error codes in answers as errors of kstore."""

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
    errors.StorageError,
    errors.UnsupportedCompressionTypeError,
    errors.InvalidRecordError,
    errors.UnknownTopicIdError,
)
_BY_CODE: dict[int, type[KStoreError]] = {each.code: each for each in _CLASSES}


def error_of(code: int, message: str | None, about: str) -> KStoreError:
    """The error of an answer: kstore's class of that code, or KStoreError with the code."""
    if not message:
        try:
            known = ErrorCode(code)
        except ValueError:
            message = f"error {code}, which this version of kstore does not know"
        else:
            message = known.message
    text = message
    if about and about not in message:
        text = f"{message.removesuffix('.')}: {about}"
    error = _BY_CODE.get(code, KStoreError)(text)
    error.code = code
    return error


def raise_for(code: int, message: str | None, about: str) -> None:
    """Raise the error of an answer; nothing for code 0."""
    if code:
        raise error_of(code, message, about)


def is_retriable(code: int) -> bool:
    """Whether Kafka's clients ask again after this error."""
    try:
        return ErrorCode(code).is_retriable
    except ValueError:
        return False
