"""The memory of a closed connection is free at once, without the cycle collector."""

import gc
import logging
import socket
import ssl
import struct
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from kstore.broker.connection import Connection
from support.secure_broker import PROTOCOLS, SecureBroker, secure_broker

PATIENCE = 30.0


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("broker"), 'user_alice="secret"') as opened:
        yield opened


@pytest.fixture
def no_collector() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # pytest keeps the arguments of all lines
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def open_connections() -> list["weakref.ref[Connection]"]:
    return [weakref.ref(each) for each in gc.get_objects() if type(each) is Connection]


def connect(secure: SecureBroker, listener: str) -> socket.socket:
    assert secure.broker._listeners is not None
    plain = socket.create_connection(
        ("127.0.0.1", secure.broker._listeners.bound[listener].port), PATIENCE
    )
    if "SSL" not in listener:
        return plain
    context = ssl.create_default_context(cafile=secure.trusted)
    context.load_cert_chain(secure.client)
    return context.wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize("listener", ["INTERNAL", *PROTOCOLS])
@pytest.mark.parametrize("closes", ["the client", "the broker"])
@pytest.mark.usefixtures("no_collector")
def test_a_closed_connection_is_freed(secure: SecureBroker, listener: str, closes: str) -> None:
    assert open_connections() == []
    client = connect(secure, listener)
    client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))  # ApiVersions 0
    assert client.recv(4)
    known = open_connections()
    assert len(known) == 1
    if closes == "the broker":
        client.sendall(struct.pack(">ihhih", 10, 999, 0, 7, -1))  # no such API
        while client.recv(1 << 16):
            pass
    client.close()
    wait_for(lambda: known[0]() is None)
