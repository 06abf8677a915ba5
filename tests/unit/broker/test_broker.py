"""``kstore.Broker``: start, stop, its thread, its process."""

import asyncio
import gc
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.api_table import Api
from kstore.broker.broker import split_address
from kstore.broker.request import Answer, Pending, Request
from kstore.cluster.metadata import AlterOp
from kstore.errors import (
    AddressError,
    ClosedError,
    ReadOnlyError,
    StoreLockedError,
    UnknownSettingError,
)
from kstore.hints.kafka_names import OF_BROKERS
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages.api_versions import ApiVersionsResponse
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest
from kstore.protocol.messages.metadata import MetadataRequest
from support.raw_client import RawClient
from support.waiting import until

WAIT = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        yield store


def connect(broker: kstore.Broker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), WAIT)


def send(connection: socket.socket, key: int = ApiKey.API_VERSIONS) -> None:
    body = struct.pack(">hhih", key, 0, 9, -1)
    connection.sendall(struct.pack(">i", len(body)) + body)


def receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def is_serving(broker: kstore.Broker) -> bool:
    with connect(broker) as connection:
        send(connection)
        return receive(connection)[:6] == struct.pack(">ih", 9, 0)


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("kstore-broker")}


def test_a_broker_that_was_not_started_has_no_port(store: kstore.Store) -> None:
    broker = kstore.Broker(store, port=0)
    for read in (lambda: broker.bootstrap_servers, lambda: broker.port, lambda: broker.listeners):
        with pytest.raises(kstore.errors.KStoreError, match=r"call start\(\), or use `with"):
            read()
    assert "127.0.0.1:0 of" in repr(broker)
    assert "not started" in repr(broker)
    assert kstore.Broker(store, port=9092).bootstrap_servers == "127.0.0.1:9092"
    with broker:
        assert is_serving(broker)
        port = broker.port
    assert broker.bootstrap_servers == f"127.0.0.1:{port}"
    never = kstore.Broker(store, port=0)
    never.close()
    assert "closed" in repr(never)


def test_a_with_block_starts_and_stops_the_broker(store: kstore.Store) -> None:
    before = threads()
    with kstore.Broker(store, port=0) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert is_serving(broker)
        assert threads() - before
    assert threads() <= before
    assert not store.closed
    with pytest.raises(OSError, match="refused"):
        connect(broker)
    broker.close()
    with pytest.raises(ClosedError):
        broker.start()


def test_the_rack_is_in_the_metadata(store: kstore.Store) -> None:
    with (
        kstore.Broker(store, port=0, settings={"broker.rack": "r1"}) as broker,
        RawClient(broker.port) as client,
    ):
        (node,) = client.ask(MetadataRequest(topics=[]), 4).brokers
        assert (node.node_id, node.rack) == (0, "r1")


@pytest.mark.parametrize(("value", "code"), [("false", 44), ("true", 0)])
def test_a_client_deletes_older_topics_only_where_it_may(
    store: kstore.Store, value: str, code: int
) -> None:
    store.create_topic("older")
    settings = {"kstore.delete.existing.topics": value}
    with (
        kstore.Broker(store, port=0, settings=settings) as broker,
        RawClient(broker.port) as client,
    ):
        asked = DeleteTopicsRequest(topic_names=["older"], timeout_ms=10_000)
        assert client.ask(asked, 5).responses[0].error_code == code
    assert ("older" in store) == (value == "false")


def test_limits_of_connections_change_while_it_runs_and_stay(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0) as broker, connect(broker) as first, connect(broker) as more:
        for each in (first, more):
            send(each)
            receive(each)
        assert broker._metadata is not None
        broker._metadata.alter_broker_config([(AlterOp.SET, "max.connections.per.ip", "2")])
        send(more)
        assert receive(more), "those that were open stay"
        with connect(broker) as third:
            assert third.recv(1) == b""
    with kstore.Broker(store, port=0) as broker, connect(broker) as first, connect(broker) as more:
        for each in (first, more):
            send(each)
            receive(each)
        with connect(broker) as third:
            assert third.recv(1) == b""


def test_a_broker_serves_within_async_with(store: kstore.Store) -> None:
    async def main() -> None:
        async with kstore.Broker(store, port=0) as broker:
            assert await asyncio.to_thread(is_serving, broker)

    before = threads()
    asyncio.run(main())
    assert threads() <= before


def test_serve_owns_the_store(tmp_path: Path) -> None:
    broker = kstore.serve(tmp_path / "data", port=0)
    assert is_serving(broker)
    broker.close()
    assert broker.store.closed
    with kstore.open(tmp_path / "data") as store:
        assert not store.recovery.unclean


def test_two_brokers_in_one_process(tmp_path: Path) -> None:
    with (
        kstore.serve(tmp_path / "a", port=0) as one,
        kstore.serve(tmp_path / "b", port=0) as other,
    ):
        assert one.port != other.port
        assert is_serving(one)
        one.close()
        assert is_serving(other)


def test_a_store_has_one_broker_at_a_time(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0):
        second = kstore.Broker(store, port=0)
        with pytest.raises(StoreLockedError, match="another broker of this process"):
            second.start()
    with second:
        assert second.port
    second.close()


def test_a_port_in_use_is_an_error_that_closes_the_store(
    store: kstore.Store, tmp_path: Path
) -> None:
    with kstore.Broker(store, port=0) as broker:
        with pytest.raises(AddressError, match="another process uses the port"):
            kstore.serve(tmp_path / "other", port=broker.port)
        with kstore.open(tmp_path / "other"):  # it was closed again
            pass


def test_wrong_arguments_start_nothing(store: kstore.Store) -> None:
    with pytest.raises(UnknownSettingError, match="num"):
        kstore.Broker(store, settings={"num.partition": 3})
    with pytest.raises(AddressError):
        kstore.Broker(store, advertised="a:b")
    with kstore.open(store.paths[0], mode="r") as reader, pytest.raises(ReadOnlyError):
        kstore.Broker(reader)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", ("host", None)),
        ("host:1", ("host", 1)),
        ("[::1]", ("::1", None)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_is_split_into_host_and_port(text: str, address: tuple[str, int | None]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:65536", "a:-1", "[::1]1", "[]", "a:1:2"])
def test_an_address_without_a_valid_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        split_address(text)


class Parking:
    """ListGroups, which waits: answered when the broker stops, if ``answers``."""

    def __init__(self, broker: kstore.Broker, answers: bool) -> None:
        self.answers = answers
        self.parked = threading.Event()
        self.cancelled = threading.Event()
        broker._services.apis._by_key[ApiKey.LIST_GROUPS] = Api(ApiKey.LIST_GROUPS, 0, 0, self.park)

    def park(self, request: Request) -> Answer:
        pending = Pending()
        pending.on_cancel = self.cancelled.set
        if self.answers:
            pending.on_stop = lambda: pending.complete(ApiVersionsResponse(error_code=7))
        self.parked.set()
        return pending


def test_a_stop_answers_what_waits(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0) as broker:
        parking = Parking(broker, answers=True)
        connection, idle = connect(broker), connect(broker)
        with connection, idle:
            send(connection, ApiKey.LIST_GROUPS)
            assert parking.parked.wait(WAIT)
            broker.close()
            assert receive(connection)[:6] == struct.pack(">ih", 9, 7)
            assert connection.recv(1) == b""
            assert idle.recv(1) == b""
    assert not parking.cancelled.is_set()


def test_a_stop_waits_no_longer_than_its_setting(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0, settings={"kstore.stop.wait.ms": 10}) as broker:
        parking = Parking(broker, answers=False)
        with connect(broker) as connection:
            send(connection, ApiKey.LIST_GROUPS)
            assert parking.parked.wait(WAIT)
            broker.close()
            assert connection.recv(1) == b""
    assert parking.cancelled.is_set()


def test_a_forked_child_keeps_no_connection_open(store: kstore.Store) -> None:
    """The parent serves further, and its close reaches its clients while the child lives."""
    with kstore.Broker(store, port=0) as broker, connect(broker) as connection:
        send(connection)
        receive(connection)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            status = 1
            try:
                broker.close()  # without effect
                try:
                    broker.start()
                except kstore.errors.ForkedError:
                    status = 0
                os.read(read_end, 1)  # until the parent has closed its end
            finally:
                os._exit(status)
        os.close(read_end)
        send(connection)
        receive(connection)
        assert is_serving(broker)
        broker.close()
        assert connection.recv(1) == b""
        with pytest.raises(OSError, match="refused"):
            connect(broker)
        os.close(write_end)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_broker_starts_and_closes_without_with(store: kstore.Store) -> None:
    broker = kstore.Broker(store, port=0).start()
    port = broker.port
    gc.collect()
    with socket.create_connection(("127.0.0.1", port), WAIT):
        pass
    broker.close()


def test_guessed_arguments_and_names_of_a_broker_are_errors_with_advice(
    store: kstore.Store, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=r"not str: kstore.serve\('data'\) opens directories"):
        kstore.Broker("data")
    with pytest.raises(TypeError, match=r"settings={'num.partitions': 3}"):
        kstore.Broker(store, auto_create_topics=False)
    with pytest.raises(TypeError, match=r"settings={'num.partitions': 3}"):
        kstore.serve(tmp_path / "other", num_partitions=3)
    assert not (tmp_path / "other").exists()
    broker = kstore.Broker(store, port=0)
    for name, instead in OF_BROKERS.items():
        with pytest.raises(AttributeError) as caught:
            getattr(broker, name)
        assert str(caught.value) == f"'Broker' object has no attribute {name!r}: {instead}"
    assert broker.store is store


def test_a_store_that_closes_while_its_broker_starts_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kstore.open(tmp_path)
    broker = kstore.Broker(store, port=0)
    closing = threading.Thread(target=store.close)
    prepare = broker._prepare_services

    def prepare_meanwhile(*arguments: Any) -> None:
        closing.start()
        until(lambda: store._is_closing)
        prepare(*arguments)

    monkeypatch.setattr(broker, "_prepare_services", prepare_meanwhile)
    broker.start()
    closing.join()
    assert broker.closed
    assert store.closed
    with pytest.raises(ClosedError):
        kstore.Broker(store, port=0).start()
