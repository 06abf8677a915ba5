"""The port for operators: health, what is not found, and clients that misbehave."""

import json
import os
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.metrics.health import Health
from kstore.broker.metrics.http_server import MetricsServer
from kstore.errors import CorruptRecordError, StorageError

WAIT = 30
ON = {"kstore.metrics.port": 0}


def ask(address: str | None, path: str, method: str = "GET") -> tuple[int, str]:
    assert address is not None
    connection = HTTPConnection(address, timeout=WAIT)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def health(address: str | None, path: str = "/health") -> tuple[int, dict[str, Any]]:
    status, body = ask(address, path)
    return status, json.loads(body)


def test_a_broker_that_serves_everything_is_ready(tmp_path: Path) -> None:
    with kstore.serve(tmp_path, port=0, settings=ON) as broker:
        address = broker.metrics_address
        assert health(address) == (
            200,
            {
                "state": "ready",
                "ready": True,
                "recovering_partitions": 0,
                "failed_log_dirs": [],
                "failed_partitions": [],
            },
        )
        assert health(address, "/live") == (200, {"state": "live"})
        assert ask(address, "/health", "HEAD") == (200, "")
        assert ask(address, "/")[0] == 404
        assert ask(address, "/metrics?x=1")[0] == 200
        assert ask(address, "/metrics", "POST")[0] == 501
    with pytest.raises(ConnectionRefusedError):
        ask(address, "/live")


def test_a_failed_directory_is_named(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with kstore.open(paths) as store, kstore.Broker(store, port=0, settings=ON) as broker:
        store._manager._dirs[0].fail(StorageError("the disk is gone", errno=5))
        status, body = health(broker.metrics_address)
        assert (status, body["state"], body["ready"]) == (503, "degraded", False)
        [failed] = body["failed_log_dirs"]
        assert failed["path"] == paths[0]
        assert "the disk is gone" in failed["error"]
        assert health(broker.metrics_address, "/live")[0] == 200  # a restart would not help


def test_partitions_that_cannot_be_recovered_are_named(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store, kstore.Broker(store, port=0, settings=ON) as broker:
        error = CorruptRecordError("planted", path="x")
        store._manager.recoveries.failed["orders", 3] = error
        status, body = health(broker.metrics_address)
        assert (status, body["state"]) == (503, "degraded")
        [failed] = body["failed_partitions"]
        assert (failed["topic"], failed["partition"]) == ("orders", 3)
        assert "planted" in failed["error"]


def test_a_recovery_is_not_ready_and_counts_down(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store, kstore.Broker(store, port=0, settings=ON) as broker:
        waiting = store._manager.recoveries._waiting
        waiting |= {("orders", 0), ("orders", 1)}
        status, body = health(broker.metrics_address)
        assert (status, body["state"], body["recovering_partitions"]) == (503, "recovering", 2)
        assert (
            "kafka_server_kafkaserver_brokerstate 2.0" in ask(broker.metrics_address, "/metrics")[1]
        )
        assert health(broker.metrics_address, "/live")[0] == 200
        waiting.clear()
        assert health(broker.metrics_address)[0] == 200


def test_a_broker_that_does_not_answer_is_stuck(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store, kstore.Broker(store, port=0, settings=ON) as broker:
        blocked, free = threading.Event(), threading.Event()

        def block() -> None:
            blocked.set()
            free.wait(WAIT)

        broker._loop.call_soon_threadsafe(block)
        assert blocked.wait(WAIT)
        found = Health(broker._loop, store._manager, lambda: False, answer_seconds=0.01)
        try:
            assert found.live() == (HTTPStatus.SERVICE_UNAVAILABLE, {"state": "stuck"})
            assert found.ready()[1]["state"] == "stuck"
        finally:
            free.set()
        assert health(broker.metrics_address)[0] == 200


def test_a_broker_that_stops_says_so(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store, kstore.Broker(store, port=0) as broker:
        stopping = Health(broker._loop, store._manager, lambda: True)
        assert stopping.ready()[1]["state"] == "stopping"
        assert stopping.live()[0] == 200


@pytest.fixture
def server() -> Any:
    server = MetricsServer("127.0.0.1", 0)
    server.start()
    yield server
    server.close()


def test_a_page_that_fails_is_an_error_and_the_next_one_works(server: MetricsServer) -> None:
    results: list[Callable[[], bytes]] = [lambda: b"fine", lambda: bytes(1 // 0)]
    server.show_metrics(lambda: results.pop()())
    assert ask(server.address, "/metrics")[0] == 500
    assert ask(server.address, "/metrics") == (200, "fine")


@pytest.mark.parametrize("sent", [b"\xff" * 2000, b"GET\r\n\r\n", os.urandom(200), b"G" * 70_000])
def test_bytes_that_are_no_request(server: MetricsServer, sent: bytes) -> None:
    server.show_metrics(lambda: b"fine")
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), WAIT) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        try:
            while client.recv(4096):
                pass
        except ConnectionResetError:
            sent = b""
    assert ask(server.address, "/metrics") == (200, "fine")


def test_connections_beyond_sixteen_are_closed(server: MetricsServer) -> None:
    server.show_metrics(lambda: b"fine")
    host, _, port = server.address.rpartition(":")
    clients = [socket.create_connection((host, int(port)), WAIT) for _ in range(17)]
    try:
        assert clients[16].recv(1) == b""
        clients[0].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert clients[0].recv(4096).startswith(b"HTTP/1.0 200")
    finally:
        for client in clients:
            client.close()
