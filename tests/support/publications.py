"""Creates a store and a staged batch of rows to publish, and inspects the results."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import kstore
from kstore.files.files import Files
from kstore.spark.sink.options import Staged, parse_sink
from kstore.spark.sink.stager import stage

OLD = 1_400_000_000_000  # more than ten years ago


def create_store(path: Path) -> Path:
    with kstore.open(path) as store:
        store.create_topic("orders", 3, config=kstore.LogConfig(segment_bytes=4096))
        for log in store["orders"]:
            log.append(b"before", timestamp=OLD)
    return path


def options(log_dir: Path, **given: object) -> Any:
    return parse_sink({"path": str(log_dir), "topic": "orders", "lockTimeout": "5s"}
                      | {name: str(value) for name, value in given.items()})  # fmt: skip


def batch(count: int = 900, **columns: Any) -> Any:
    rows: dict[str, Any] = {
        "value": [b"value %d" % n for n in range(count)],
        "partition": pa.array([n % 3 for n in range(count)], pa.int32()),
        "timestamp": pa.array([OLD * 1000 + n for n in range(count)], pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_pydict(rows | columns)


def staged(log_dir: Path, job: str = "job", **given: object) -> list[Staged | None]:
    return [stage(options(log_dir, batchSize=500, **given), job, [batch()])]


def ends(log_dir: Path) -> list[int]:
    with kstore.open(log_dir, mode="r") as store:
        before = [log.end_offset for log in store["orders"]]
        read = [sum(1 for _ in log) for log in store["orders"]]
        peeked = list(store["orders"].end_offsets().values())
        assert before == read == peeked
        with kstore.open(log_dir, mode="r") as other:  # read the files without open state
            assert list(other["orders"].end_offsets().values()) == before
        return before


def leftovers(log_dir: Path) -> list[str]:
    return sorted(each.name for each in log_dir.rglob("kstore.*")
                  if not each.name.startswith(("kstore.topics", "kstore.seal")))  # fmt: skip


class Watched(Files):
    """A disk that calls ``on_step``, which may raise, before every step."""

    native = False

    def __init__(self, on_step: Any) -> None:
        self.on_step = on_step

    def write(self, fd: int, *buffers: Any) -> int:
        self.on_step("write", None)
        return super().write(fd, *buffers)

    def fdatasync(self, fd: int) -> None:
        self.on_step("fdatasync", None)
        super().fdatasync(fd)

    def rename(self, source: Any, target: Any) -> None:
        self.on_step("rename", str(target))
        super().rename(source, target)

    def remove(self, path: Any) -> None:
        self.on_step("remove", str(path))
        super().remove(path)
