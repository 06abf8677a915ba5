"""A Spark driver in a process of its own, which does what each line asks.

A session a process is all that Spark knows; and a driver that is to die has to be another one.
``Driver`` is the test's side, ``main`` runs in the process.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import kstore

HERE = Path(__file__).resolve().parent
SRC = Path(kstore.__file__).resolve().parents[1]
ANSWER = "kstore answers "
# A short life: no optimizing compiler, no parallel collector.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class DriverDiedError(Exception):
    """The driver's process ended before it answered."""


class Driver:
    """Starts a driver, sends it commands, kills it."""

    def __init__(self, master: str, home: Path, **settings: object) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.master = master
        self.log = home / "driver.log"
        path = [str(SRC), str(HERE), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": JAVA,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "driver.py"), master, json.dumps(settings)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment,
                cwd=home, text=True, start_new_session=True,
            )  # fmt: skip
        self._answers: Queue[Any] = Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._owed = 1  # answers that were not read yet; the first says that it has begun
        self.app_id = ""

    def start(self) -> "Driver":
        self.app_id = self.answer()
        return self

    def __enter__(self) -> "Driver":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, what: str, **arguments: object) -> Any:
        """What a scenario gives; RuntimeError with the text of what it raised."""
        self.send(what, **arguments)
        return self.answer()

    def send(self, what: str, **arguments: object) -> None:
        """Begin a scenario; the answer comes later. One that a failed test left comes before."""
        while self._owed:
            with suppress(RuntimeError):
                self.answer()
        given = {name: str(v) if isinstance(v, Path) else v for name, v in arguments.items()}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, given]) + "\n")
        self._process.stdin.flush()
        self._owed += 1

    def answer(self, seconds: float = 500) -> Any:
        self._owed -= 1
        try:
            found = self._answers.get(timeout=seconds)
        except Empty:
            raise RuntimeError(f"no answer in {seconds} s\n{self.tail()}") from None
        if found is None:
            raise DriverDiedError(self.tail())
        if "error" in found:
            raise RuntimeError(found["error"])
        return found["result"]

    def has_answered(self) -> bool:
        return not self._answers.empty()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                self._answers.put(json.loads(line[len(ANSWER) :]))
        self._answers.put(None)

    def kill(self) -> None:
        """End everything that it started, at once; executors of its own too."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def stop(self) -> None:
        if self._process.poll() is None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        self.kill()


def main() -> None:
    import scenarios
    from pyspark.sql import SparkSession

    master, settings = sys.argv[1], json.loads(sys.argv[2])
    builder = SparkSession.builder.master(master).appName("kstore-tests")
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        # A machine that stands still for minutes takes no process for dead.
        "spark.worker.timeout": "600",
        "spark.network.timeout": "600s",
    }
    for name, value in {**common, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def answer(**what: object) -> None:
        print(ANSWER + json.dumps(what), flush=True)

    answer(result=spark.sparkContext.applicationId)
    for line in sys.stdin:
        what, arguments = json.loads(line)
        try:
            answer(result=getattr(scenarios, what)(spark, **arguments))
        except Exception as error:  # whatever it is, the test gets it
            answer(error=f"{type(error).__name__}: {error}")
    spark.stop()


if __name__ == "__main__":
    main()
