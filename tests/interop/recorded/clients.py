"""Runs clients of many ages, each for itself, through the proxy."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from interop.ancient_clients import AncientClients
from interop.kafka_jars import compiled, java_command
from kstore.protocol.api_keys import ApiKey

PATIENCE = 120.0
NEWEST = "3.9.2"
Ceiling = Mapping[ApiKey, int]


class Endpoint(NamedTuple):
    """Where a client works: the proxy, its broker's directory, and one for files."""

    address: str
    log_dir: Path
    scratch: Path

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def said(self) -> str:
        """The broker's log, for the errors of `AncientClients`: it is not at hand here."""
        return ""


class Client(NamedTuple):
    """A client to record; ``topics`` are created before, unless it creates them itself."""

    name: str
    run: Callable[[Endpoint], None]
    topics: tuple[str, ...] = ()
    ceiling: Ceiling = MappingProxyType({})


def java(version: str, program: str, *words: object) -> str:
    """The output of one of our Java programs, which has to end well."""
    command = java_command(version, program, *words, classes=compiled(version, program))
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{version} {program}: {done.stdout} {done.stderr[-3000:]}"
    return done.stdout


def one_client(version: str, name: str, *settings: str, ceiling: Ceiling | None = None) -> Client:
    """java/OneClient.java, whose topic and group are named after it."""
    topic = name.replace(" ", "-")

    def run(endpoint: Endpoint) -> None:
        said = java(version, "OneClient", endpoint.address, topic, f"group-{topic}", *settings)
        assert said.count("record ") >= 8, said

    return Client(name, run, (topic,), ceiling or {})


def one_admin(version: str, name: str, ceiling: Ceiling | None = None) -> Client:
    """java/OneAdmin.java, which makes its own topics."""

    def run(endpoint: Endpoint) -> None:
        log_dir = "-" if "0.11" in version else endpoint.log_dir
        prefix = name.replace(" ", "-")
        said = java(version, "OneAdmin", endpoint.address, prefix, log_dir)
        print(said)
        assert "create: ok" in said, said

    return Client(name, run, (), ceiling or {})


def ancient(name: str, topic: str) -> Client:
    """The producers and the SimpleConsumer of 0.8.2."""

    def run(endpoint: Endpoint) -> None:
        clients = AncientClients(endpoint, endpoint.scratch)
        try:
            for kind, codec in (
                ("old", "none"), ("old", "gzip"), ("new", "none"), ("new", "snappy"),
            ):  # fmt: skip
                clients.send(kind, topic, codec, [(b"k", b"v1"), (None, b"v2"), (b"k", None)])
            found = clients.look([topic])
            assert [len(each.records) for each in found.values()] == [12]
            print(clients.commit(f"group-{topic}", topic, 5))
        finally:
            clients.close()

    return Client(name, run, (topic,))


def _abort(endpoint: Endpoint) -> None:
    print(java(NEWEST, "AbortHanging", endpoint.address, "hanging"))


def _python(which: str, version: str) -> Client:
    """A client of Python that speaks as to a broker of that version."""
    topic = f"{which}-{version}"

    def run(endpoint: Endpoint) -> None:
        words = [sys.executable, "-m", "interop.recorded.python_client"]
        words += [which, version, endpoint.address, topic]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr[-3000:]

    return Client(f"{which} as {version}", run, (topic,))


def _ceiling(**versions: int) -> Ceiling:
    return {ApiKey[name.upper()]: version for name, version in versions.items()}


def clients_of_kraft() -> Iterator[Client]:
    """Those recorded at Kafka 3.9.2, in their order."""
    yield ancient("0.8.2.2", "0.8.2.2")
    yield one_client("clients-0.9.0.1", "0.9.0.1", "p.compression.type=gzip")
    yield one_client("clients-0.10.0.1", "0.10.0.1", "p.compression.type=snappy")
    yield one_client("clients-0.10.2.2", "0.10.2.2", "p.acks=1")
    yield one_client("clients-0.10.2.2", "0.10.2.2 lz4", "p.compression.type=lz4")
    once = ("p.transactional.id=of-{}", "c.isolation.level=read_committed")
    for version, codec in (("0.11.0.3", "none"), ("1.1.1", "gzip"), ("2.0.1", "lz4")):
        settings = (once[0].format(version), once[1], f"p.compression.type={codec}")
        yield one_client(f"clients-{version}", version, *settings)
        yield one_admin(f"clients-{version}", f"{version} admin")
    newest = ("p.enable.idempotence=true", "p.compression.type=zstd")
    yield one_client("2.8.2", "2.8.2", *newest)
    for number, versions in enumerate((
        _ceiling(produce=2, fetch=0, list_offsets=0, offset_commit=0, offset_fetch=1),
        _ceiling(produce=2, fetch=1, list_offsets=0, offset_commit=1, offset_fetch=1),
        _ceiling(produce=2, fetch=2, list_offsets=1, offset_commit=2, offset_fetch=2),
        _ceiling(produce=3, fetch=3, list_offsets=2, offset_commit=3, offset_fetch=3),
    )):  # fmt: skip
        name = f"{NEWEST} under {number}"
        yield one_client(NEWEST, name, "p.enable.idempotence=false", ceiling=versions)
    acls = {"create_acls": 0, "describe_acls": 0, "delete_acls": 0, "describe_configs": 0}
    dirs = {"alter_replica_log_dirs": 0, "describe_log_dirs": 0}
    for number in (0, 1):
        both = {"create_topics": number, "delete_topics": number}
        ceiling = _ceiling(**both, **acls, **dirs)
        yield one_admin(NEWEST, f"{NEWEST} admin under {number}", ceiling)
    yield Client(f"{NEWEST} markers", _abort, ("hanging",), _ceiling(write_txn_markers=0))
    for version in ("0.8.2", "0.9.0.1", "0.10.0.1"):
        yield _python("kafka-python", version)
        if version != "0.10.0.1":  # from which on librdkafka asks the broker what it has
            yield _python("librdkafka", version)
