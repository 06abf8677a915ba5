"""A real Spark cluster on this machine, from the pip package alone; and executors that die.

The package has no start scripts, but the classes that they start: a master, and workers that
start an executor for each application.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

HOST = "127.0.0.1"  # the master's, and the driver's


class Cluster:
    """A standalone master and its workers, until the ``with`` block ends."""

    def __init__(self, home: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self._home = home
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.url = f"spark://{HOST}:{self._port}"

    def __enter__(self) -> "Cluster":
        self._home.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", HOST, "--port", str(self._port), "--webui-port", "0")
            self._wait("master", "New state: ALIVE", 1)
            for number in range(self._workers):
                name = f"worker-{number}"
                self._start(
                    name, f"127.0.0.{number + 2}",  # as if it were another machine
                    "--webui-port", "0", "--cores", str(self._cores),
                    "--memory", self._memory, "--work-dir", str(self._home / name), self.url,
                )  # fmt: skip
            self._wait("master", "Registering worker", self._workers)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End workers, then the master; a worker ends its executors."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self, name: str, host: str, *arguments: str) -> None:
        import pyspark  # here: tests that load this module are listed without it

        spark_home = os.path.dirname(pyspark.__file__)
        role = name.partition("-")[0]
        environment = {
            **os.environ,
            "SPARK_HOME": spark_home,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.worker.timeout=600",
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self._log(name), "wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [
                        f"{spark_home}/bin/spark-class",
                        f"org.apache.spark.deploy.{role}.{role.capitalize()}",
                        "--host",
                        host,
                        *arguments,
                    ],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _wait(self, name: str, text: str, count: int, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while self._log(name).read_text(errors="replace").count(text) < count:
            dead = any(process.poll() is not None for process in self._processes)
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster did not start: see {self._home}/*.log")
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def executors(app_id: str) -> list[int]:
    """The processes of an application's executors on this machine."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        backend = any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words)
        if backend and app_id.encode() in words:
            found.append(int(each.name))
    return sorted(found)


class Killer(threading.Thread):
    """Kills executors while tasks run, in each step its share; ``killed`` says when."""

    def __init__(self, context: Any, most: int, steps: int) -> None:
        super().__init__(daemon=True)
        self.killed: list[float] = []  # seconds since the epoch
        self._context = context
        self._most = most
        self._steps = steps
        self._step = 0
        self._over = threading.Event()

    def step(self) -> None:
        """Another step of the work begins."""
        self._step += 1

    def run(self) -> None:
        tracker = self._context.statusTracker()
        while not self._over.wait(0.05):
            due = -(-self._most * self._step // self._steps)
            if len(self.killed) >= due or not self._is_busy(tracker):
                continue
            alive = executors(self._context.applicationId)
            if len(alive) < 2:  # the one before has not been replaced yet
                continue
            try:
                os.kill(random.choice(alive), signal.SIGKILL)
            except ProcessLookupError:  # it has just ended by itself
                continue
            self.killed.append(time.time())

    def _is_busy(self, tracker: Any) -> bool:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numActiveTasks:
                return True
        return False

    def stop(self) -> None:
        self._over.set()
        self.join()
