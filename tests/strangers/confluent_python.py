"""confluent-kafka-python's integration tests, from its source tree (its archive has none)."""

import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from interop.kafka_jars import java_command
from strangers.junit import read_results
from strangers.kafka_scripts import TOOLS_VERSION, require_kafka
from strangers.suite import (
    CACHE,
    OPEN_AUTHORIZER,
    SUPER_USER,
    NotRun,
    Results,
    Suite,
    Target,
    build,
    environment_of,
    run_command,
)

VERSION = "2.15.0"
_PACKAGES = (
    f"confluent-kafka[schemaregistry,avro,json,protobuf]=={VERSION}",
    "pytest==8.4.2",
    "pytest-timeout==2.4.0",
    "pluggy<1.6.0",
    "pytest-asyncio==1.2.0",
    "async-timeout==5.0.1",
    "requests-mock==1.12.1",
    "respx==0.22.0",
)
_FOLDERS = ("consumer", "producer", "admin")
SETTINGS = {
    **OPEN_AUTHORIZER,
    **SUPER_USER,
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}


# What the controller of Kafka 4.1 and later writes into a new cluster with eligible leader replicas
# (KIP-966). A test expects it among the settings of each topic; the brokers of these runs get it
# from an administrator.
_CLUSTER_DEFAULT = "min.insync.replicas=1"


@dataclass(frozen=True)
class ConfluentPython(Suite):
    """``protocol`` "consumer": its consumers use groups of KIP-848."""

    protocol: str = ""

    def prepare(self, source: Path | None) -> None:
        assert source is not None
        require_kafka()  # its tool sets the cluster's default
        archives = sorted((source / "tests/trivup").glob("trivup-*.tar.gz"))
        if not archives:
            raise NotRun(f"{source} is not confluent-kafka-python's source tree")
        python = environment_of("confluent-python", _PACKAGES)
        kept = CACHE / "confluent-python"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(source / "tests", kept / "tests")  # without src/: the installed package
        (kept / "pytest.ini").write_text("[pytest]\n")  # else pytest reads kstore's settings
        if not list((CACHE / "env-confluent-python").rglob("trivup")):
            build([python, "-m", "pip", "install", "--quiet", archives[-1]], CACHE)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        words = ["--bootstrap-server", target.address, "--entity-type", "brokers"]
        words += ["--entity-default", "--alter", "--add-config", _CLUSTER_DEFAULT]
        command = java_command(TOOLS_VERSION, "kafka.admin.ConfigCommand", *words)
        if run_command(command, target.log, limit=60) != 0:
            raise NotRun(f"the cluster's default, {_CLUSTER_DEFAULT}, could not be set")
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            words = [os.fspath(CACHE / "env-confluent-python/bin/python"), "-m", "pytest", "-q"]
            words += ["-rfE", "--timeout", "90", "--timeout-method", "signal"]
            words += ["-p", "no:cacheprovider", f"--junit-xml={report}"]
            within = "tests/integration"
            words += [f"{within}/{folder}" for folder in _FOLDERS]
            # It insists on fetching and starting a cluster with SASL of its own.
            words += ["--deselect", f"{within}/admin/test_describe_operations.py"]
            if only:
                words += ["-k", " or ".join(name.partition("::")[2] for name in only)]
            environment = {"BROKERS": target.address, "BROKERS_VERSION": _version(target)}
            if self.protocol:
                environment["TEST_CONSUMER_GROUP_PROTOCOL"] = self.protocol
            folder = CACHE / "confluent-python"
            run_command(words, target.log, limit=900, folder=folder, environment=environment)
            return read_results(report)


def _version(target: Target) -> str:
    return target.name if target.is_kafka else "3.9.2"


SUITES = (
    ConfluentPython("confluent-kafka-python", SETTINGS, needs_source=True),
    ConfluentPython(
        "confluent-kafka-python KIP-848",
        SETTINGS,
        needs_source=True,
        protocol="consumer",
        not_at=("3.9.2",),  # a preview there
    ),
)
