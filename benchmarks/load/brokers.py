"""The brokers under load, each a child process on a free port of the loopback interface."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kafka import KafkaAdminClient

from interop.node import Node, die_with_parent, free_ports
from load.programs import compile_program
from peers.broker import SERVER, end_offsets
from peers.kafka import VERSION

SOURCES = Path(__file__).parents[2] / "src"
PATIENCE = 60.0  # seconds
HEAP = ("-Xms1g", "-Xmx1g")  # as kafka-server-start.sh has it
_TICK = os.sysconf("SC_CLK_TCK")
# An installed package has compiled modules. A source tree may have none, and compiling them would
# be most of a start: the first round compiles them into this directory.
_BYTECODE = Path(tempfile.gettempdir()) / f"kstore-load-bytecode-{os.getuid()}"


class Broker(Protocol):
    """A broker of this benchmark. ``keeps_records``: consumers can read the produced records."""

    name: str
    keeps_records: bool

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> float:
        """Start the broker; return the seconds until its port accepts connections."""

    def stop(self) -> None: ...


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads so far, with a resolution of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def anonymous_memory(pid: int) -> int:
    """Resident anonymous memory in bytes: heap and stacks, without mapped segments."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/{pid}/status has no RssAnon")


def wait_for_port(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until a port accepts connections. Raises AssertionError, with the output, if the process
    exits."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1),
        ):
            return
        time.sleep(0.001)
    process.kill()
    said = output.read_text(errors="replace")[-4000:]
    raise AssertionError(f"{process.args!r} did not open port {port}:\n{said}")


def _environment() -> dict[str, str]:
    found = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**found, "PYTHONPATH": os.fspath(SOURCES), "PYTHONPYCACHEPREFIX": os.fspath(_BYTECODE)}


class ProcessBroker:
    """A broker that a command line starts on a port chosen in advance."""

    def __init__(
        self,
        name: str,
        command: Callable[[int], list[str]],
        output: Path,
        *,
        keeps_records: bool,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.keeps_records = keeps_records
        self._more_environment = environment or {}
        self.port = free_ports(1)[0]
        self._command = command
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        started = time.perf_counter()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command(self.port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**_environment(), **self._more_environment},
                preexec_fn=die_with_parent,
            )
        wait_for_port(self.port, self._process, self._output)
        return time.perf_counter() - started

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def null_broker(root: Path, log: Sequence[str] = ()) -> ProcessBroker:
    """The C broker without storage, which shows the limit of the generator.

    ``log``: the bytes of a batch, the file of batches that consumers read, the records of a batch.
    """
    program = os.fspath(compile_program("null_broker", root))
    return ProcessBroker(
        "null", lambda port: [program, str(port), *log], root / "null.log", keeps_records=False
    )


def kstore_broker(
    root: Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> ProcessBroker:
    """``kstore serve`` on a new directory, with more of its options and more environment."""
    log_dir = root / "kstore"
    log_dir.mkdir()

    def command(port: int) -> list[str]:
        words = ["serve", "--log-dir", os.fspath(log_dir), "--port", str(port)]
        return [sys.executable, "-m", "kstore", *words, *options]

    output = root / "kstore.log"
    return ProcessBroker("kstore", command, output, keeps_records=True, environment=environment)


class KafkaBroker:
    """Kafka with the JVM options of its start script, on a new directory."""

    name = f"Kafka {VERSION}"
    keeps_records = True

    def __init__(self, root: Path) -> None:
        (root / "kafka").mkdir()
        self._node = Node(VERSION, root / "kafka")
        self._node.jvm = (*HEAP, *SERVER)
        self._node.settings["log.segment.delete.delay.ms"] = 0

    @property
    def port(self) -> int:
        return int(self._node.address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._node.pid

    def start(self) -> float:
        started = time.perf_counter()
        self._node.launch()
        self._node.wait_for_port(pause=0.005)
        seconds = time.perf_counter() - started
        self._node.wait_until_started()
        return seconds

    def stop(self) -> None:
        self._node.kill()


class Topics:
    """Creates and deletes topics on a broker that keeps records, and reads their end offsets."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._partitions: dict[str, int] = {}

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic whose segments are deleted without delay; do nothing on a null broker."""
        self._partitions[topic] = partitions
        if self._broker.keeps_records:
            configs = {"file.delete.delay.ms": "0"}
            options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
            with contextlib.closing(self._admin()) as admin:
                admin.create_topics({topic: options})
            self.ends(topic)

    def delete(self, topic: str) -> None:
        del self._partitions[topic]
        if self._broker.keeps_records:
            with contextlib.closing(self._admin()) as admin:
                admin.delete_topics([topic])

    def ends(self, topic: str) -> list[int]:
        """The end offset of each partition, once every partition has a leader."""
        address = ("127.0.0.1", self._broker.port)
        until = time.monotonic() + PATIENCE
        with socket.create_connection(address, PATIENCE) as connection:
            while time.monotonic() < until:
                errors, ends = end_offsets(connection, topic, self._partitions[topic])
                if not any(errors):
                    return ends
                time.sleep(0.01)
        raise AssertionError(f"{self._broker.name}: no leader of {topic}")

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self._broker.port}")
