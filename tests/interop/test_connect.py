"""Kafka Connect's file source and sink, standalone and distributed, stopped and started again.

Lines of a file go through a topic into another file. The distributed worker keeps its connectors,
offsets and status in compacted topics, and is a member of a group of the type "connect".
"""

import contextlib
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import CONNECT, java_command
from interop.kstore_node import KstoreNode, kstore_node
from interop.node import die_with_parent, free_ports

PATIENCE = 90.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
FILE = "org.apache.kafka.connect.file.FileStream"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[KstoreNode]:
    with kstore_node(tmp_path / "served", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def connectors(root: Path) -> dict[str, dict[str, str]]:
    shared = {"tasks.max": "1", "key.converter": STRINGS, "value.converter": STRINGS}
    source = {"connector.class": f"{FILE}SourceConnector", "file": str(root / "in.txt")}
    sink = {"connector.class": f"{FILE}SinkConnector", "file": str(root / "out.txt")}
    return {
        "source": shared | source | {"topic": "lines"},
        "sink": shared | sink | {"topics": "lines"},
    }


def properties(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


@contextlib.contextmanager
def worker(served: KstoreNode, root: Path, kind: str) -> Iterator[None]:
    """A running worker; it must end by itself when it is asked to."""
    (port,) = free_ports(1)
    settings = {
        "bootstrap.servers": served.address,
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "service_load",
    }
    files: list[Path] = []
    if kind == "Standalone":
        settings["offset.storage.file.filename"] = str(root / "offsets")
        for name, of in connectors(root).items():
            files.append(properties(root / f"{name}.properties", {"name": name, **of}))
    else:
        settings["group.id"] = "workers"
        for what in ("config", "offset", "status"):
            settings[f"{what}.storage.topic"] = f"connect-{what}"
            settings[f"{what}.storage.replication.factor"] = "1"
    path = properties(root / "worker.properties", settings)
    main = f"org.apache.kafka.connect.cli.Connect{kind}"
    log = root / "worker.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            java_command(CONNECT, main, path, *files, level="warn"),
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        if kind == "Distributed":
            for name, of in connectors(root).items():
                configure(f"http://127.0.0.1:{port}/connectors/{name}/config", of, log)
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def configure(url: str, settings: dict[str, str], log: Path) -> None:
    """Create a connector, or set it again, once the worker serves."""
    request = urllib.request.Request(url, json.dumps(settings).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status in (200, 201)
                return
        except urllib.error.URLError:  # it does not listen yet, or it rebalances
            assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
            time.sleep(0.5)


def wait_for(path: Path, expected: list[str], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    found: list[str] = []
    while len(found) < len(expected):
        found = path.read_text().splitlines() if path.exists() else []
        assert time.monotonic() < until, (found, log.read_text(errors="replace")[-3000:])
        time.sleep(0.1)
    assert found == expected


@pytest.mark.parametrize("kind", ["Standalone", "Distributed"])
def test_lines_go_through_a_topic_once_over_a_restart(
    served: KstoreNode, tmp_path: Path, kind: str
) -> None:
    source, log = tmp_path / "in.txt", tmp_path / "worker.log"
    lines = [f"line {n}" for n in range(100)]
    source.write_text("".join(f"{line}\n" for line in lines))
    with worker(served, tmp_path, kind):
        wait_for(tmp_path / "out.txt", lines, log)
    more = [f"later {n}" for n in range(50)]
    with source.open("a") as file:
        file.write("".join(f"{line}\n" for line in more))
    with worker(served, tmp_path, kind):
        wait_for(tmp_path / "out.txt", lines + more, log)
    assert (tmp_path / "out.txt").read_text().splitlines() == lines + more
