"""``kstore serve`` as a child process, with kill and restart."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from kstore.errors import KStoreError
from kstore.hints.missing_names import answer_names
from kstore.remote.store import RemoteStore
from kstore.testing.guessed_names import OF_BROKER_PROCESSES
from kstore.testing.settings import settings_for_tests

_READY = " on "


class BrokerProcess:
    """A Kafka broker in a child process, on a free port of 127.0.0.1.

    ``start`` returns once clients can connect; ``restart`` keeps the port. ``stop``, ``kill`` or
    the end of a ``with`` block ends the broker. For one thread at a time.

    Parameters
    ----------
    log_dir
        The directory to serve; created if it does not exist.
    settings
        Broker settings by Kafka's names. ``group.initial.rebalance.delay.ms`` is 0 by default: a
        new group does not wait for more members.
    acks_durable
        Acknowledge records only once they are on disk.
    port
        0 chooses a free port, which restarts keep. Ignored with the setting ``listeners``.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None = None,
        acks_durable: bool = False,
        port: int = 0,
    ) -> None:
        self.log_dir = os.fspath(log_dir)
        self.settings = settings_for_tests(settings)
        self.acks_durable = acks_durable
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self._errors = ""

    # --- start and stop -------------------------------------------------------------------

    def start(self, timeout: float = 60.0) -> Self:
        """Start the process and wait until clients can connect.

        Raises KStoreError with the process's error output if it exits or takes longer than
        ``timeout`` seconds; then it is not running.
        """
        if self._process is not None:
            raise KStoreError(f"the broker is already running on {self.bootstrap_servers}")
        # stderr goes to a file: a full pipe without a reader would block the broker.
        self._errors = f"{self.log_dir}.stderr"
        os.makedirs(os.path.dirname(os.path.abspath(self.log_dir)), exist_ok=True)
        with open(self._errors, "ab") as errors:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                text=True,
            )  # fmt: skip
        try:
            line = self._first_line(timeout)
            self._port = int(line.rpartition(_READY)[2].rpartition(":")[2])
        except BaseException:
            self.kill()
            raise
        return self

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "kstore", "serve", "--log-dir", self.log_dir]
        if "listeners" not in self.settings:  # that setting has the ports
            command += ["--port", str(self._port)]
        for name, value in self.settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            command += ["--override", f"{name}={text}"]
        return [*command, "--acks-durable"] if self.acks_durable else command

    def _first_line(self, timeout: float) -> str:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if ready else ""
        if _READY in line:
            return line.rstrip("\n")
        raise KStoreError(
            f"the broker of {self.log_dir} did not start within {timeout:g} s:\n{self.errors()}"
        )

    def stop(self, timeout: float = 60.0) -> None:
        """Stop the broker cleanly (SIGTERM): it completes waiting requests and closes the
        directory.

        Raises KStoreError with the process's error output if the exit status is not 0.
        """
        status = self._end(signal.SIGTERM, timeout)
        if status:
            raise KStoreError(f"the broker exited with status {status}:\n{self.errors()}")

    def kill(self) -> None:
        """Kill the broker (SIGKILL), as a crash would; it writes nothing more."""
        self._end(signal.SIGKILL, 60.0)

    def restart(self, timeout: float = 60.0) -> None:
        """Stop the broker if it is running, and start it on the same port."""
        self.stop(timeout)
        self.start(timeout)

    def _end(self, number: int, timeout: float) -> int:
        """Send a signal and wait; return the exit status, 0 if the broker is not running."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    # --- properties -----------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for a client's ``bootstrap.servers``."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process id. Raises KStoreError if the broker is not running."""
        if self._process is None:
            raise KStoreError("the broker is not running: call start()")
        return self._process.pid

    def errors(self) -> str:
        """The last part of the process's standard error."""
        with (
            suppress(FileNotFoundError),
            open(self._errors, encoding="utf-8", errors="replace") as file,
        ):
            return file.read()[-4000:]
        return ""

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic, with settings by Kafka's names."""
        settings = {key: str(value) for key, value in (config or {}).items()}
        with RemoteStore(self.bootstrap_servers) as cluster:
            cluster.create_topic(name, partitions, config=settings)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<BrokerProcess {self.bootstrap_servers} of {self.log_dir}, {state}>"


answer_names(BrokerProcess, OF_BROKER_PROCESSES)
