"""One broker of the days of ZooKeeper, 0.8.2 to 2.8, and its ZooKeeper: loopback, free ports."""

import contextlib
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from interop.kafka_jars import java_command, run
from interop.node import free_ports

# 0.8.2 brings a ZooKeeper that does not start on Java 17; the one of 0.10.2 serves it as well.
_ZOOKEEPER_OF = {"0.8.2.2": "0.10.2.2"}
_LOG4J = """log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%p %c %m%n
"""
# Metadata of version 0, which every broker knows. The port takes connections earlier, and a broker
# that gets SIGTERM before its start is complete does not stop cleanly.
_METADATA = struct.pack(">ihhihi", 14, 3, 0, 1, -1, 0)


class OldNode:
    """A broker over one log.dir; ZooKeeper runs from the first start until `close`."""

    def __init__(self, version: str, root: Path) -> None:
        self.version = version
        self.level = "off"  # of brokers that log by slf4j, which the older ones do not
        self.log_dir = root / "log-dir"
        self._root = root
        self._port, self._zookeeper_port = free_ports(2)
        self._broker: subprocess.Popen[bytes] | None = None
        self._zookeeper: subprocess.Popen[bytes] | None = None
        (root / "log4j.properties").write_text(_LOG4J)
        (root / "zookeeper.properties").write_text(
            f"dataDir={root / 'zookeeper'}\nclientPort={self._zookeeper_port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            "tickTime=500\n"
        )
        (root / "server.properties").write_text(self._properties())

    def _properties(self) -> str:
        endpoint = f"listeners=PLAINTEXT://127.0.0.1:{self._port}"
        if self.version.startswith("0.8"):
            endpoint = f"host.name=127.0.0.1\nport={self._port}"
        return f"""broker.id=1
{endpoint}
log.dirs={self.log_dir}
zookeeper.connect=127.0.0.1:{self._zookeeper_port}
zookeeper.session.timeout.ms=2000
zookeeper.connection.timeout.ms=60000
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.hours=876000
controlled.shutdown.enable=false
"""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def zookeeper(self) -> str:
        """The address of its ZooKeeper."""
        return f"127.0.0.1:{self._zookeeper_port}"

    def _run(self, version: str, main: str, properties: str) -> subprocess.Popen[bytes]:
        command = java_command(version, main, self._root / properties, level=self.level)
        command.insert(1, f"-Dlog4j.configuration=file:{self._root / 'log4j.properties'}")
        with (self._root / "server.log").open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._root
            )

    def start(self) -> None:
        """Start and wait until the start is complete: from then on `stop` is a clean stop."""
        if self._zookeeper is None:
            version = _ZOOKEEPER_OF.get(self.version, self.version)
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._zookeeper = self._run(version, main, "zookeeper.properties")
            self._wait(self._zookeeper, lambda: _connects(self._zookeeper_port))
        self._broker = self._run(self.version, "kafka.Kafka", "server.properties")
        self._wait(self._broker, lambda: _answers(self._port))

    def _wait(
        self, process: subprocess.Popen[bytes], is_done: Callable[[], bool], timeout: float = 120
    ) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and process.poll() is None:
            if is_done():
                return
            time.sleep(0.05)
        raise AssertionError(f"Kafka {self.version} did not start:\n{self.said()}")

    def said(self) -> str:
        """The end of what broker and ZooKeeper logged: warnings and errors."""
        return (self._root / "server.log").read_text(errors="replace")[-4000:]

    def lines(self) -> list[str]:
        """All that both logged since the first start."""
        return (self._root / "server.log").read_text(errors="replace").splitlines()

    def create_topic(self, topic: str, **config: object) -> None:
        """A topic of one partition, by the tool that every old version has."""
        settings = [f"--config={name.replace('_', '.')}={value}" for name, value in config.items()]
        endpoint = f"127.0.0.1:{self._zookeeper_port}"
        arguments = ["--zookeeper", endpoint, "--create", "--topic", topic, "--partitions", 1]
        arguments += ["--replication-factor", 1, *settings]
        run(self.version, "kafka.admin.TopicCommand", *arguments)

    def _end(self, number: int) -> None:
        if self._broker is not None:
            self._broker.send_signal(number)
            self._broker.wait(60)
            self._broker = None

    def stop(self) -> None:
        """A clean stop: checkpoints and the clean-shutdown marker are written."""
        self._end(signal.SIGTERM)
        assert (self.log_dir / ".kafka_cleanshutdown").exists(), self.said()

    def kill(self) -> None:
        """SIGKILL: nothing is written any more. ZooKeeper runs on."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait(30)
            self._zookeeper = None


def _connects(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=1),
    ):
        return True
    return False


def _answers(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=1) as connection,
    ):
        connection.sendall(_METADATA)
        return len(connection.recv(4)) == 4
    return False


@contextlib.contextmanager
def old_node(
    version: str, root: Path, settings: Mapping[str, object] | None = None
) -> Iterator[OldNode]:
    """A started broker with its ZooKeeper, both killed at the end whatever happens.

    ``settings`` are further lines of ``server.properties``, of which the last one counts.
    """
    broker = OldNode(version, root)
    with (root / "server.properties").open("a") as properties:
        properties.writelines(f"{name}={value}\n" for name, value in (settings or {}).items())
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
