"""Kafka's spelling of UUIDs."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.kafka_uuid import is_reserved_uuid, random_uuid, uuid_from_text, uuid_to_text


@given(st.binary(min_size=16, max_size=16))
def test_uuids_round_trip(value):
    text = uuid_to_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * 21,
        "a" * 23,
        "AAAAAAAAAAAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAAAB",
        "A" * 20 + "+/",
        "\u00e9" * 22,
    ],
)
def test_other_texts_are_no_uuids(text):
    with pytest.raises(ValueError):
        uuid_from_text(text)


def test_random_uuids_are_version_4_and_begin_with_no_dash():
    sources = iter([bytes([0xF8] + [0xFF] * 15), bytes(range(16))])
    text = random_uuid(lambda size: next(sources))  # the first would start with "-"
    value = uuid.UUID(bytes=uuid_from_text(text))
    assert (value.version, value.variant) == (4, uuid.RFC_4122)
    assert value.bytes[:6] == bytes(range(6))
    assert random_uuid() != random_uuid()
    with pytest.raises(ValueError):
        uuid_to_text(b"short")
    assert is_reserved_uuid(uuid_to_text(bytes(15) + b"\x63"))
    assert not is_reserved_uuid(uuid_to_text(bytes(15) + b"\x64"))
