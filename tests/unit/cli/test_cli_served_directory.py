"""Tools that are pointed at a directory which a broker serves: they say which server to ask."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.cli.explain_lock import explain_served
from kstore.errors import StoreLockedError
from kstore.partition_files import BrokerAddress, LockHolder
from support.serve_process import WAIT, serving


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("orders")
    return path


@pytest.fixture
def served(data: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """``kstore serve --port 0``, and its address."""
    with serving("--log-dir", data) as started:
        yield started


def test_a_tool_names_the_server_until_it_is_killed(
    data: Path, served: tuple["subprocess.Popen[bytes]", str], capfd: Any
) -> None:
    process, address = served
    words = ["topics", "--create", "--topic", "paid"]
    assert main([*words, "--log-dir", str(data)]) == 1
    said = "".join(capfd.readouterr())
    assert f"process {process.pid} (" in said
    assert f"serves {data} on {address}: use --bootstrap-server {address} instead of" in said
    assert f"'kill {process.pid}'" in said
    assert main([*words, "--bootstrap-server", address]) == 0
    capfd.readouterr()

    assert main(["compact", "--log-dir", str(data)]) == 1
    said = "".join(capfd.readouterr())
    assert f"serves {data} on {address}: stop it with 'kill {process.pid}'" in said
    assert "--bootstrap-server" not in said

    with pytest.raises(StoreLockedError, match=f"a broker serves this directory at {address}"):
        kstore.open(data)

    process.kill()
    process.wait(WAIT)
    assert (data / "kstore.listeners").exists()
    with kstore.open(data):
        assert main(["topics", "--delete", "--topic", "orders", "--log-dir", str(data)]) == 1
        said = "".join(capfd.readouterr())
        assert f"this process has {data} open for writing" in said
        assert address not in said


def test_a_broker_of_a_program_is_named_by_its_plaintext_listener(data: Path, capfd: Any) -> None:
    listeners = {
        "listeners": "OUT://127.0.0.1:0,IN://127.0.0.1:0",
        "listener.security.protocol.map": "OUT:SASL_PLAINTEXT,IN:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    with kstore.open(data) as store, kstore.Broker(store, settings=listeners) as broker:
        address = broker.listeners["IN"]
        assert address != broker.listeners["OUT"]
        assert main(["topics", "--delete", "--topic", "orders", "--log-dir", str(data)]) == 1
        said = "".join(capfd.readouterr())
        assert f"this process serves {data} on {address}: use --bootstrap-server {address}" in said
        broker.close()
        assert not (data / "kstore.listeners").exists()


def test_a_listener_with_security_needs_settings() -> None:
    served = [BrokerAddress("OUT", "SASL_SSL", "h:9094")]
    text = explain_served("/data/.lock", None, served, takes_server=True)
    assert text.startswith("another process serves /data on h:9094: use --bootstrap-server h:9094")
    assert "the client's settings for SASL_SSL" in text
    text = explain_served("/data/.lock", LockHolder(7, ""), served, takes_server=True)
    assert text.startswith("process 7 serves /data on h:9094")
