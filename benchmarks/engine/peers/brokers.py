"""Redis and NATS as peers: servers that a contest starts, uses by their own protocols, and stops.

Both store messages in files; ``synced`` says whether they sync before the acknowledgement.
"""

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from time import monotonic, perf_counter, sleep

from kstore.bench.contest import Timed

HOW = {
    "redis-server": "the program redis-server: apt-get install redis-server",
    "nats-server": "the program nats-server: apt-get install nats-server",
}
PATIENCE = 20.0  # seconds for a server to start
TOGETHER = 1000  # messages per write to the socket
ROOM = 1 << 16


def why_not(name: str) -> str:
    """How to install a server that is missing, or an empty string."""
    return "" if shutil.which(name) else f"not installed: {HOW[name]}"


def why_not_synced(name: str) -> str:
    """Why a server cannot sync before it acknowledges, or an empty string."""
    if (reason := why_not(name)) or name != "nats-server":
        return reason
    with NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("jetstream { sync_interval: always }\n")
        file.flush()
        check = subprocess.run([name, "-t", "-c", file.name], capture_output=True, text=True)
    if not check.returncode:
        return ""
    version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout.strip()
    what = check.stderr.strip().rpartition(": ")[2]
    return f"{version} cannot: {what} (2.10 has it)"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _server(words: list[str], port: int) -> Iterator[socket.socket]:
    """Start a server and connect to it; it stops afterwards."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with _connected(port, process) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(120)
                yield connection
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _connected(port: int, process: "subprocess.Popen[bytes]") -> socket.socket:
    until = monotonic() + PATIENCE
    while process.poll() is None and monotonic() < until:
        with suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), 1)
        sleep(0.02)
    raise AssertionError(f"{process.args!r} does not answer")


def _read_answers(connection: socket.socket, mark: bytes, count: int) -> None:
    """Read ``count`` acknowledgements."""
    seen, kept = 0, b""
    while seen < count:
        data = connection.recv(ROOM)
        if not data:
            raise AssertionError(f"{seen} of {count} messages were acknowledged")
        data = kept + data
        seen += data.count(mark)
        if b"-ERR" in data or b'"error"' in data:
            raise AssertionError(data[:200].decode(errors="replace"))
        kept = data[len(data) - len(mark) + 1 :] if len(mark) > 1 else b""


def _pipelined(connection: socket.socket, requests: Sequence[bytes], mark: bytes) -> float:
    """Seconds until the requests, sent without waiting, are acknowledged."""
    count = len(requests)
    together = [b"".join(requests[at : at + TOGETHER]) for at in range(0, count, TOGETHER)]
    with ThreadPoolExecutor(1) as pool:  # reads while more requests are sent
        answered = pool.submit(_read_answers, connection, mark, count)
        started = perf_counter()
        try:
            for some in together:
                connection.sendall(some)
            answered.result()
        except BaseException:  # an interrupt: the reader ends, too
            connection.shutdown(socket.SHUT_RDWR)
            raise
        return perf_counter() - started


@contextmanager
def redis(directory: Path, *, synced: bool = False) -> Iterator[Callable[[Sequence[bytes]], Timed]]:
    """XADD of messages to a stream with an append-only file.

    ``synced``: Redis syncs before it acknowledges, once for all requests that it has read
    (``appendfsync always``); else never.
    """
    path, port = mkdtemp(dir=directory), _free_port()
    words = ["redis-server", "--bind", "127.0.0.1", "--port", f"{port}", "--dir", path]
    words += ["--save", "", "--appendonly", "yes"]
    words += ["--appendfsync", "always" if synced else "no"]
    with _server(words, port) as connection:

        def ask(*parts: bytes) -> bytes:
            connection.sendall(_command(*parts))
            return connection.recv(ROOM)

        def publish(values: Sequence[bytes]) -> Timed:
            count = len(values)
            ask(b"DEL", b"stream")
            requests = [_command(b"XADD", b"stream", b"*", b"value", value) for value in values]
            seconds = _pipelined(connection, requests, b"$")
            if ask(b"XLEN", b"stream") != b":%d\r\n" % count:
                raise AssertionError("not every message is in the stream")
            return Timed(seconds / count, result=count)

        yield publish


def _command(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


@contextmanager
def nats(directory: Path, *, synced: bool = False) -> Iterator[Callable[[Sequence[bytes]], Timed]]:
    """Publish to a JetStream stream in files; each message is acknowledged.

    ``synced``: each message is synced before that; else every two minutes.
    """
    path, port = mkdtemp(dir=directory), _free_port()
    settings = f'store_dir: "{path}"' + (", sync_interval: always" if synced else "")
    (Path(path) / "nats.conf").write_text(f"jetstream {{ {settings} }}\n", encoding="utf-8")
    words = ["nats-server", "-c", f"{path}/nats.conf", "-a", "127.0.0.1", "-p", f"{port}"]
    with _server(words, port) as connection:
        connection.recv(ROOM)  # INFO
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\nPING\r\n')
        _until(connection, b"PONG\r\n")

        def ask(subject: str, body: object) -> bytes:
            data = json.dumps(body).encode()
            subject = f"$JS.API.STREAM.{subject}"
            connection.sendall(b"PUB %s answers %d\r\n" % (subject.encode(), len(data)))
            connection.sendall(data + b"\r\n")
            return _until(connection, b'"}\r\n', b"}\r\n")

        def publish(values: Sequence[bytes]) -> Timed:
            count = len(values)
            setting = {"name": "S", "subjects": ["log"], "storage": "file", "retention": "limits"}
            more = {"max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "num_replicas": 1}
            if b"error" in (reply := ask("CREATE.S", setting | more)):
                raise AssertionError(reply.decode(errors="replace"))
            requests = [b"PUB log answers %d\r\n%s\r\n" % (len(v), v) for v in values]
            seconds = _pipelined(connection, requests, b'"seq":')
            reply = ask("INFO.S", {})
            if b'"messages":%d,' % count not in reply:
                raise AssertionError(f"messages are missing: {reply.decode()}")
            ask("DELETE.S", {})
            return Timed(seconds / count, result=count)

        yield publish


def _until(connection: socket.socket, *ends: bytes) -> bytes:
    data = b""
    while not data.endswith(ends):
        more = connection.recv(ROOM)
        if not more:
            raise AssertionError("the server closed the connection")
        data += more
    return data
