"""Full disks, files that may not grow, files and directories that others take away."""

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kstore
from kstore.errors import CorruptRecordError, KStoreError, StorageError, StoreLockedError
from support.damage import write_damaged
from support.logs import open_log, read_log
from support.system import unavailable

FILLER = """
import errno, sys
from pathlib import Path
from kstore.errors import StorageError
from support.logs import open_log
directory = Path(sys.argv[1])
log = open_log(directory / "t-0", segment_bytes=200_000, segment_index_bytes=1000)
(directory / "ballast").write_bytes(b"x" * 200_000)
acknowledged = 0
try:
    while True:
        log.append(b"%d " % acknowledged * 200)
        acknowledged += 1
except StorageError as error:
    assert error.errno == errno.ENOSPC, error
    assert error.path, error
    assert "free some space" in str(error), error
assert [record.offset for record in log] == list(range(acknowledged))
(directory / "ballast").unlink()
assert log.append(b"after") == acknowledged
assert log.close()
again = open_log(directory / "t-0")
assert [record.offset for record in again] == list(range(acknowledged + 1))
assert again.verify().ok
print(acknowledged)
"""

BROKER = """
import errno, os, sys, time
from pathlib import Path
import kstore
from kstore.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.messages.produce import ProduceRequest, ProduceResponse
from kstore.record.builder import BatchBuilder
from kstore.remote.connection import Connection

root, way = Path(sys.argv[1]), sys.argv[2]
data, reserve = root / "data", root / "data" / "kstore.reserve"
settings = {"segment.bytes": 200_000, "segment.index.bytes": 1000, "file.delete.delay.ms": 0}

def batch(size):
    builder = BatchBuilder()
    builder.append(os.urandom(size), timestamp=0)
    return builder.build(0)

def produce(client, topic, size):
    Topic = ProduceRequest.TopicData
    data = [Topic.PartitionData(index=0, records=memoryview(batch(size)))]
    asked = ProduceRequest(acks=1, timeout_ms=9000, topic_data=[Topic(topic, partition_data=data)])
    answer = client.ask(asked, ProduceResponse, highest=8)
    return answer.responses[0].partition_responses[0].error_code

def fetch(client, topic):
    Topic = FetchRequest.Topics
    parts = [Topic.Partitions(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    asked = FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1,
                         topics=[Topic(topic=topic, partitions=parts)])
    found = client.ask(asked, FetchResponse, highest=12).responses[0].partitions[0]
    return found.error_code, bool(found.records)

def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)

def free():
    return os.statvfs(root).f_bavail

served = kstore.serve(data, port=0, settings={"kstore.delete.existing.topics": True})
with served as broker, Connection("127.0.0.1", broker.port) as client:
    for topic in ("kept", "old"):
        broker.store.create_topic(topic, config=settings)
    wait_for(lambda: reserve.exists() and reserve.stat().st_size)
    size = reserve.stat().st_size
    assert produce(client, "kept", 100) == 0
    while produce(client, "old", 50_000) == 0:
        pass
    with open(root / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 512)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    assert free() == 0, free()
    assert produce(client, "kept", 9000) == 56
    assert fetch(client, "kept") == (0, True)
    if way == "topic":
        asked = DeleteTopicsRequest(topic_names=["old"], timeout_ms=60_000)
        answer = client.ask(asked, DeleteTopicsResponse, highest=5)
        assert answer.responses[0].error_code == 0, answer
    else:
        Topic = DeleteRecordsRequest.Topics
        asked = DeleteRecordsRequest(
            topics=[Topic("old", [Topic.Partitions(0, -1)])], timeout_ms=60_000)
        answer = client.ask(asked, DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].error_code == 0, answer
        broker.store.apply_retention()
    wait_for(lambda: free() > 0)
    wait_for(lambda: produce(client, "kept", 9000) == 0)
    print("appended again")
    broker._loop.call_soon_threadsafe(broker._services.full_disk.start)
    wait_for(lambda: reserve.stat().st_size == size)
with kstore.open(data) as store:
    assert not store.recovery.unclean
    assert len(list(store["kept"][0])) == 2
    assert store.verify().ok
"""


def run_on_a_small_disk(tmp_path: Path, size: str, program: str, *arguments: str) -> str:
    """What a program printed that was given a tmpfs of this size, in a mount namespace."""
    disk, script = tmp_path / "disk", tmp_path / "program.py"
    disk.mkdir()
    script.write_text(program)
    tests = Path(__file__).parents[1]
    source = Path(kstore.__file__).parents[1]
    command = shlex.join([sys.executable, str(script), str(disk), *arguments])
    shell = f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(disk))} && exec {command}"
    flags = "-m" if os.geteuid() == 0 else "-Urm"
    if shutil.which("unshare") is None:
        unavailable("a small disk cannot be mounted: install unshare (util-linux)")
    may = subprocess.run(["unshare", flags, "true"], capture_output=True, text=True, check=False)
    if may.returncode:
        unavailable(
            f"a small disk cannot be mounted: allow mount namespaces ({may.stderr.strip()})"
        )
    done = subprocess.run(
        ["unshare", flags, "sh", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": f"{source}:{tests}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_log_on_a_full_disk_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    assert int(run_on_a_small_disk(tmp_path, "1m", FILLER)) > 500


@pytest.mark.parametrize("way", ["topic", "records"])
def test_a_broker_without_a_free_byte_deletes_and_appends_again(tmp_path: Path, way: str) -> None:
    """It answers reads and refuses appends meanwhile."""
    assert run_on_a_small_disk(tmp_path, "8m", BROKER, way) == "appended again\n"


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("spare", [0, 1, 60, 100])
def test_a_file_that_may_not_grow(tmp_path: Path, spare: int) -> None:
    """EFBIG after a short write: the batch is out, its bytes too, and the log takes appends."""
    directory = tmp_path / "t-0"
    log = open_log(directory, segment_index_bytes=1000)
    log.append(b"x" * 4000)
    with file_size_limit(log.size + spare):
        for call in (
            lambda: log.append(b"y" * 100),
            lambda: log.extend([b"y" * 100] * 3),
        ):
            with pytest.raises(StorageError) as caught:
                call()
            assert caught.value.errno == 27  # EFBIG
            assert caught.value.path is not None
            assert [record.offset for record in log] == [0]
            assert (directory / f"{0:020d}.log").stat().st_size == log.size
    assert log.append(b"after") == 1
    assert log.close()
    assert [record.value for record in open_log(directory)] == [b"x" * 4000, b"after"]


def test_a_second_writer(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t").append(b"x")
        with pytest.raises(StoreLockedError) as caught:
            kstore.open(tmp_path / "data")
        assert caught.value.path is not None
        assert [record.value for record in store["t"][0]] == [b"x"]


def test_a_file_changed_or_cut_underneath_a_reader(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, segment_bytes=2000, index_interval_bytes=0)
    for n in range(60):
        log.append(b"%d " % n * 30)
    log.close()
    reader = read_log(directory, own=False)  # Kafka's: its owner may cut in place
    assert [record.offset for record in reader] == list(range(60))
    last = sorted(directory.glob("*.log"))[-1]
    intact = last.read_bytes()
    for size in range(len(intact), -1, -7):
        os.truncate(last, size)
        seen = [record.offset for record in reader]
        assert seen == list(range(len(seen)))
    first = sorted(directory.glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[100] ^= 4
    write_damaged(first, data)
    with pytest.raises(CorruptRecordError) as caught:
        list(read_log(directory, own=False))
    assert (caught.value.path, caught.value.position, caught.value.offset) == (str(first), 0, 0)


def test_a_directory_removed_underneath(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, segment_bytes=2000, segment_index_bytes=1000)
    for n in range(30):
        log.append(b"%d " % n * 30)
    reader = read_log(directory)
    assert reader.end_offset == 30
    shutil.rmtree(directory)
    for call in (lambda: log.roll(), lambda: [log.append(b"x" * 900) for _ in range(3)]):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.path is not None
    with pytest.raises(KStoreError):
        list(reader)
    with pytest.raises(StorageError):
        log.close()
    assert not log.close()
