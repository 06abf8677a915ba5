"""``kstore serve`` as a process of its own: loopback, a free port that stays the same."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from interop.kafka_jars import libs
from interop.node import CLUSTER_ID, Node, die_with_parent, free_ports, node
from interop.tools import KafkaTools

SOURCES = Path(__file__).parents[2] / "src"
PATIENCE = 60.0  # seconds until it serves
_META = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


class KstoreNode(KafkaTools):
    """A served directory. Stop it with `stop` (clean) or `kill` (SIGKILL); start again.

    Its node id and cluster id are those of `Node`, by a meta.properties, unless ``log_dir`` is one
    that exists. ``version`` is that of Kafka's tools.
    """

    def __init__(self, root: Path, version: str = "3.9.2", *, log_dir: Path | None = None) -> None:
        self.version = version
        self.settings: dict[str, object] = {}  # by Kafka's names, from the next start on
        self.options: list[str] = []  # more words of the command line
        root.mkdir(parents=True, exist_ok=True)
        self.log_dir = log_dir or root / "log-dir"
        if log_dir is None:
            self.log_dir.mkdir()
            (self.log_dir / "meta.properties").write_text(_META)
        self._output = root / "serve.log"
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of a running node."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait for its line; the error has its output if it fails."""
        words = [sys.executable, "-m", "kstore", "serve", "--log-dir", os.fspath(self.log_dir)]
        if "listeners" not in self.settings:  # which has the ports
            words += ["--port", str(self._port)]
        words += self.options
        for name, value in self.settings.items():
            words += ["--override", f"{name}={value}"]
        with self._output.open("ab") as errors:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.fspath(SOURCES)},
                preexec_fn=die_with_parent,
            )
        assert self._process.stdout is not None
        until = time.monotonic() + PATIENCE
        line = b""
        while b"\n" not in line and time.monotonic() < until:
            if select.select([self._process.stdout], [], [], 1)[0]:
                more = os.read(self._process.stdout.fileno(), 1000)
                if not more:
                    break
                line += more
        if f":{self._port}".encode() not in line:  # the host is the advertised one
            self.kill()
            raise AssertionError(f"kstore serve did not start: {line!r}\n{self.said()}")

    def said(self) -> str:
        """The end of what it logged: warnings and errors."""
        return self._output.read_text(errors="replace")[-4000:]

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return status

    def stop(self) -> None:
        """SIGTERM: a clean stop, whose marker is checked."""
        assert self._end(signal.SIGTERM) == 0, self.said()
        assert (self.log_dir / ".kafka_cleanshutdown").exists(), self.said()

    def kill(self) -> None:
        """SIGKILL, if it runs: nothing is written any more."""
        if self._process is not None:
            self._end(signal.SIGKILL)


@contextlib.contextmanager
def kstore_node(root: Path, *options: str, **settings: object) -> Iterator[KstoreNode]:
    """A started node, killed at the end whatever happens."""
    node = KstoreNode(root)
    node.options += options
    node.settings = {name.replace("_", "."): value for name, value in settings.items()}
    try:
        node.start()
        yield node
    finally:
        node.kill()


@contextlib.contextmanager
def either_node(which: str, root: Path, **settings: object) -> Iterator[Node | KstoreNode]:
    """A started node of kstore, for ``which`` "kstore", or of that version of Kafka."""
    if which != "kstore":
        libs(which)
    running: contextlib.AbstractContextManager[Node | KstoreNode] = (
        kstore_node(root, **settings) if which == "kstore" else node(which, root, **settings)
    )
    with running as broker:
        yield broker
