"""kafka-scripts: scripts with Kafka's names that run kstore's tools."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import kstore
from kstore.cli import TOOLS, main
from kstore.cli.kafka_scripts import SCRIPTS, SERVER_STOP
from kstore.partition_files import lock_holders

SOURCES = Path(kstore.__file__).parents[1]


def test_each_script_runs_a_tool() -> None:
    assert {words.split()[0] for words in SCRIPTS.values()} <= TOOLS.keys()


Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "it's here"
    assert main(["kafka-scripts", str(path)]) == 0
    return path


@pytest.fixture
def run(folder: Path) -> Script:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}

    def run(name: str, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(folder / name), *map(str, words)],
            capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip

    return run


def test_scripts_run(tmp_path: Path, folder: Path, run: Script) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}.sh" for name in (*SCRIPTS, SERVER_STOP)
    )
    data = tmp_path / "data"
    created = run("kafka-topics.sh", "--create", "--topic", "a b".replace(" ", "-"), "--path", data)
    assert (created.returncode, created.stdout) == (0, "Created topic a-b.\n")
    assert run("kafka-topics.sh", "--list", "--path", data).stdout == "a-b\n"
    assert run("kafka-topics.sh", "--nope").returncode == 1


def test_the_server_s_script_takes_a_file_or_options(tmp_path: Path, run: Script) -> None:
    name = "kafka-server-start.sh"
    version = run(name, "--version")
    assert (version.returncode, version.stdout) == (0, f"kstore {kstore.__version__}\n")
    assert run(name, "--help").stdout.startswith("usage: kstore serve")
    no_file = run(name, tmp_path / "none.properties", "--override", "num.partitions=2")
    assert no_file.returncode == 1
    assert "there is no file" in no_file.stderr
    nothing = run(name)
    assert nothing.returncode == 1
    assert nothing.stdout.endswith(
        f"{name} [-daemon] server.properties [--override property=value]*\n"
    )
    assert run(name, "-daemon").stdout == nothing.stdout


def test_what_kstore_did_not_write_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka-scripts", str(tmp_path)]) == 0
    assert main(["kafka-scripts", str(tmp_path)]) == 0  # its own are replaced
    script = tmp_path / "kafka-topics.sh"
    script.write_text("#!/bin/bash\nexec kafka-run-class.sh\n")
    (tmp_path / "kafka-configs.sh").unlink()
    assert main(["kafka-scripts", str(tmp_path)]) == 1
    assert f"{script} was not written by kstore" in capsys.readouterr().err
    assert not (tmp_path / "kafka-configs.sh").exists()
    assert script.read_text().endswith("kafka-run-class.sh\n")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """A KRaft broker's file, as Kafka's examples have it."""
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        f"listeners=PLAINTEXT://localhost:{free_port()},CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\noffsets.topic.num.partitions=1\n"
        f"inter.broker.listener.name=PLAINTEXT\nlog.dirs={tmp_path / 'data'}\n"
    )
    return path


@pytest.fixture
def daemon(folder: Path, run: Script, properties: Path) -> Iterator[int]:
    """The process id of a broker that the usual script of a KRaft cluster has started."""
    cluster_id = run("kafka-storage.sh", "random-uuid").stdout.strip()
    formatted = run("kafka-storage.sh", "format", "-t", cluster_id, "-c", properties)
    assert formatted.stdout.startswith("Formatting metadata directory ")
    started = run("kafka-server-start.sh", "-daemon", properties)
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    output = folder / ".." / "logs" / "kafkaServer.out"
    deadline = time.monotonic() + 60
    while "kstore serves" not in output.read_text():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.05)
    [holder] = lock_holders(str(properties.parent / "data" / ".lock"))
    yield holder.pid
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGKILL)


def ended(pid: int) -> bool:
    """Whether a process that is no child ends in time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":  # its new parent does not wait for it
            return True
        time.sleep(0.05)
    return False


def test_a_daemon_is_stopped_by_the_script_beside_its_own(
    run: Script, folder: Path, daemon: int, properties: Path, tmp_path: Path
) -> None:
    address = re.findall(r"PLAINTEXT://(localhost:\d+)", properties.read_text())[0]
    server = ("--bootstrap-server", address)
    assert run("kafka-topics.sh", "--create", "--topic", "orders", *server).returncode == 0
    found = run("kafka-cluster.sh", "cluster-id", *server).stdout.split()[-1]
    assert found == json.loads((tmp_path / "data" / "kstore.broker").read_text())["cluster_id"]
    quorum = run("kafka-metadata-quorum.sh", *server, "describe", "--status")
    assert "LeaderId:               1\n" in quorum.stdout
    assert run("kafka-groups.sh", *server, "--list").stdout.startswith("GROUP ")

    refused = run("kafka-server-stop.sh", "--node-id=1")
    assert (refused.returncode, refused.stdout) == (1, "")
    others = tmp_path / "others"  # scripts of another directory stop no server of this one
    assert main(["kafka-scripts", str(others)]) == 0
    stop = subprocess.run([others / "kafka-server-stop.sh"], capture_output=True, text=True)
    assert (stop.returncode, stop.stdout, stop.stderr) == (1, "No kafka server to stop\n", "")
    assert Path(f"/proc/{daemon}").exists()

    stopped = run("kafka-server-stop.sh")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert ended(daemon)
    with kstore.open(tmp_path / "data") as store:
        assert not store.recovery.unclean
        assert "orders" in store
    again = run("kafka-server-stop.sh")
    assert (again.returncode, again.stdout, again.stderr) == (1, "No kafka server to stop\n", "")
