"""A cluster whose answers are not what they should be, byte by byte, behind a real socket."""

import struct
from collections.abc import Iterator

import pytest

from kstore.errors import InvalidConfigError, SourceError
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST, Position
from support.fake_broker import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    FakeBroker,
    close,
    fake_brokers,
)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """As one before 0.10: it closes the connection of an ApiVersions request."""
    with fake_brokers(1) as (broker,):
        broker.answers[API_VERSIONS] = close
        yield broker


def source(broker: FakeBroker, patience: float = 1) -> KafkaSource:
    return KafkaSource(broker.address, "t", patience=patience)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff" * 100,
        b"\0\0\0\1\0\1t\0\0\0\1",
        b"\x7f\xff\xff\xff" * 9,
        struct.pack(">i", 1) + b"\0\2\xff\xfe" + bytes(40),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
    ],
    ids=["empty", "minus one", "cut", "huge", "no text", "null", "none"],
)
@pytest.mark.parametrize("kind", [LIST_OFFSETS, FETCH, METADATA])
def test_answers_that_cannot_be_taken_apart(broker: FakeBroker, kind: int, garbage: bytes) -> None:
    with source(broker) as here:
        assert here.describe().partition_count == 1
        broker.answers[kind] = lambda _: garbage
        before = len(broker.asked)
        try:
            if kind == LIST_OFFSETS:
                here.offsets([0], LATEST)
            elif kind == FETCH:
                room = {"max_bytes": 1000, "partition_max_bytes": 1000}
                answered = here.fetch({0: Position(0)}, max_wait_ms=0, **room)
            else:
                here.describe()
        except SourceError as error:
            message = str(error)
        else:
            assert (kind, answered) == (FETCH, {})  # no answer: the mirror asks again
            message = broker.address
        assert broker.address in message
        assert (kind, 0) in [each[:2] for each in broker.asked[before:]]
        assert {version for _, version, _ in broker.asked} == {0}


def test_a_cluster_that_does_not_answer_is_reported_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not only when patience is at its end, half a minute later."""
    with pytest.raises(SourceError) as caught:
        KafkaSource("nowhere.invalid:9092", "t", patience=0.2)
    messages = [each.getMessage() for each in caplog.records if each.name == "kstore"]
    assert len(messages) == 1
    assert messages[0].startswith("no answer from Kafka at nowhere.invalid:9092: ")
    assert messages[0].endswith("; trying again for up to 0.2 s")
    assert "cannot talk to Kafka at nowhere.invalid:9092" in str(caught.value)


def test_a_setting_that_is_wrong_is_no_error_of_the_cluster(broker: FakeBroker) -> None:
    with pytest.raises(InvalidConfigError, match="host:port"):
        KafkaSource("broker", "t", patience=1)
    tls = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/nowhere/ca.pem",
    }
    with pytest.raises(InvalidConfigError, match=r"/nowhere/ca\.pem"):
        KafkaSource(broker.address, "t", settings=tls, patience=1)
