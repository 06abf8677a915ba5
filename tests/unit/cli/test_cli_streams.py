"""Standard streams that are closed or full: no traceback, and the exit status of the tool."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kstore
from support.waiting import until

KSTORE = [sys.executable, "-m", "kstore"]


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "data") as store:
        config = kstore.LogConfig(cleanup_policy="compact")
        store.create_topic("t", config=config)[0].append(b"value", key=b"key")
    return tmp_path / "data"


def run_in_shell(words: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *KSTORE, *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


TOOLS = [
    ["verify"],
    ["topics", "--list"],
    ["topics", "--create", "--topic", "u"],
    ["compact"],
    ["reindex"],
    ["console-consumer", "--topic", "t", "--from-beginning", "--timeout-ms", "0"],
]


@pytest.mark.parametrize("words", TOOLS)
def test_closed_standard_error_changes_nothing(words: list[str], store_dir: Path) -> None:
    done = run_in_shell([*words, "--log-dir", str(store_dir)], "2>&-")
    assert done.returncode == 0
    assert done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("words", TOOLS)
@pytest.mark.parametrize("redirection", [">&-", ">&- <&-"])
def test_output_to_a_closed_stream_is_a_one_line_error(
    words: list[str], redirection: str, store_dir: Path
) -> None:
    done = run_in_shell([*words, "--log-dir", str(store_dir)], redirection)
    assert done.returncode == 1
    assert done.stderr.endswith(f"kstore {words[0]}: standard output is closed\n")
    assert "Traceback" not in done.stderr


def test_a_tool_that_prints_nothing_needs_no_standard_output(store_dir: Path) -> None:
    words = ["topics", "--list", "--topic", "absent.*", "--log-dir", str(store_dir)]
    done = run_in_shell(words, ">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_server_needs_no_standard_output(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    words = [*KSTORE, "serve", "--log-dir", str(tmp_path), "--port", port]
    asks = ["topics", "--list", "--bootstrap-server", f"127.0.0.1:{port}"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *words]
    with subprocess.Popen(shell, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        until(lambda: server.poll() is not None or run_in_shell(asks, "").returncode == 0)
        server.terminate()
        assert server.wait(60) == 0


def test_an_error_with_closed_streams_has_its_status(tmp_path: Path) -> None:
    words = ["verify", "--log-dir", str(tmp_path / "absent")]
    assert run_in_shell(words, ">&- 2>&- <&-").returncode == run_in_shell(words, "").returncode


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["verify", "--help"]])
def test_output_that_cannot_be_written_is_a_one_line_error(words: list[str]) -> None:
    done = run_in_shell(words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("kstore")
    assert done.stderr.endswith(": No space left on device\n")
    assert done.stderr.count("\n") == 1


def test_a_report_that_cannot_be_written_is_a_one_line_error(store_dir: Path) -> None:
    done = run_in_shell(["topics", "--list", "--log-dir", str(store_dir)], ">/dev/full")
    assert done.returncode == 1
    assert done.stderr == "kstore topics: No space left on device\n"
    assert run_in_shell(["--help"], ">/dev/full 2>/dev/full").returncode == 1
