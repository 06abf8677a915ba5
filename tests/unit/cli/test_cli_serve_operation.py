"""``kstore serve`` for operators: what a service manager hears, the log as JSON."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

import kstore
from kstore.cli import main, serve
from kstore.cli.service_manager import ServiceManager

WAIT = 60


@contextmanager
def serving(*words: object, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kstore", "serve", "--port", "0", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"kstore serves "), process.communicate(timeout=WAIT)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["a path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        path = str(tmp_path / "notify")
        listening.bind(path if request.param == "a path" else f"\0{path}")
        listening.settimeout(WAIT)
        yield listening


def notify_socket(manager: socket.socket) -> str:
    name = manager.getsockname()
    return name if isinstance(name, str) else f"@{name[1:].decode()}"


def test_the_service_manager_is_notified_of_start_and_stop(
    tmp_path: Path, manager: socket.socket
) -> None:
    data = tmp_path / "data"
    with serving("--log-dir", data, NOTIFY_SOCKET=notify_socket(manager)) as process:
        ready, status = manager.recv(4096).decode().split("\n")
        assert ready == "READY=1"
        assert re.fullmatch(rf"STATUS=serving {re.escape(str(data))} on 127\.0\.0\.1:\d+", status)
        process.terminate()
        assert manager.recv(4096).decode().startswith("STOPPING=1\n")
        assert process.wait(WAIT) == 0


def test_a_recovery_is_a_status(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", notify_socket(manager))
    found = ServiceManager()
    assert "NOTIFY_SOCKET" not in os.environ
    found.status("recovering,\n3 partitions\0 left")
    assert manager.recv(4096) == b"STATUS=recovering, 3 partitions\0 left"


@pytest.mark.parametrize("address", ["", "/no/such/socket", "@nothing", "vsock:2:1"])
def test_without_a_manager_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    found = ServiceManager()
    found.ready("serving")
    found.stopping()
    assert found._address in ("", "vsock:2:1")


def test_the_log_has_one_json_object_on_each_line(tmp_path: Path) -> None:
    words = ("--log-dir", tmp_path, "--log-format", "json", "--verbose", "--listen", "0.0.0.0")
    with serving(*words) as process:
        process.terminate()
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    for line in lines:
        assert set(line) == {"time", "level", "logger", "message"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    levels = {line["level"] for line in lines if line["logger"] == "kstore.broker"}
    assert levels == {"INFO", "WARNING"}
    assert any("without security" in line["message"] for line in lines)


@pytest.mark.parametrize("kind", ["json", "text"])
def test_errors_at_the_start_have_the_format_of_the_log(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--log-dir", str(tmp_path), "--port", "0", "--override", "num.partitions=none"]
    code = (
        "import sys; from kstore.cli import main; "
        f"sys.exit(main({['serve', *words, '--log-format', kind]!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    [line] = ran.stderr.splitlines()
    if kind == "json":
        found = json.loads(line)
        assert found["level"] == "CRITICAL"
        line = f"kstore serve: {found['message']}"
    assert line.startswith("kstore serve: num.partitions is a whole number")


def test_exceptions_are_a_field() -> None:
    import logging

    from kstore.cli.log_format import JsonFormatter

    try:
        raise ValueError("first\nsecond")
    except ValueError:
        info = sys.exc_info()
    record = logging.LogRecord("a.b", logging.ERROR, "f", 1, "failed: %s", ("x\ny",), info)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert found["message"] == "failed: x\ny"
    assert found["exception"].endswith("ValueError: first\nsecond")


def test_the_port_of_the_metrics_is_a_second_line(tmp_path: Path) -> None:
    with serving("--log-dir", tmp_path, "--metrics-port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"metrics are on (http://127\.0\.0\.1:\d+/)metrics\n", line)
        assert found is not None
        with urlopen(f"{found[1]}health", timeout=WAIT) as answer:
            assert json.load(answer)["ready"]


def test_an_unknown_format_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--log-dir", "x", "--log-format", "xml"]) == 1
    assert "invalid choice: 'xml'" in capfd.readouterr().err
    assert kstore.Broker


def test_metrics_without_their_library_name_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    words = ["serve", "--log-dir", str(tmp_path), "--port", "0", "--metrics-port", "0"]
    assert main(words) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("kstore serve: metrics need prometheus-client")
    assert line.endswith("pip install 'kstore[metrics]'")


def test_an_import_that_fails_otherwise_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise ImportError("a broken installation")

    monkeypatch.setattr(serve, "run", fail)
    with pytest.raises(ImportError, match="a broken installation"):
        main(["serve", "--log-dir", "x"])
