"""The streaming source in a real Spark: offsets, limits, restarts, loss."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.spark import offsets_behind_latest


@pytest.fixture
def run(registered: Any, tmp_path: Path) -> Iterator[Callable[..., tuple[list[Any], Any]]]:
    """Runs a stream with AvailableNow until it has everything; gives its rows and its progress.

    The checkpoint and what was read stay for the next run of the same test.
    """
    seen: list[tuple[int, int, str]] = []

    def take(batch: Any, _: int) -> None:
        seen.extend(
            (row.partition, row.offset, bytes(row.value).decode()) for row in batch.collect()
        )

    def run_once(path: Path, *, topic: str = "t", **options: object) -> tuple[list[Any], Any]:
        reader = registered.readStream.format("kstore").option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, value)
        query = (
            reader.load(str(path))
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return sorted(seen), query.recentProgress

    yield run_once
    for query in registered.streams.active:
        query.stop()


def append(path: Path, values: list[bytes], partition: int = 0, partitions: int = 1) -> None:
    with kstore.open(path) as store:
        store.create_topic("t", partitions, exist_ok=True)[partition].extend(values)


def numbered(first: int, stop: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, stop)]


def rows(first: int, stop: int, partition: int = 0) -> list[tuple[int, int, str]]:
    return [(partition, n, str(n)) for n in range(first, stop)]


def test_from_the_earliest_in_batches_then_on_from_the_checkpoint(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    append(store, numbered(0, 1500))
    found, progress = run(store, startingOffsets="earliest", maxOffsetsPerTrigger=600)
    assert found == rows(0, 1500)
    assert [each["numInputRows"] for each in progress] == [600, 600, 300]
    behind = [offsets_behind_latest(each["sources"][0]) for each in progress]
    assert [each["maxOffsetsBehindLatest"] for each in behind] == [900, 300, 0]
    ends = [json.loads(each["sources"][0]["endOffset"]) for each in progress]
    with kstore.open(store, mode="r") as opened:
        whose = {f"t@{opened['t'].topic_id}": {}}
    assert ends == [{"t": {"0": end}, **whose} for end in (600, 1200, 1500)]
    append(store, numbered(1500, 1600))
    found, progress = run(store, startingOffsets="earliest", maxOffsetsPerTrigger=600)
    assert found == rows(0, 1600)
    assert [each["numInputRows"] for each in progress] == [100]


def test_from_the_latest_nothing_is_lost_between_start_and_first_batch(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    append(store, numbered(0, 10))
    found, _ = run(store)
    assert found == []
    append(store, numbered(10, 20))
    found, _ = run(store)
    assert found == rows(10, 20)


def test_a_batch_that_was_not_committed_is_read_again_the_same(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    """As after a crash: the offset log has the batch, the commit log has not."""
    store = tmp_path / "store"
    append(store, numbered(0, 100))
    run(store, startingOffsets="earliest")
    append(store, numbered(100, 200))
    run(store, startingOffsets="earliest")
    (tmp_path / "checkpoint/commits/1").unlink()
    (tmp_path / "checkpoint/commits/.1.crc").unlink()
    append(store, numbered(200, 300))
    found, progress = run(store, startingOffsets="earliest", maxOffsetsPerTrigger=7_000)
    assert [each["numInputRows"] for each in progress] == [100, 100]
    assert found == sorted([*rows(0, 100), *rows(100, 200), *rows(100, 300)])


def test_new_partitions_from_their_first_record_on(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    append(store, numbered(0, 10))
    run(store, startingOffsets="earliest")
    with kstore.open(store) as opened:
        opened.add_partitions("t", 2)[1].extend(numbered(0, 5))
    found, _ = run(store, startingOffsets="earliest")
    assert found == [*rows(0, 10), *rows(0, 5, 1)]


@pytest.mark.parametrize("fail", [True, False])
def test_retention_overtakes_the_reader(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path, fail: bool
) -> None:
    from pyspark.errors import StreamingQueryException

    store = tmp_path / "store"
    append(store, numbered(0, 10))
    run(store, startingOffsets="earliest")
    append(store, numbered(10, 100))
    with kstore.open(store) as opened:
        assert opened["t"][0].delete_records(50) == 50
    if fail:
        with pytest.raises(StreamingQueryException, match="set failOnDataLoss to false"):
            run(store, startingOffsets="earliest")
    else:
        found, _ = run(store, startingOffsets="earliest", failOnDataLoss="false")
        assert found == [*rows(0, 10), *rows(50, 100)]


def test_a_log_that_was_created_again_is_no_silent_empty_batch(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    store = tmp_path / "store"
    append(store, numbered(0, 40))
    append(store, numbered(40, 100))
    run(store, startingOffsets="earliest")
    with kstore.open(store) as opened:
        opened["t"][0].truncate_to(40)
    with pytest.raises(StreamingQueryException, match="truncated or recreated"):
        run(store, startingOffsets="earliest")
    found, _ = run(store, startingOffsets="earliest", failOnDataLoss="false")
    assert found == rows(0, 100)
    append(store, numbered(40, 45))
    found, _ = run(store, startingOffsets="earliest", failOnDataLoss="false")
    assert found == sorted([*rows(0, 100), *rows(40, 45)])


def test_a_recreated_topic_is_not_read_from_the_middle(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    """It is longer than what was read: its offsets alone look as if the log had grown."""
    from pyspark.errors import StreamingQueryException

    store = tmp_path / "store"
    append(store, numbered(0, 100))
    run(store, startingOffsets="earliest")
    with kstore.open(store) as opened:
        opened.delete_topic("t")
    append(store, numbered(1000, 1150))
    with pytest.raises(StreamingQueryException, match="deleted and recreated"):
        run(store, startingOffsets="earliest")
    found, _ = run(store, startingOffsets="earliest", failOnDataLoss="false")
    new = [(0, n, str(1000 + n)) for n in range(150)]
    assert found == sorted([*rows(0, 100), *new])
    append(store, numbered(1150, 1160))
    found, _ = run(store, startingOffsets="earliest")
    assert found == sorted([*rows(0, 100), *new, *((0, n, str(1000 + n)) for n in range(150, 160))])


def test_a_checkpoint_without_topic_ids_is_continued(
    run: Callable[..., tuple[list[Any], Any]], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    append(store, numbered(0, 10))
    run(store, startingOffsets="earliest")
    (written,) = (tmp_path / "checkpoint/offsets").glob("[0-9]*")
    lines = written.read_text().splitlines()
    assert "t@" in lines[-1]
    lines[-1] = '{"t": {"0": 10}}'
    written.write_text("\n".join(lines))
    (tmp_path / f"checkpoint/offsets/.{written.name}.crc").unlink()
    append(store, numbered(10, 20))
    found, _ = run(store, startingOffsets="earliest")
    assert found == rows(0, 20)
