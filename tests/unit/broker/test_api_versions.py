"""ApiVersions, byte for byte, and as kafka-python sees it."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore.broker.broker import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with kstore.serve(tmp_path / "data", port=0) as broker:
        yield broker


def ask(connection: socket.socket, version: int, body: bytes = b"") -> bytes:
    """The answer to one ApiVersions request, correlation id and body."""
    frame = struct.pack(">hhih", 18, version, 7, 2) + b"me" + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", receive(connection, 4))
    return receive(connection, size)


def receive(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL)
    assert len(found) == size
    return found


@pytest.fixture
def client(broker: Broker) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", broker.port), 30) as client:
        yield client


SELF = bytes.fromhex("0012 0000 0004")


@pytest.mark.parametrize("version", [5, 77, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0(client: socket.socket, version: int) -> None:
    """Error 35 and the range of ApiVersions alone; the body is not parsed."""
    answer = ask(client, version, b"\xff no body of this version")
    assert answer == bytes.fromhex("00000007 0023 00000001") + SELF
    assert ask(client, 0)[4:6] == b"\0\0"  # the connection stays


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_tags_are_answered_without_them(
    client: socket.socket, version: int
) -> None:
    answer = ask(client, version)
    assert answer[:6] == bytes.fromhex("00000007 0000")
    assert SELF in answer
    (count,) = struct.unpack_from(">i", answer, 6)
    assert len(answer) == 10 + 6 * count + (4 if version else 0)


NAMED = b"\0" + b"\x05test" + b"\x04" + b"1.0" + b"\0"


@pytest.mark.parametrize("version", [3, 4])
def test_flexible_versions_keep_header_version_0(client: socket.socket, version: int) -> None:
    answer = ask(client, version, NAMED)
    assert answer[:6] == bytes.fromhex("00000007 0000")
    assert SELF + b"\0" in answer


@pytest.mark.parametrize("name", [b"", b"-test", b"test-", b"te st", "tést".encode()])
def test_a_wrong_software_name_is_error_42(client: socket.socket, name: bytes) -> None:
    body = b"\0" + bytes([len(name) + 1]) + name + b"\x04" + b"1.0" + b"\0"
    answer = ask(client, 3, body)
    assert answer == bytes.fromhex("00000007 002a 01 00000000 00")


def test_the_table_lists_what_is_served(broker: Broker, client: socket.socket) -> None:
    answer = ask(client, 0)
    listed = [struct.unpack_from(">hhh", answer, at) for at in range(10, len(answer), 6)]
    served = [(api.key, api.min_version, api.max_version) for api in broker._services.apis]
    assert listed == served
    assert listed == sorted(listed)
