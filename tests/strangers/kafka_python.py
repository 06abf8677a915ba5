"""kafka-python's integration tests, from its source archive on PyPI."""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from strangers.junit import read_results
from strangers.suite import (
    CACHE,
    OPEN_AUTHORIZER,
    SUPER_USER,
    Results,
    Suite,
    Target,
    build,
    environment_of,
    run_command,
)

_PACKAGES = (
    "pytest==9.0.2",
    "pytest-timeout==2.4.0",
    "pytest-mock==3.15.1",
    "py==1.11.0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
    "crc32c==2.7.1",
)
# The archive leaves these two files out. Of the second, an external broker needs only this.
_SERVICE = """\
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass

    def dump_logs(self):
        pass


class SpawnedService:
    pass
"""
SETTINGS = {
    **OPEN_AUTHORIZER,
    **SUPER_USER,
    "auto.create.topics.enable": "true",
    "num.partitions": "4",  # as its own fixture sets it
    "group.min.session.timeout.ms": "1000",  # test_group has sessions of 3 s
    "group.initial.rebalance.delay.ms": "0",
}
_ASSUMED = {"kstore": "4.1.0", "3.9.2": "3.9.0"}  # what its own client takes kstore for


@dataclass(frozen=True)
class KafkaPython(Suite):
    """``as_version`` is the version that the tests assume instead of the broker's own."""

    release: str = "3.0.12"  # of kafka-python
    as_version: str = ""
    backend: str = ""  # KAFKA_PYTHON_NET

    @property
    def _archive(self) -> str:
        return f"kafka_python-{self.release}"

    @property
    def _environment(self) -> str:
        return f"kafka-python-{self.release}"

    def prepare(self, source: Path | None) -> None:
        release = f"kafka-python=={self.release}"
        python = environment_of(self._environment, (release, *_PACKAGES))
        archive = CACHE / f"{self._archive}.tar.gz"
        if not archive.exists():
            pip = [python, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
            # The build tools are not needed to unpack it, but pip asks the archive its name.
            pip += ["--no-binary", ":all:", "--no-deps", release]
            build(pip, CACHE)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        with tempfile.TemporaryDirectory() as scratch:
            tests = self._unpack(Path(scratch))
            report = Path(scratch) / "report.xml"
            words = [CACHE / f"env-{self._environment}/bin/python", "-m", "pytest", "-q", "-rfE"]
            words += ["--timeout", "60", "--timeout-method", "signal", "-p", "no:cacheprovider"]
            words += [f"--junit-xml={report}", *self._chosen(only)]
            environment = {
                "KAFKA_URI": f"kafka://{target.address}",
                "KAFKA_VERSION": self.as_version or _ASSUMED.get(target.name, target.name),
                "KAFKA_ROOT": scratch,  # the fixture only asks whether it exists
            }
            if self.backend:
                environment["KAFKA_PYTHON_NET"] = self.backend
            run_command(words, target.log, limit=600, folder=tests, environment=environment)
            return read_results(report)

    def _chosen(self, only: Collection[str]) -> list[str]:
        if only:
            return [f"test/integration/{name.replace('::', '.py::', 1)}" for name in only]
        # Its TLS test starts a broker of its own.
        return ["test/integration", "--ignore", "test/integration/test_ssl_integration.py"]

    def _unpack(self, scratch: Path) -> Path:
        with tarfile.open(CACHE / f"{self._archive}.tar.gz") as archive:
            archive.extractall(scratch / "archive", filter="data")
        tests = scratch / "tests"
        tests.mkdir()
        unpacked = scratch / "archive" / self._archive
        shutil.move(os.fspath(unpacked / "test"), os.fspath(tests / "test"))
        (tests / "test/__init__.py").touch()
        (tests / "test/service.py").write_text(_SERVICE)
        return tests


SUITES = (
    KafkaPython("kafka-python base", SETTINGS),
    KafkaPython("kafka-python asyncio", SETTINGS, backend="asyncio"),
    KafkaPython("kafka-python as 2.4", SETTINGS, as_version="2.4.0"),
    KafkaPython("kafka-python as 1.0", SETTINGS, as_version="1.0.0"),
    KafkaPython("kafka-python as 0.11", SETTINGS, as_version="0.11.0"),
    KafkaPython("kafka-python 2.3", SETTINGS, release="2.3.3"),
)
