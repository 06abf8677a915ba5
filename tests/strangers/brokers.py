"""A fresh broker for a suite: kstore, or one node of Kafka. Its directory goes with it."""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from interop.kafka_jars import VERSIONS
from interop.kstore_node import KstoreNode
from interop.node import Node, free_ports
from strangers.kafka_scripts import require_kafka
from strangers.suite import Suite

KSTORE = "kstore"
BROKERS = (KSTORE, *VERSIONS)
NODE_ID = 0  # several suites address node 0
# What a broker must not log whatever clients do.
_ERROR = re.compile(r".*(?:Traceback|\bERROR\b|\bCRITICAL\b).*")


class Served:
    """A running broker and what it has logged. ``ports`` are of the suite's own listeners."""

    def __init__(self, node: KstoreNode | Node, log: Path, ports: Mapping[str, int]) -> None:
        self.node = node
        self.ports = ports
        self._log = log

    @property
    def address(self) -> str:
        return self.node.address

    def errors(self) -> tuple[str, ...]:
        """Of kstore: a death, and the first errors that it logged."""
        if isinstance(self.node, Node):
            return ()
        found = [] if self.node.running else ["the broker has died"]
        text = self._log.read_text(errors="replace")
        found += _ERROR.findall(text)[:5]
        return tuple(found)


@contextlib.contextmanager
def broker_for(suite: Suite, name: str, logs: Path) -> Iterator[Served]:
    """A started broker with the settings of a suite; its log is kept. Raises NotRun."""
    with tempfile.TemporaryDirectory(prefix="kstore-suite-") as scratch:
        root = Path(scratch)
        ports = dict(zip(suite.listeners, free_ports(len(suite.listeners)), strict=True))
        node: KstoreNode | Node
        if name == KSTORE:
            node = _kstore(suite, root, ports)
            log = root / "serve.log"
        else:
            node = _kafka(suite, name, root, ports)
            log = root / "server.log"
        try:
            node.start()
            yield Served(node, log, ports)
        finally:
            node.kill()
            kept = logs / f"{suite.name.replace(' ', '-')}.{name}.broker.log"
            kept.write_bytes(log.read_bytes() if log.exists() else b"")


def _kstore(suite: Suite, root: Path, ports: Mapping[str, int]) -> KstoreNode:
    log_dir = root / "log-dir"
    log_dir.mkdir()
    node = KstoreNode(root, log_dir=log_dir)
    node.options = ["--node-id", str(NODE_ID)]
    node.settings = {**listener_settings(suite, node.address, ports), **suite.settings}
    return node


def _kafka(suite: Suite, version: str, root: Path, ports: Mapping[str, int]) -> Node:
    require_kafka(version)
    node = Node(version, root, number=NODE_ID)
    node.jvm = ("-Xmx768m", "-XX:+UseG1GC")
    node.accepts_future = False  # a suite compares the settings that are not Kafka's defaults
    listeners = listener_settings(suite, node.address, ports, controller=node.controller)
    node.settings = {**listeners, **suite.settings, **suite.kafka_settings}
    return node


def listener_settings(
    suite: Suite, address: str, ports: Mapping[str, int], *, controller: str = ""
) -> dict[str, str]:
    """The plain listener, then the suite's own; the controller's, ``host:port``, is not advertised.

    kstore gets them too where Kafka needs no setting: tests ask for them.
    """
    protocols = {"PLAINTEXT": "PLAINTEXT", **suite.listeners}
    listeners = [f"PLAINTEXT://{address}"]
    listeners += [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    advertised = ",".join(listeners).replace("127.0.0.1", suite.host)
    if controller:
        protocols["CONTROLLER"] = "PLAINTEXT"
        listeners.append(f"CONTROLLER://{controller}")
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(":".join(pair) for pair in protocols.items()),
    }
