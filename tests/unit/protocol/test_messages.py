"""Every message in every version: random content comes back, and unknown APIs are refused."""

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kstore.errors import InvalidMessageError
from kstore.protocol.messages import message_types
from kstore.protocol.schema import table
from support.random_messages import RECORDS, TABLE, decoded, encoded, message_class, random_message

CONTENTS = 8


def with_bytes(value: Any) -> Any:
    """The same message, its records as bytes instead of a view."""
    if is_dataclass(value):
        for each in fields(value):
            setattr(value, each.name, with_bytes(getattr(value, each.name)))
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("message", [*TABLE.values(), *RECORDS], ids=lambda each: each.name)
def test_random_content_comes_back_in_every_version(message: table.Message) -> None:
    kind = message_class(message)
    if message.kind in ("REQ", "RES", "KEY"):
        number = kind.RECORD_TYPE if message.kind == "KEY" else kind.API_KEY
        assert message.api_key == number
    for version in range(kind.MIN_VERSION, kind.MAX_VERSION + 1):
        assert decoded(kind, encoded(kind(), version), version) == kind()
        for seed in range(CONTENTS):
            sent = random_message(message, version, seed)
            assert with_bytes(decoded(kind, encoded(sent, version), version)) == sent


@pytest.mark.parametrize("message", [*TABLE.values(), *RECORDS], ids=lambda each: each.name)
def test_a_truncated_message_is_refused_wherever_it_ends(message: table.Message) -> None:
    kind = message_class(message)
    for version in range(kind.MIN_VERSION, kind.MAX_VERSION + 1):
        data = encoded(random_message(message, version, 1), version)
        for size in range(0, len(data), max(1, len(data) // 50)):
            with pytest.raises(InvalidMessageError):
                decoded(kind, data[:size], version)


@pytest.mark.parametrize("api_key", [-1, 4, 9999])
def test_an_unknown_api_is_a_key_error(api_key: int) -> None:
    with pytest.raises(KeyError):
        message_types(api_key)
