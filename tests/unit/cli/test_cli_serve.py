"""``kstore serve``: a real process, its line, its signals, and what it says when it cannot."""

import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

import kstore
from kstore.broker.server_properties import documented_keys
from kstore.cli import main, serve
from kstore.errors import InvalidConfigError
from kstore.remote.store import RemoteStore
from kstore.signals import StopRequest
from support.serve_process import WAIT, serving
from support.wire_client import encode, frame


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), WAIT)


def ask_versions(connection: socket.socket) -> bytes:
    """ApiVersions 0: the answer."""
    body = struct.pack(">hhih", 18, 0, 5, -1)
    connection.sendall(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(
    tmp_path: Path, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # nohup's children ignore SIGHUP
    request.addfinalizer(lambda: signal.signal(number, before))
    data = tmp_path / "data"
    with kstore.open(data) as store:
        store.create_topic("orders")[0].append(b"one")
    with serving("--log-dir", data) as (process, address):
        with connect(address) as connection:
            assert ask_versions(connection)[:6] == struct.pack(">ih", 5, 0)
            process.send_signal(number)
            assert connection.recv(1) == b""
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    with kstore.open(data) as store:
        assert not store.recovery.unclean


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """The first one waits for a client that does not take its answer."""
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t")
        for _ in range(40):
            topic[0].append(os.urandom(900_000))
    words = ("--log-dir", tmp_path, "--override", "kstore.stop.wait.ms=600000")
    with serving(*words) as (process, address), connect(address) as connection:
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
        topics = [{"topic": "t", "partitions": [wanted]}]
        fields = {"replica_id": -1, "max_bytes": 1 << 30, "topics": topics}
        connection.sendall(frame(1, 4, 1, encode(1, 4, fields)))
        assert connection.recv(1)  # the answer has begun
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == -signal.SIGTERM


def test_retention_is_checked_at_the_brokers_interval(tmp_path: Path) -> None:
    words = ("--override", "log.retention.check.interval.ms=50", "--override", "log.roll.ms=1")
    with kstore.open(tmp_path) as store:
        old = store.create_topic("t", config={"retention.ms": 1, "file.delete.delay.ms": 0})[0]
        old.append(b"old", timestamp=1)
        old.roll()
        old.append(b"older", timestamp=1)
    with serving("--log-dir", tmp_path, *words):
        deadline = time.monotonic() + WAIT
        while (tmp_path / "t-0" / f"{0:020}.log").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_start_line_names_the_sockets_port_and_the_advertised_one(tmp_path: Path) -> None:
    words = ("--log-dir", tmp_path, "--advertised", "kafka.example.org:9092")
    with serving(*words) as (_, port), connect(f"127.0.0.1:{port}") as connection:
        assert ask_versions(connection)[:6] == struct.pack(">ih", 5, 0)


def test_threads_take_short_turns_in_a_process_of_its_own_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(
        StopRequest, "wait", lambda *_: seen.append(sys.getswitchinterval()) or True
    )
    before = sys.getswitchinterval()
    assert main(["serve", "--log-dir", str(tmp_path / "a"), "--port", "0"]) == 0
    assert seen == [pytest.approx(0.0005)]
    assert sys.getswitchinterval() == before
    with kstore.serve(tmp_path / "b", port=0):
        assert sys.getswitchinterval() == before


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_is_collected_while_it_serves_and_after_it_only_if_it_was_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(StopRequest, "wait", lambda *_: seen.append(gc.isenabled()) or True)
    if not is_enabled:
        gc.disable()
    try:
        assert main(["serve", "--log-dir", str(tmp_path), "--port", "0"]) == 0
        assert [*seen, gc.isenabled()] == [is_enabled, is_enabled]
    finally:
        gc.enable()


def test_garbage_is_collected_seldom_in_a_process_of_its_own_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(StopRequest, "wait", lambda *_: seen.append(gc.get_threshold()[0]) or True)
    before = gc.get_threshold()
    assert main(["serve", "--log-dir", str(tmp_path / "a"), "--port", "0"]) == 0
    assert seen == [10_000]
    assert gc.get_threshold() == before
    with kstore.serve(tmp_path / "b", port=0):
        assert gc.get_threshold() == before


def test_a_directory_is_created(tmp_path: Path) -> None:
    with serving("--log-dir", tmp_path / "a", "--log-dir", tmp_path / "b"):
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_port_in_use_is_a_one_line_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--log-dir", str(tmp_path / "data"), "--port", str(port)]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"kstore serve: cannot listen on 127.0.0.1:{port}: another process uses the port; "
        "port 0 chooses a free one\n"
    )


def test_a_directory_in_use_is_a_one_line_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving("--log-dir", tmp_path) as (process, _):
        assert main(["serve", "--log-dir", str(tmp_path), "--port", "0"]) == 1
        error = capfd.readouterr().err
        assert str(tmp_path) in error
        assert str(process.pid) in error


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--override", "num.partitions"], "--override takes key=value"),
        (["--override", "node.id=7"], "has no effect; the option is --node-id"),
        (["--override", "log.dirs=/tmp/x"], "the option is --log-dir"),
        (["--override", "num.partitions=none"], "num.partitions is a whole number"),
        (["--override", "num.partition=1"], "did you mean num.partitions"),
        (["--listen", "256.1.1.1"], "cannot listen on 256.1.1.1"),
        (["--advertised", "a:b:c"], "a port is a number"),
        (["--port", "70000"], "70000"),
        (["--bootstrap-server", "x:9092"], "--listen and --port set its address"),
    ],
)
def test_wrong_options_are_sentences(
    tmp_path: Path, words: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    port = [] if "--port" in words else ["--port", "0"]
    assert main(["serve", "--log-dir", str(tmp_path), *port, *words]) == 1
    assert sentence in capfd.readouterr().err


def test_the_advertised_address_is_printed(tmp_path: Path) -> None:
    with serving("--log-dir", tmp_path, "--advertised", "kafka.example.org") as (_, address):
        host, port = address.split(":")
        assert host == "kafka.example.org"
        with connect(f"127.0.0.1:{port}") as connection:
            assert ask_versions(connection)


def test_serving_on_a_network_address_gives_a_warning(tmp_path: Path) -> None:
    with serving("--log-dir", tmp_path, "--listen", "0.0.0.0") as (process, _):
        process.terminate()
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        assert b"without security" in process.stderr.read()


FILE = """\
# The file of a KRaft node.
process.roles=broker,controller
node.id=5
controller.quorum.voters=5@localhost:9093
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
num.partitions=3
num.network.threads=3
"""


def test_a_file_of_kafka_is_served(tmp_path: Path) -> None:
    """Its directories, node id, listeners and settings count; the rest is named once."""
    path, data = tmp_path / "server.properties", tmp_path / "data"
    path.write_text(FILE.format(data=data))
    with serving("--config", path, port=()) as (process, address):
        assert address.startswith("127.0.0.1:")
        with RemoteStore(address) as store:
            store.create_topic("orders")
            assert len(store["orders"]) == 3
            assert store.cluster.nodes == [5]
        process.terminate()
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode().splitlines()
    assert said == [
        f"{path}: without effect: controller.quorum.voters, num.network.threads",
    ]
    assert (data / "orders-2").is_dir()


def test_options_count_before_the_file(tmp_path: Path) -> None:
    path, data = tmp_path / "server.properties", tmp_path / "other"
    path.write_text(FILE.format(data=tmp_path / "data") + "advertised.listeners=PLAINTEXT://x:9\n")
    words = ("--config", path, "--log-dir", data, "--node-id", 7, "--override", "num.partitions=2")
    with serving(*words) as (_, address), RemoteStore(address) as store:
        store.create_topic("orders")
        assert len(store["orders"]) == 2
        assert store.cluster.nodes == [7]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "remote.log.storage.system.enable=true",
            "remote.log.storage.system.enable=true is not supported",
        ),
        ("num.partitions=none", "num.partitions"),
        ("process.roles=controller", "configures a controller"),
        ("security.providers=a.B", "security.providers"),
        ("log.dirs=", "name a directory by --log-dir, or a server.properties with log.dirs"),
    ],
)
def test_a_file_that_cannot_be_served(
    tmp_path: Path, line: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={tmp_path / 'data'}\n{line}\n")
    assert main(["serve", "--config", str(path)]) == 1
    assert sentence in capfd.readouterr().err


def test_an_override_and_a_file_treat_every_key_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same setting for the broker, or the same word that it has no effect."""
    path = tmp_path / "server.properties"
    effects: set[str] = set()
    for name in sorted(set(documented_keys()) - set(serve._OPTIONS)):
        path.write_text(f"{name}=x\n")
        words = {"listen": None, "port": None, "advertised": None, "log_format": "text"}
        words |= {"log_dir": [], "node_id": None, "acks_durable": False}
        words |= {"metrics_port": None, "metrics_listen": None}
        found = []
        for read, given in (
            (serve.file_settings, Namespace(**words, config=path)),
            (serve.broker_settings, Namespace(**words, override=[f"{name}=x"])),
        ):
            try:
                found.append(f"settings {read(given)}")
            except InvalidConfigError as error:
                found.append(f"error {error}")
            said = capsys.readouterr().err.partition("without effect: ")[2]
            found[-1] += f" ignored {said.strip()}"
        assert found[0] == found[1]
        effects.add(found[0].replace(name, "NAME"))
    assert {"settings {'NAME': 'x'} ignored ", "settings {} ignored NAME"} <= effects


def test_a_refused_override_is_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--override", "remote.log.storage.system.enable=true"]
    assert main(["serve", "--log-dir", str(tmp_path), "--port", "0", *words]) == 1
    assert "remote.log.storage.system.enable=true is not supported" in capfd.readouterr().err


def test_a_directory_or_a_file_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 1
    assert "--log-dir" in capfd.readouterr().err
