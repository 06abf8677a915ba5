"""KafkaJS's tests of broker, admin, producer and consumer, from its source tree.

They have three brokers with three fixed ports each: plain, TLS and SASL over TLS. Here one broker
listens on nine free ports, which are written into a copy of the tests.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from strangers.junit import read_results
from strangers.kafka_scripts import TOOLS_VERSION, require_kafka, write_scripts
from strangers.suite import (
    CACHE,
    OPEN_AUTHORIZER,
    NotRun,
    Results,
    Suite,
    Target,
    build,
    run_command,
)

VERSION = "2.2.4"
_MODULES = (
    "jest@25", "jest-circus@25", "jest-extended@0.11.2", "jest-junit@10", "execa@2", "uuid@3",
    "semver@6", "jsonwebtoken@9", "mockdate@2", "glob@7", "ip@1",
)  # fmt: skip
_HOME = CACHE / "kafkajs"
_FOLDERS = ("producer", "admin", "consumer", "broker")
_PORTS = range(9092, 9101)
_PORT = re.compile(r"\b(?:909[2-9]|9100)\b")
# In the order of the ports; the first plain one is Target's address.
_LISTENERS = {
    "TLS0": "SSL", "SASL0": "SASL_SSL",
    "PLAIN1": "PLAINTEXT", "TLS1": "SSL", "SASL1": "SASL_SSL",
    "PLAIN2": "PLAINTEXT", "TLS2": "SSL", "SASL2": "SASL_SSL",
}  # fmt: skip
_PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="test" '
    'password="testtest" user_test="testtest" user_bob="bobbob" user_alice="alicealice";'
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS = {
    **OPEN_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:test",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": f"{_HOME}/server.pem",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    **{
        f"listener.name.sasl{n}.{mechanism}.sasl.jaas.config": module
        for n in range(3)
        for mechanism, module in (
            ("plain", _PLAIN), ("scram-sha-256", _SCRAM), ("scram-sha-512", _SCRAM),
        )
    },
}  # fmt: skip


@dataclass(frozen=True)
class KafkaJS(Suite):
    """The tests assume Kafka 2.4."""

    def prepare(self, source: Path | None) -> None:
        assert source is not None
        if not (source / "testHelpers/index.js").exists():
            raise NotRun(f"{source} is not KafkaJS's source tree")
        require_kafka()  # some tests call Kafka's tools
        if shutil.which("npm") is None:
            raise NotRun("npm is missing (Debian: apt-get install nodejs npm)")
        if _HOME.exists():
            return
        part = _HOME.with_name("kafkajs.part")
        shutil.rmtree(part, ignore_errors=True)
        for name in ("src", "testHelpers", "scripts"):
            shutil.copytree(source / name, part / "tree" / name)
        for name in ("index.js", "jest.config.js", "package.json"):
            shutil.copy(source / name, part / "tree")
        (part / "package.json").write_text('{"name": "modules", "private": true}')
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *_MODULES]
        build(words, part)
        certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"]
        certificate += ["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "certificate.pem"]
        build(certificate, part)
        pem = (part / "key.pem").read_bytes() + (part / "certificate.pem").read_bytes()
        (part / "server.pem").write_bytes(pem)
        part.rename(_HOME)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        # In the cache, since node's modules are linked.
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            tree = Path(scratch) / "tree"
            shutil.copytree(_HOME / "tree", tree)
            shutil.copytree(_HOME / "node_modules", tree / "node_modules",
                copy_function=os.link, symlinks=True,
            )  # fmt: skip
            ports = [target.address.rpartition(":")[2], *map(str, target.ports.values())]
            _write_ports(tree, dict(zip(map(str, _PORTS), ports, strict=True)))
            self._write_tools(target, tree)
            report = tree / "report.xml"
            words = ["node", "node_modules/jest/bin/jest.js", "--ci", "--forceExit"]
            words += ["--maxWorkers=2", "--no-watchman", "--testPathPattern"]
            words += [_paths(only) if only else f"src/({'|'.join(_FOLDERS)})/"]
            environment = {
                "KAFKA_VERSION": "2.4",
                "NODE_ENV": "test",
                "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
                "JEST_JUNIT_OUTPUT_FILE": os.fspath(report),
                "JEST_JUNIT_OUTPUT_DIR": os.fspath(tree),
                "JEST_JUNIT_OUTPUT_NAME": report.name,
                "JEST_JUNIT_CLASSNAME": "{filepath}",
                "JEST_JUNIT_TITLE": "{classname} {title}",
            }
            run_command(words, target.log, limit=1200, folder=tree, environment=environment)
            return read_results(report, last_parts=3)

    def _write_tools(self, target: Target, tree: Path) -> None:
        """Its script that adds partitions, and its users of SCRAM, by Kafka's tools."""
        tools = write_scripts(TOOLS_VERSION, tree) / "bin"
        at = f"--bootstrap-server {target.address}"
        script = f'{tools}/kafka-topics.sh {at} --alter --topic "$TOPIC" --partitions "$PARTITIONS"'
        (tree / "scripts/addPartitions.sh").write_text(f"#!/bin/bash -e\n{script}\n")
        for bits in (256, 512):
            password = f"SCRAM-SHA-{bits}=[iterations=8192,password=testtestscram={bits}]"
            words = [tools / "kafka-configs.sh", *at.split(), "--alter", "--add-config", password]
            build([*words, "--entity-type", "users", "--entity-name", "testscram"], tree)


def _write_ports(tree: Path, ports: dict[str, str]) -> None:
    """Replace the fixed ports in the tests and what they share."""
    tests = (path for each in _FOLDERS for path in (tree / "src" / each).rglob("*.spec.js"))
    for path in [tree / "testHelpers/index.js", *tests]:
        path.write_text(_PORT.sub(lambda found: ports[found[0]], path.read_text()))


def _paths(only: Iterable[str]) -> str:
    """The files of tests: jest chooses by path first, and the other results are not asked for."""
    return "|".join(sorted({re.escape(name.partition("::")[0]) for name in only}))


SUITES = (KafkaJS("kafkajs", SETTINGS, needs_source=True, listeners=_LISTENERS, host="localhost"),)
