"""One real Kafka broker: KRaft, one node, loopback, free ports."""

import contextlib
import ctypes
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from interop.kafka_jars import JVM, java_command, run
from interop.tools import KafkaTools

CLUSTER_ID = "a3N0b3JlLWludGVyb3AtMQ"  # 16 bytes in unpadded URL-safe base64
# The broker says this once nothing of its start is left to do. Its port answers a moment before;
# a SIGTERM in between ends the process without a clean shutdown (`BrokerServer.shutdown` does
# nothing while the status is STARTING).
_LIFE_CYCLE, _STARTED = "kafka.server.KafkaRaftServer=info", "Kafka Server started"


_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent() -> None:
    """In a child before its exec: SIGKILL for it when the thread that started it is gone.

    A test or benchmark that is killed runs no clean-up: its broker would stay forever.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to clients: none is taken before a broker starts."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found


class Node(KafkaTools):
    """A broker over one log.dir or several.

    Stop it with `stop` (clean) or `kill` (SIGKILL); start again. With `of`, a second broker of
    the cluster whose controller that node is. ``port``: where its clients connect, any free one
    otherwise.
    """

    def __init__(
        self,
        version: str,
        root: Path,
        dirs: int = 1,
        of: "Node | None" = None,
        number: int = 1,
        port: int | None = None,
    ) -> None:
        self.version = version
        self._of = of
        self._number = number if of is None else of._number + 1
        self.settings: dict[str, object] = {}  # more of the broker's, from the next start on
        # Timestamps of any time; Kafka's default refuses those more than an hour in the future.
        self.accepts_future = True
        self.level = "warn"
        self.jvm: Sequence[str] = JVM
        self.log_dir = root / "log-dir"
        self.log_dirs = [self.log_dir, *(root / f"log-dir-{n}" for n in range(2, dirs + 1))]
        self._properties = root / "server.properties"
        self._output = root / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        own, controller = free_ports(2)
        self._port = own if port is None else port
        self._controller = controller if of is None else of._controller
        self._write_properties()
        standalone = ["--standalone"] if version >= "4" and of is None else []
        arguments = ["format", "-t", CLUSTER_ID, "-c", self._properties, *standalone]
        run(version, "kafka.tools.StorageTool", *arguments)

    def _write_properties(self) -> None:
        controller = self._controller
        voter = self if self._of is None else self._of
        quorum = f"controller.quorum.voters={voter._number}@127.0.0.1:{controller}"
        if self.version >= "4":
            quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}"
        future = ["log.message.timestamp.after.max.ms=9223372036854775807"]
        roles, own = "broker,controller", f",CONTROLLER://127.0.0.1:{controller}"
        if self._of is not None:
            roles, own = "broker", ""
        self._properties.write_text(
            f"""process.roles={roles}
node.id={self._number}
{quorum}
listeners=PLAINTEXT://127.0.0.1:{self._port}{own}
advertised.listeners=PLAINTEXT://127.0.0.1:{self._port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={",".join(map(str, self.log_dirs))}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.initial.task.delay.ms=1000
broker.session.timeout.ms=2500
broker.heartbeat.interval.ms=500
"""
            + "".join(f"{line}\n" for line in future if self.accepts_future)
            + "".join(f"{name}={value}\n" for name, value in self.settings.items())
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def controller(self) -> str:
        """The address of its controller's listener, for settings that name all listeners."""
        return f"127.0.0.1:{self._controller}"

    def start(self, timeout: float = 120) -> None:
        """Start and wait until the start is complete; the error has the broker's log if it fails.

        From then on `stop` is a clean stop.
        """
        self.launch()
        self.wait_for_port(timeout)
        self.wait_until_started(timeout)

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        self._write_properties()
        level = f"{self.level},{_LIFE_CYCLE}"
        output = self._output.open("wb")
        with output:
            self._process = subprocess.Popen(
                java_command(
                    self.version, "kafka.Kafka", self._properties, level=level, jvm=self.jvm
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    def wait_for_port(self, timeout: float = 120, *, pause: float = 0.1) -> None:
        """Wait until the port answers, asking again after each pause."""
        self._wait(self._port_answers, timeout, pause)

    def wait_until_started(self, timeout: float = 120) -> None:
        """Wait until the broker logs that its start is complete."""
        self._wait(lambda: _STARTED in self._output.read_text(errors="replace"), timeout, 0.01)

    def _port_answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), timeout=1),
        ):
            return True
        return False

    def _wait(self, is_done: Callable[[], bool], timeout: float, pause: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._process.poll() is None:
            if is_done():
                return
            time.sleep(pause)
        self.kill()
        raise AssertionError(f"Kafka {self.version} did not start:\n{self.said()}")

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Of a running broker."""
        assert self._process is not None
        return self._process.pid

    def said(self) -> str:
        """The end of the broker's own log since it was started: warnings and errors."""
        return self._output.read_text(errors="replace")[-4000:]

    def lines(self) -> list[str]:
        """All of the broker's own log since it was started."""
        return self._output.read_text(errors="replace").splitlines()

    def _end(self, number: int, timeout: float) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(timeout)
        self._process = None

    def stop(self) -> None:
        """A clean stop: checkpoints and the clean-shutdown marker are written."""
        self._end(signal.SIGTERM, 60)
        assert (self.log_dir / ".kafka_cleanshutdown").exists(), self.said()

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        self._end(signal.SIGKILL, 30)


@contextlib.contextmanager
def node(version: str, root: Path, **settings: object) -> Iterator[Node]:
    """A formatted and started node, killed at the end whatever happens."""
    broker = Node(version, root)
    broker.settings = {name.replace("_", "."): value for name, value in settings.items()}
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@contextlib.contextmanager
def two_nodes(version: str, root: Path) -> Iterator[tuple[Node, Node]]:
    """Two started nodes of a cluster, killed at the end; the first is the controller, too."""
    for name in ("one", "two"):
        (root / name).mkdir()
    first = Node(version, root / "one")
    second = Node(version, root / "two", of=first)
    try:
        first.start()
        second.start()
        yield first, second
    finally:
        second.kill()
        first.kill()
