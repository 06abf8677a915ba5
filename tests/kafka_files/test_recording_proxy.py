"""The proxy that records clients: what it notes, and the versions that it hides."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from interop.recorded.messages import decode_answer
from interop.recorded.proxy import RecordingProxy
from interop.recorded.session import ANSWER, CLOSE, REQUEST, Frame, Session, exchanges
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages.api_versions import ApiVersionsResponse
from kstore.protocol.wire import Reader
from support.wire_client import Connection, encode, frame


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    with (
        kstore.open(tmp_path / "data") as store,
        kstore.Broker(store, port=0) as broker,
    ):
        yield broker


@pytest.fixture
def proxy(broker: kstore.Broker) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(0, broker.port)
    yield proxy
    proxy.close()


def taken(proxy: RecordingProxy, connection: Connection) -> Session:
    """What was noted, once both sides have closed the connection."""
    connection.close()
    proxy.wait_until_closed()
    session = proxy.take("one")
    assert [each.kind for each in session.frames[-2:]] == [CLOSE, CLOSE]
    return session


def test_frames_are_noted_in_their_order(proxy: RecordingProxy) -> None:
    connection = Connection(proxy.address)
    sent = [
        frame(ApiKey.METADATA, 1, 7, encode(ApiKey.METADATA, 1, {"topics": []})),
        frame(ApiKey.LIST_GROUPS, 0, 8, b""),
    ]
    received = []
    for each in sent:
        connection.send(each)
        received.append(connection.receive())
    frames = taken(proxy, connection).frames
    assert [(each.connection, each.kind) for each in frames] == [
        (0, REQUEST), (0, ANSWER), (0, REQUEST), (0, ANSWER), (0, CLOSE), (0, CLOSE),
    ]  # fmt: skip
    assert [each.data for each in frames[:4:2]] == [each[4:] for each in sent]
    assert [each.data for each in frames[1:4:2]] == received


def test_a_ceiling_lowers_what_the_client_hears_alone(proxy: RecordingProxy) -> None:
    proxy.ceiling = {ApiKey.FETCH: 3}
    connection = Connection(proxy.address)
    connection.send(frame(ApiKey.API_VERSIONS, 2, 1, b""))
    heard = connection.receive()
    assert heard is not None
    (noted,) = exchanges(taken(proxy, connection))
    assert noted.answer is not None
    said = decode_answer(noted.header, noted.answer)
    understood = ApiVersionsResponse.decode(Reader(heard[4:]), 2)
    newest = {each.api_key: each.max_version for each in said.api_keys}
    lowered = {each.api_key: each.max_version for each in understood.api_keys}
    assert newest[ApiKey.FETCH] > 3
    assert lowered == newest | {ApiKey.FETCH: 3}


def test_an_answer_is_matched_with_the_oldest_request_of_its_id() -> None:
    """Clients of 0.8 use one id throughout, and Produce with acks 0 has no answer."""
    requests = [frame(ApiKey.LIST_GROUPS, 0, number, b"")[4:] for number in (9, 5, 5, 9)]
    answers = [number.to_bytes(4, "big") + name for number, name in ((5, b"a"), (5, b"b"))]
    frames = [Frame(0, REQUEST, each) for each in requests]
    frames += [Frame(0, ANSWER, each) for each in answers]
    found = exchanges(Session("one", 0, (), tuple(frames)))
    assert [each.answer for each in found] == [None, *answers, None]
