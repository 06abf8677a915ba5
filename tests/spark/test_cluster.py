"""Executors that die: on two executors of the script's own, and on a real cluster."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

import kstore
from spark.driver import JAVA, SRC, Driver
from spark.scenarios import OLD
from support.damage import write_damaged

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(1100)
COUNT = 6000
TOTAL = COUNT * (COUNT - 1) // 2


def load_cluster() -> ModuleType:
    """The pipeline's own cluster: what users run is what is tested."""
    spec = importlib.util.spec_from_file_location("cluster", ROOT / "docs/pipeline/cluster.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


cluster = load_cluster()


@pytest.fixture(
    scope="module",
    params=["local-cluster[2,1,1024]", pytest.param("standalone", marks=pytest.mark.cluster)],
)
def master(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where applications get two executors, each a process of its own."""
    if request.param != "standalone":
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("JDK_JAVA_OPTIONS", JAVA)
        with cluster.Cluster(tmp_path_factory.mktemp("cluster"), cores=2) as found:
            yield found.url


@pytest.fixture(scope="module")
def driver(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver with two executors; speculation is on."""
    settings = {
        "spark.cores.max": 2,
        "spark.speculation": True,
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": 0.4,
        "spark.speculation.minTaskRuntime": "1s",
    }
    with Driver(master, tmp_path_factory.mktemp("driver"), **settings) as started:
        yield started


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with kstore.open(path) as store:
        for topic in ("from", "to"):
            store.create_topic(topic, 3)
    return path


def fill(log_dir: Path) -> None:
    with kstore.open(log_dir) as store, store.producer("from", batch_size=2048) as producer:
        for n in range(COUNT):
            producer.send(b"%d" % n, key=b"%d" % n, timestamp=OLD + n)


def numbers(log_dir: Path, topic: str = "to") -> list[int]:
    with kstore.open(log_dir, mode="r") as store:
        return sorted(int(record.value) for log in store[topic] for record in log)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where attempts of tasks report that they have begun."""
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def kill(driver: Driver, marks: Path, victims: Callable[[], list[int]], count: int = 1) -> int:
    """Kill processes as soon as new attempts run; how many died."""
    seen = set(marks.iterdir())
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not driver.has_answered():
        if set(marks.iterdir()) - seen:
            died = 0
            for process in victims()[:count]:
                with suppress(ProcessLookupError):  # it ended by itself meanwhile
                    os.kill(process, signal.SIGKILL)
                    died += 1
            if died:
                return died
        time.sleep(0.01)
    return 0


def again(marks: Path) -> list[str]:
    """Attempts that were not a task's first."""
    return [each.name for each in marks.iterdir() if not each.name.endswith(".0")]


def executors(driver: Driver) -> list[int]:
    found: list[int] = cluster.executors(driver.app_id)
    return found


def workers(driver: Driver) -> list[int]:
    """The Python processes of the executors that run tasks: children of their daemons."""
    found = []
    executors = set(cluster.executors(driver.app_id))
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                line = (each / "cmdline").read_bytes()
                stat = (each / "stat").read_text()
            except OSError:
                continue
            if b"pyspark.daemon" in line:
                parents[int(each.name)] = int(stat.rpartition(")")[2].split()[1])
    for process, parent in parents.items():
        if parents.get(parent) in executors:
            found.append(process)
    return sorted(found)


@pytest.mark.parametrize("victims", [executors, workers])
def test_processes_die_while_they_write(
    driver: Driver, log_dir: Path, marks: Path, victims: Callable[[Driver], list[int]]
) -> None:
    driver.send("write", path=log_dir, topic="to", count=COUNT, pause=0.1, marks=marks,
                batchSize=1024)  # fmt: skip
    assert kill(driver, marks, lambda: victims(driver), 1 if victims is executors else 8) >= 1
    assert numbers(log_dir) == []
    driver.answer()
    assert again(marks)
    assert numbers(log_dir) == list(range(COUNT))
    with kstore.open(log_dir, mode="r") as store:
        assert {log.verify().ok for log in store["to"]} == {True}
        assert min(record.timestamp for log in store["to"] for record in log) == OLD


@pytest.mark.parametrize("victims", [executors, workers])
def test_processes_die_while_they_read(
    driver: Driver, log_dir: Path, marks: Path, victims: Callable[[Driver], list[int]]
) -> None:
    fill(log_dir)
    driver.send("read", path=log_dir, topic="from", pause=0.1, marks=marks, minPartitions=4)
    # Of the Python processes some are idle: all of them die, and with them one that is at it.
    assert kill(driver, marks, lambda: victims(driver), 1 if victims is executors else 8) >= 1
    assert driver.answer() == [COUNT, COUNT, TOTAL]
    assert again(marks)


def test_executors_die_in_a_stream(
    driver: Driver, log_dir: Path, marks: Path, tmp_path: Path
) -> None:
    fill(log_dir)
    driver.send("stream", path=log_dir, source="from", topic="to", most=COUNT // 3, pause=0.1,
                marks=marks, checkpoint=tmp_path / "checkpoint")  # fmt: skip
    killed = [kill(driver, marks, lambda: executors(driver)) for _ in range(2)]
    assert driver.answer() >= 3
    assert killed == [1, 1]
    assert numbers(log_dir) == list(range(COUNT))


def test_a_cancelled_job_leaves_nothing_to_see(driver: Driver, log_dir: Path, marks: Path) -> None:
    output = driver.call("cancel", path=log_dir, topic="to", count=COUNT, marks=marks)
    assert "cancel" in output.lower()
    assert numbers(log_dir) == []
    driver.call("write", path=log_dir, topic="to", count=10)
    assert numbers(log_dir) == list(range(10))


def test_a_copy_overtakes_a_straggler(driver: Driver, log_dir: Path, marks: Path) -> None:
    """Spark starts a copy on another host only: workers of the cluster have addresses of their own.

    Where there is none, the straggler is waited for; each record shows once in both cases.
    """
    standalone = driver.master.startswith("spark:")
    driver.call("write", path=log_dir, topic="to", count=COUNT, tasks=4, pause=0.01, marks=marks,
                straggle=60 if standalone else 3, batchSize=1024)  # fmt: skip
    if standalone:
        assert again(marks)
    assert numbers(log_dir) == list(range(COUNT))


def test_an_executor_that_does_not_see_the_path_says_so(driver: Driver, tmp_path: Path) -> None:
    """A path that is another one in each process: that of the driver's folder."""
    home = driver.log.parent
    path = home / f"only-here-{tmp_path.name}"
    with kstore.open(path) as store:
        store.create_topic("from").append(b"1")
    blind = Path("/proc/self/cwd") / path.name
    with pytest.raises(RuntimeError, match=rf"host \S+ .*sees no such log directory.*{blind}"):
        driver.call("read", path=blind, topic="from")
    with pytest.raises(RuntimeError, match=rf"host \S+ .*sees no such log directory.*{blind}"):
        driver.call("write", path=blind, topic="from", count=10)
    assert numbers(path, "from") == [1]


def test_a_job_is_submitted(master: str, log_dir: Path, tmp_path: Path) -> None:
    """``spark-submit`` with the file of a job, as the guide says."""
    import pyspark

    from kstore.spark.jobs import verify

    fill(log_dir)
    job = str(verify.__file__)
    command = [os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit"),
               "--master", master, "--conf", "spark.ui.enabled=false",
               "--conf", "spark.cores.max=2", "--conf", "spark.executor.memory=512m",
               job, "--log-dir", str(log_dir), "--topic", "from"]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": JAVA,
    }

    def submit() -> tuple[int, str]:
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True,
                             text=True, timeout=500, check=False)  # fmt: skip
        return ran.returncode, ran.stdout + ran.stderr[-3000:]

    status, output = submit()
    assert status == 0, output
    assert "3 partitions: all ok" in output
    path = log_dir / "from-1" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    write_damaged(path, data)
    status, output = submit()
    assert status == 1, output
    assert "from-0: ok" in output
    assert str(path) in output
