"""aiokafka's tests, from its source tree, at four listeners: plain, TLS and twice SASL.

The suite asks Docker's SDK for a broker on ports of its choice, and runs Kafka's tools in its
container. A module of the same name stands in: the broker runs already, and the tools run here.
"""

import os
import shutil
import tempfile
from collections.abc import Collection
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
    environment_of,
    run_command,
)

VERSION = "0.14.0"
_PACKAGES = (
    f"aiokafka=={VERSION}",
    "pytest==9.0.2",
    "pytest-asyncio==1.3.0",
    "pytest-mock==3.15.1",
    "pytest-timeout==2.4.0",
    "async-timeout==5.0.1",
    "cramjam==2.11.0",
)
_HOME = CACHE / "aiokafka"
_CERTIFICATES = _HOME / "tests" / "ssl_cert"
_LISTENERS = {"SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
_PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" '
    'password="admin" user_admin="admin" user_test="test" user_test2="test2";'
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS = {
    **OPEN_AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
    "kstore.sasl.plain.without.tls": "true",  # as in Kafka
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": f"{_CERTIFICATES}/server.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": f"{_CERTIFICATES}/ca.crt",
    "listener.name.ssl.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    **{
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism, module in (
            ("plain", _PLAIN), ("scram-sha-256", _SCRAM), ("scram-sha-512", _SCRAM),
        )
    },
}  # fmt: skip
# The ports that its fixture takes in turn.
_CONFTEST = """

@pytest.fixture(scope="session")
def unused_port():
    ports = iter(map(int, os.environ["BROKER_PORTS"].split(",")))
    return lambda: next(ports)
"""
# Its tools speak to ZooKeeper, and set two SCRAM mechanisms at once, which brokers without it
# refuse.
_DOCKER = '''
"""Docker's SDK, as far as the tests use it: a container is a broker that runs already."""
import os, shlex, subprocess, types


class Container:
    def exec_run(self, command, **_):
        words = command if isinstance(command, list) else shlex.split(command)
        for n, word in enumerate(words):
            if "],SCRAM-" in word:
                first, second = word.split("],SCRAM-")
                status, output = self.exec_run([*words[:n], first + "]", *words[n + 1:]])
                if status:
                    return status, output
                return self.exec_run([*words[:n], "SCRAM-" + second, *words[n + 1:]])
        for old in ("--authorizer-properties", "--zookeeper"):
            if old in words:
                at = words.index(old)
                words[at : at + 2] = ["--bootstrap-server", os.environ["BROKER"]]
        tool = os.path.join(os.environ["BROKER_TOOLS"], os.path.basename(words[0]))
        done = subprocess.run([tool, *words[1:]], capture_output=True, timeout=100)
        return done.returncode, done.stdout + done.stderr

    def stop(self):
        pass


class Client:
    containers = types.SimpleNamespace(run=lambda *_, **__: Container())

    def close(self):
        pass


from_env = Client
models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=Container))
'''


# A consumer at the end of a topic, which gets nothing if it looks up the end too late. It waits in
# a thread, where no time limit of pytest's ends it.
_ENDLESS = "loop.run_until_complete(consumer.getone())"
_LIMITED = "loop.run_until_complete(asyncio.wait_for(consumer.getone(), 60))"


@dataclass(frozen=True)
class Aiokafka(Suite):
    """All tests, also those without a broker; they assume Kafka 2.8.1."""

    def prepare(self, source: Path | None) -> None:
        assert source is not None
        if not (source / "tests/test_sasl.py").exists():
            raise NotRun(f"{source} is not aiokafka's source tree")
        require_kafka()  # ACLs and users are set by Kafka's tools
        environment_of("aiokafka", _PACKAGES)
        if _HOME.exists():
            return
        part = _HOME.with_name("aiokafka.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(source / "tests", part / "tests")  # without the package: the installed one
        shutil.copytree(source / "docker/scripts", part / "docker/scripts")
        shutil.copy(source / "pyproject.toml", part)
        with (part / "tests/conftest.py").open("a") as conftest:
            conftest.write(_CONFTEST)
        consumer = part / "tests/test_consumer.py"
        consumer.write_text(consumer.read_text().replace(_ENDLESS, _LIMITED))
        # No Kerberos: the package and the tool are named, and its tests fail.
        (part / "gssapi").mkdir()
        (part / "bin").mkdir()
        ktutil = part / "bin" / "ktutil"
        ktutil.write_text("#!/bin/sh\nexit 0\n")
        ktutil.chmod(0o755)
        (part / "sdk/docker").mkdir(parents=True)
        (part / "sdk/docker/__init__.py").write_text(_DOCKER)
        (part / "docker").rename(part / "docker.files")  # else it hides the module of this name
        certificates = part / "tests" / "ssl_cert"
        build(["bash", (source / "gen-ssl-certs.sh").resolve()], certificates)
        key, certificate = certificates / "server.key", certificates / "server.crt"
        (certificates / "server.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
        part.rename(_HOME)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            report = folder / "report.xml"
            words = [os.fspath(CACHE / "env-aiokafka/bin/python"), "-m", "pytest", "-q", "-rfE"]
            words += ["--docker-image", "any:2.13_2.8.1", "--no-pull", "--timeout", "120"]
            words += ["--timeout-method", "signal", "-p", "no:cacheprovider"]
            words += [f"--junit-xml={report}", "tests"]
            if only:
                words += ["-k", " or ".join(name.partition("::")[2] for name in only)]
            ports = [target.address.rpartition(":")[2], *map(str, target.ports.values())]
            tools = write_scripts(TOOLS_VERSION, folder)
            environment = {
                "BROKER": target.address,
                "BROKER_PORTS": ",".join(ports),
                "BROKER_TOOLS": os.fspath(tools / "bin"),
                "PATH": f"{_HOME / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": os.fspath(_HOME / "sdk"),
            }
            run_command(words, target.log, limit=1500, folder=_HOME, environment=environment)
            return read_results(report, last_parts=2)


SUITES = (Aiokafka("aiokafka", SETTINGS, needs_source=True, listeners=_LISTENERS),)
