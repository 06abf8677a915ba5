"""franz-go's tests of kgo and kadm; its modules on the Go proxy hold them."""

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from strangers.suite import (
    CACHE,
    FAILED,
    OPEN_AUTHORIZER,
    PASSED,
    SKIPPED,
    SUPER_USER,
    NotRun,
    Results,
    Suite,
    Target,
    build,
    run_command,
)

KGO = "github.com/twmb/franz-go@v1.22.3"
KADM = "github.com/twmb/franz-go/pkg/kadm@v1.20.0"
_MODULES = {"kgo": (KGO, "pkg/kgo"), "kadm": (KADM, "")}  # and the folder of the package in each
_LINE = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.M)
_STATES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
SETTINGS = {
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


def go_paths() -> dict[str, str]:
    """The environment of Go's commands, so that what they fetch and build is kept in the cache."""
    paths = {"GOPATH": os.fspath(CACHE / "go"), "GOCACHE": os.fspath(CACHE / "go-build")}
    return paths | {"GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True)
class FranzGo(Suite):
    """One of its packages; a test's subtests are tests of their own here."""

    records: int = 50_000  # upstream: 500,000

    @property
    def expected(self) -> str:
        return "franz-go"

    @property
    def package(self) -> str:
        return self.name.split()[1]

    def prepare(self, source: Path | None) -> None:
        binary = self._binary()
        if binary.exists():
            return
        if shutil.which("go") is None:
            raise NotRun("Go is missing: install it (1.26 or newer)")
        module, folder = _MODULES[self.package]
        paths = go_paths()
        build(["go", "mod", "download", module], CACHE / "go", environment=paths)
        within = CACHE / "go/pkg/mod" / module / folder
        part = binary.with_suffix(".part")
        build(["go", "test", "-c", "-o", part, "."], within, environment=paths, limit=1500)
        part.rename(binary)

    def _binary(self) -> Path:
        module, _ = _MODULES[self.package]
        return CACHE / f"{self.package}-{module.rpartition('@')[2]}.test"

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        module, folder = _MODULES[self.package]
        environment = {
            "KGO_SEEDS": target.address,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(self.records),
            "KGO_TEST_STABLE_FETCH": "true",
        }
        words = [os.fspath(self._binary()), "-test.v", "-test.timeout=570s"]
        if only:
            tops = sorted({name.partition("/")[0] for name in only})
            words.append(f"-test.run=^({'|'.join(tops)})$")
        before = target.log.stat().st_size if target.log.exists() else 0
        folder_of_tests = CACHE / "go/pkg/mod" / module / folder
        run_command(words, target.log, limit=600, folder=folder_of_tests, environment=environment)
        with target.log.open("rb") as log:
            log.seek(before)
            return read_output(log.read().decode(errors="replace"))


def read_output(text: str) -> Results:
    """What became of each test and subtest; one that began and never ended has failed.

    Raises NotRun if no test began.
    """
    found = dict.fromkeys(re.findall(r"^=== RUN\s+(\S+)", text, re.M), FAILED)
    if not found:
        raise NotRun("no test began")
    return found | {name: _STATES[state] for state, name in _LINE.findall(text)}


_KAFKA = {
    **OPEN_AUTHORIZER,
    **SUPER_USER,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
SUITES = (
    FranzGo("franz-go kadm", SETTINGS, _KAFKA),
    FranzGo("franz-go kgo", SETTINGS, _KAFKA),
)
