"""Parquet files that no restore can read: errors name file and column before anything is staged."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstore.errors import InvalidRecordError
from kstore.spark.jobs.restore_tasks import read_chunk, scan_parquet
from kstore.spark.jobs.restore_types import Chunk, Filter

BASE = {
    "partition": pa.array([0, 0], pa.int32()),
    "offset": pa.array([5, 6], pa.int64()),
    "value": pa.array([b"a", b"b"], pa.binary()),
}


def write(path: Path, **columns: Any) -> str:
    pq.write_table(pa.table({**BASE, **columns}), path)
    return str(path)


def chunk_of(path: str) -> Chunk:
    return Chunk(
        "orders", 0, "orders", 0, 0, 100, 1, (path,), True, "read_uncommitted", Filter()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("key", pa.array([1, 2], pa.int64())),
        ("value", pa.array([1.5, 2.5])),
        ("headers", pa.array(["a", "b"])),
        ("timestamp", pa.array([[1], [2]], pa.list_(pa.int64()))),
        ("topic", pa.array([[1], [2]], pa.list_(pa.int64()))),
    ],
)
def test_a_column_of_another_type_is_an_error(tmp_path: Path, name: str, column: Any) -> None:
    path = write(tmp_path / "a.parquet", **{name: column})
    for work in (lambda: scan_parquet(path, "orders"), lambda: list(read_chunk(chunk_of(path)))):
        with pytest.raises(InvalidRecordError, match=f"column {name} is .*write the file") as found:
            work()
        assert found.value.path == path


def test_a_timestamp_column_of_text_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", timestamp=pa.array(["x", "y"]))
    with pytest.raises(InvalidRecordError, match="column timestamp is string") as found:
        list(read_chunk(chunk_of(path)))
    assert found.value.path == path


@pytest.mark.parametrize("data", [b"", b"PAR1garbagePAR1", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    for work in (
        lambda: scan_parquet(str(path), "orders"),
        lambda: list(read_chunk(chunk_of(str(path)))),
    ):
        with pytest.raises(InvalidRecordError, match="not a readable Parquet") as found:
            work()
        assert found.value.path == str(path)


def test_a_damaged_page_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    data = bytearray(path.read_bytes())
    data[4:100] = b"\xff" * 96
    path.write_bytes(data)
    with pytest.raises(InvalidRecordError, match="not a readable Parquet") as found:
        list(read_chunk(chunk_of(str(path))))
    assert found.value.path == str(path)


def test_compatible_types_are_cast(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        key=pa.array(["a", None]),
        timestamp=pa.array([1_000_000, 2_000_000], pa.timestamp("ns")),
    )
    assert scan_parquet(path, "orders") == [("orders", 0, 5, 6, 2)]
    (batch,) = read_chunk(chunk_of(path))
    assert batch.column("key").to_pylist() == [b"a", None]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1, 2]
