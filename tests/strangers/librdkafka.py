"""librdkafka's test programs, built in a copy of its source tree."""

import json
import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from strangers.kafka_scripts import require_kafka, write_scripts
from strangers.suite import (
    CACHE,
    FAILED,
    OPEN_AUTHORIZER,
    PASSED,
    SKIPPED,
    NotRun,
    Results,
    Suite,
    Target,
    build,
    run_command,
)

VERSION = "v2.15.0"
_HOME = CACHE / "librdkafka"
# What the runner says of a test: DNS is one that was not started, RUNNING one that did not end.
_STATES = {
    "PASSED": PASSED,
    "FAILED": FAILED,
    "RUNNING": FAILED,
    "SKIPPED": SKIPPED,
    "DNS": SKIPPED,
}
# The test of an admin client expects settings of groups, and permissions for them, by the version
# of Kafka that it assumes. kstore has them as Kafka 4.
_AS_KAFKA_4 = "0081"
SETTINGS = {
    **OPEN_AUTHORIZER,  # no super user: two tests need denials that bite
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class Librdkafka(Suite):
    """Quick tests, without those that need no broker and those that bend sockets."""

    def prepare(self, source: Path | None) -> None:
        assert source is not None
        if not (source / "tests/test.c").exists():
            raise NotRun(f"{source} is not librdkafka's source tree")
        require_kafka()  # some tests call Kafka's tools
        if (_HOME / "tests/test-runner").exists():
            return
        shutil.rmtree(_HOME, ignore_errors=True)
        shutil.copytree(source, _HOME, ignore=shutil.ignore_patterns(".git"))
        without = ("ssl", "gssapi", "curl", "zstd")
        build(["./configure", *(f"--disable-{name}" for name in without)], _HOME)
        build(["make", "-j2", "libs"], _HOME, limit=1800)
        build(["make", "-j2", "-C", "tests", "build"], _HOME, limit=1800)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        if target.is_kafka:
            return _run(target, target.name, only)
        newer = [name for name in only if name.startswith(_AS_KAFKA_4)]
        older = [name for name in only if name not in newer]
        results: Results = {}
        if older or not only:
            results = _run(target, "3.9.2", older, without=_AS_KAFKA_4)
        if newer or not only:
            found = _run(target, "4.0.0", [_AS_KAFKA_4])
            results |= {name: each for name, each in found.items() if name.startswith(_AS_KAFKA_4)}
        return results


def _run(target: Target, version: str, only: Collection[str], without: str = "") -> Results:
    """Run all tests, or some, that assume a version of Kafka."""
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:  # the runner cuts long paths
        folder = Path(scratch)
        conf, report = folder / "test.conf", folder / "report"
        conf.write_text(f"metadata.broker.list={target.address}\ntest.topic.random=true\n")
        tools = target.name if target.is_kafka else "3.9.2"
        environment = {
            "RDKAFKA_TEST_CONF": os.fspath(conf),
            "BROKERS": target.address,
            "TEST_KAFKA_VERSION": f"{version}.0",
            "LD_LIBRARY_PATH": f"{_HOME / 'src'}:{_HOME / 'src-cpp'}",
            "RDKAFKA_GITVER": VERSION,
            "KAFKA_PATH": os.fspath(write_scripts(tools, folder)),
            "TEST_REPORT": os.fspath(report),
        }
        if only:
            environment["TESTS"] = ",".join(sorted({name[:4] for name in only}))
        if without:
            environment["TESTS_SKIP"] = without
        words = ["./test-runner", "-Q", "-L", "-E", "-p4"]
        within = _HOME / "tests"
        run_command(words, target.log, limit=900, folder=within, environment=environment)
        return read_report(report)


def read_report(path: Path) -> Results:
    """What became of each test. Raises NotRun if the runner left no report."""
    if not path.exists():
        raise NotRun("the runner ended without a report")
    tests = json.loads(path.read_text(errors="replace"))["tests"]
    return {name: _STATES[test["state"]] for name, test in tests.items() if name != "<MAIN>"}


_KAFKA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
SUITES = (Librdkafka("librdkafka", SETTINGS, _KAFKA, needs_source=True),)
