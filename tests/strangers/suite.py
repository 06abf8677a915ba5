"""What a suite is: how its tests are made ready, and how they run against an address."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "strangers"  # what was fetched and built, once

# An authorizer that allows what no ACL forbids; super users are never denied.
OPEN_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
SUPER_USER = {"super.users": "User:ANONYMOUS"}

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Results = dict[str, str]  # of each test by its name: PASSED, FAILED or SKIPPED


class NotRun(Exception):
    """A suite cannot run here; the text says what is missing."""


@dataclass(frozen=True)
class Target:
    """A running broker."""

    name: str  # "kstore", or Kafka's version
    address: str  # host:port
    log: Path  # where the suite's output goes
    ports: Mapping[str, int] = field(default_factory=dict)  # of the suite's own listeners, by name

    @property
    def is_kafka(self) -> bool:
        return self.name != "kstore"


@dataclass(frozen=True)
class Suite:
    """A suite, or a variant of it (another event loop, an older version that it assumes).

    ``settings`` are the broker's, by Kafka's names; ``kafka_settings`` are further ones that only
    Kafka has or needs. ``listeners`` are those beside the plain one that Target has: their names
    and protocols; all are advertised as ``host``. ``not_at`` names brokers without what it tests.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka_settings: Mapping[str, str] = field(default_factory=dict)
    needs_source: bool = False  # a source tree that no registry has: --source NAME=PATH
    listeners: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    not_at: Collection[str] = ()

    @property
    def expected(self) -> str:
        """The name of its file of expected failures; variants share one."""
        return self.name.partition(" ")[0]

    def prepare(self, source: Path | None) -> None:
        """Fetch and build what is missing. Raises NotRun."""
        raise NotRun(f"{self.name} has no sources")

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        """Run all tests, or only those named, and return what became of each.

        Raises NotRun if the suite ended without results.
        """
        raise NotRun(f"{self.name} has no tests")


def run_command(
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    *,
    limit: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """The exit status of a command whose output is appended to a file; None: the limit, in
    seconds, was reached, and the command and all that it had started were killed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env.update(environment or {})
    with log.open("ab") as output:
        process = subprocess.Popen(
            [os.fspath(word) for word in command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            output.write(f"\nended after {limit:.0f} s\n".encode())
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):  # also what it left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def build(
    command: Sequence[str | os.PathLike[str]],
    folder: Path,
    *,
    limit: float = 600,
    environment: Mapping[str, str] | None = None,
) -> None:
    """A step of a suite's preparation. Raises NotRun with the end of its output."""
    folder.mkdir(parents=True, exist_ok=True)
    log = CACHE / "build.log"
    log.unlink(missing_ok=True)
    status = run_command(command, log, limit=limit, folder=folder, environment=environment)
    if status != 0:
        words = " ".join(map(str, command))
        raise NotRun(f"{words} ended with {status}:\n{log.read_text(errors='replace')[-2000:]}")


def environment_of(name: str, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment with these packages, made once. Raises NotRun."""
    import sys

    folder = CACHE / f"env-{name}"
    ready = folder / "packages"
    if not ready.exists() or ready.read_text() != "\n".join(packages):
        ready.unlink(missing_ok=True)
        build([sys.executable, "-m", "venv", "--clear", folder], CACHE)
        pip = [folder / "bin/python", "-m", "pip", "--disable-pip-version-check"]
        build([*pip, "install", "--quiet", "--retries", "10", *packages], CACHE)
        ready.write_text("\n".join(packages))
    return folder / "bin" / "python"
