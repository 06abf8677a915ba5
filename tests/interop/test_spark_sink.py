"""What the Spark sink publishes: Kafka's tool walks it, a broker serves it and appends behind it.

Tasks and commit run here without a Spark session: the same functions that Spark's processes call.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from interop.dump import dump_log
from interop.node import Node

OLD = 1_400_000_000_000  # more than ten years ago
COUNT = 600


def rows() -> Any:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = [
        [{"key": "n", "value": b"%d" % n}, {"key": "none", "value": None}] if n % 3 == 0 else None
        for n in range(COUNT)
    ]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None if n % 11 == 0 else f"key {n % 20}" for n in range(COUNT)]),
            "value": pa.array([None if n % 13 == 0 else f"value {n}" for n in range(COUNT)]),
            "headers": pa.array(headers, pa.list_(pair)),
            "timestamp": pa.array(
                [(OLD + n) * 1000 for n in range(COUNT)], pa.timestamp("us", "UTC")
            ),
        }
    )


def row_of(record: Any) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, tuple(record.headers)


@pytest.mark.parametrize(
    ("compression", "adopted"), [("none", False), ("zstd", False), ("lz4", True)]
)
def test_a_broker_serves_what_was_published(
    kafka: str,
    tmp_path: Path,
    compression: str,
    adopted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Adopted: large files become segments, where kilobytes are large."""
    from kstore.log import import_segment
    from kstore.spark.sink import stager
    from kstore.spark.sink.commit import publish
    from kstore.spark.sink.options import parse_sink
    from kstore.spark.sink.stager import stage
    from kstore.spark.sink.write_identity import of_query

    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("orders", 2)
        node.produce("orders", [("first", "the broker's")])
        node.stop()
        path = node.log_dir
        options = parse_sink(
            {"path": str(path), "topic": "orders", "batchSize": "2000"}
            | {"compression": compression}
        )
        frame = rows()
        halves = [frame.slice(0, 250), frame.slice(250)]
        if adopted:
            monkeypatch.setattr(stager, "_WRITE_SIZE", 1000)
            monkeypatch.setattr(import_segment, "_LARGE", 1000)
        messages = [replace(stage(options, "job", [half]), task=n) for n, half in enumerate(halves)]
        assert publish(options, "job", messages, of_query("a query", 0))
        assert (len(list(path.glob("orders-*/*.log"))) > 2) == adopted
        indexes = [*path.glob("orders-*/*.index"), *path.glob("orders-*/*.timeindex")]
        for flag in ("--index-sanity-check", "--verify-index-only"):
            assert dump_log(kafka, indexes, flag).complaints == ""
        dump = dump_log(kafka, sorted(path.glob("orders-*/*.log")), "--deep-iteration")
        assert all(batch.valid for file in dump.files.values() for batch in file.batches)
        shown = [record for file in dump.files.values() for record in file.records]
        assert len(shown) == COUNT + 1
        assert any(b.codec.lower() == compression for f in dump.files.values() for b in f.batches)

        node.start()
        node.produce("orders", [("last", "the broker's again")])
        served = node.consume("orders", COUNT + 2)
        assert not [line for line in node.lines() if "Recovering" in line or "rebuil" in line]
        node.stop()
    finally:
        node.kill()
    wanted = {
        (
            OLD + n,
            key,
            value,
            () if pairs is None else (("n", str(n)), ("none", None)),
        )
        for n, (key, value, pairs) in enumerate(
            zip(*(frame.column(name).to_pylist() for name in ("key", "value", "headers")),
                strict=True)
        )
    }  # fmt: skip
    ours = {row_of(record) for record in served if record.timestamp < OLD + COUNT}
    assert ours == wanted
    assert len(served) == COUNT + 2
    with kstore.open(path, mode="r") as store:
        assert [log.end_offset for log in store["orders"]] == [
            1 + max(record.offset for record in served if record.partition == n) for n in (0, 1)
        ]
