"""Kafka's error codes: those of kstore's errors have a name, and codes to retry are marked."""

import kafka.errors
import pytest

from kstore import errors
from kstore.protocol.error_codes import ErrorCode

KAFKA_PYTHON = {
    each.errno: each
    for each in vars(kafka.errors).values()
    if isinstance(each, type) and isinstance(getattr(each, "errno", None), int)
}


def test_codes_have_no_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 134))
    assert all(code.message for code in ErrorCode if code != ErrorCode.NONE)


def test_an_error_of_kstore_has_a_code_of_kafka() -> None:
    codes = {each.code for each in vars(errors).values() if hasattr(each, "code")}
    assert {int(ErrorCode.of(code)) for code in codes} == codes


@pytest.mark.parametrize("code", [-2, 134, 9999])
def test_an_unknown_code_is_an_unknown_server_error(code: int) -> None:
    assert ErrorCode.of(code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_retriable_codes_are_kafkas() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.is_retriable
    assert ErrorCode.CORRUPT_MESSAGE.is_retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.is_retriable
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    differing = [
        code.name
        for code in ErrorCode
        if code in KAFKA_PYTHON and bool(KAFKA_PYTHON[code].retriable) != code.is_retriable
    ]
    assert differing == ["CORRUPT_MESSAGE"]  # Kafka's producer retries it
