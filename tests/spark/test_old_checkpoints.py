"""A stream continues from the checkpoint and the progress file that an older kstore left."""

import json
from pathlib import Path
from typing import Any

import kstore
from kstore.spark import register
from support.spark_state import unpack_spark_state


def test_a_stream_continues_from_an_older_checkpoint(spark: Any, tmp_path: Path) -> None:
    """Its second batch is published, and Spark repeats it: it is skipped. New records come."""
    folder = unpack_spark_state(tmp_path)
    progress = folder / "store" / "kstore.published.copying"
    before = json.loads(progress.read_text())
    register(spark)
    frame = (
        spark.readStream.format("kstore")
        .option("path", str(folder / "store"))
        .option("subscribe", "events")
        .load()
        .select("key", "value", "partition")
    )
    query = (
        frame.writeStream.format("kstore")
        .option("path", str(folder / "store"))
        .option("topic", "copies")
        .option("writeId", "copying")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    after = json.loads(progress.read_text())
    assert (before["batch"], after["batch"]) == (1, 2)
    assert after["query"] == before["query"] == str(query.id)
    with kstore.open(folder / "store", "r") as store:
        for source, copy in zip(store["events"], store["copies"], strict=True):
            assert [record.value for record in copy] == [record.value for record in source]
            assert len(list(copy)) == 25
