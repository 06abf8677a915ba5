"""A fresh broker for a suite: kstore, or one node of Kafka. Its directory goes with it."""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from interop.kafka_jars import VERSIONS, prepare
from interop.kstore_node import KstoreNode
from interop.node import Node
from strangers.suite import NotRun, Suite

KSTORE = "kstore"
BROKERS = (KSTORE, *VERSIONS)
NODE_ID = 0  # several suites address node 0
# What a broker must not log whatever clients do.
_ERROR = re.compile(r".*(?:Traceback|\bERROR\b|\bCRITICAL\b).*")


class Served:
    """A running broker and what it has logged."""

    def __init__(self, node: KstoreNode | Node, log: Path) -> None:
        self.node = node
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
        if name == KSTORE:
            node = _kstore(suite, root)
            log = root / "serve.log"
        else:
            node = _kafka(suite, name, root)
            log = root / "server.log"
        try:
            node.start()
            yield Served(node, log)
        finally:
            node.kill()
            kept = logs / f"{suite.name.replace(' ', '-')}.{name}.broker.log"
            kept.write_bytes(log.read_bytes() if log.exists() else b"")


def _kstore(suite: Suite, root: Path) -> KstoreNode:
    log_dir = root / "log-dir"
    log_dir.mkdir()
    node = KstoreNode(root, log_dir=log_dir)
    node.options = ["--node-id", str(NODE_ID)]
    # As Kafka's nodes are started here: tests ask for these settings.
    listener = f"PLAINTEXT://{node.address}"
    node.settings = {"listeners": listener, "advertised.listeners": listener, **suite.settings}
    return node


def _kafka(suite: Suite, version: str, root: Path) -> Node:
    _, reason = prepare(version)
    if reason:
        raise NotRun(reason)
    node = Node(version, root, number=NODE_ID)
    node.jvm = ("-Xmx768m", "-XX:+UseG1GC")
    node.settings = {**suite.settings, **suite.kafka_settings}
    return node
