"""Rows are skipped only where they were published before; what differs is refused."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kstore
from kstore._native.spark.encode_arrow import sum_row_hashes
from kstore.errors import InvalidConfigError, InvalidRecordError
from kstore.spark.sink.arrow_columns import binary_column, header_column
from kstore.spark.sink.commit import publish
from kstore.spark.sink.options import SinkOptions, Staged, parse_sink, prepare_sink
from kstore.spark.sink.stager import stage
from kstore.spark.sink.write_identity import identify_job, identify_micro_batch
from support.stores import leave_to_kafka

NEW_KEYS = ("query", "run", "topics", "rows", "checksum", "generation")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "store") as store:
        store.create_topic("orders", 2)
        store.create_topic("others", 2)
    return tmp_path / "store"


def rows(*values: int, **columns: Any) -> Any:
    column = pa.array([b"x%d" % n for n in values], pa.binary())
    return pa.RecordBatch.from_pydict({"value": column} | columns)


def options(log_dir: Path, **given: object) -> SinkOptions:
    named = {name: str(value) for name, value in given.items()}
    return parse_sink({"path": str(log_dir), "topic": "orders"} | named)


def write(log_dir: Path, *batches: Any, **given: object) -> bool:
    """A batch job of one task for each batch."""
    return write_job(options(log_dir, **given), *batches)


def write_job(wanted: SinkOptions, *batches: Any, query: Any = None, run: Any = None) -> bool:
    job = f"job{np.random.default_rng().integers(1 << 60)}"
    checked = wanted.write_id is not None
    staged: list[Staged | None] = [
        stage(wanted, job, [each], task=n, query=query, run=run, with_checksum=checked)
        for n, each in enumerate(batches)
    ]
    return publish(wanted, job, staged, identify_job(wanted, staged))


def micro_batch(log_dir: Path, query: str | None, number: int, *batches: Any, **given: Any) -> bool:
    """A micro-batch of a stream that writes by ``writeStream``."""
    wanted = options(log_dir, **given)
    job = f"job{np.random.default_rng().integers(1 << 60)}"
    staged: list[Staged | None] = [
        stage(wanted, job, [each], task=n, query=query) for n, each in enumerate(batches)
    ]
    return publish(wanted, job, staged, identify_micro_batch(wanted, staged, number))


def foreach_batch(
    log_dir: Path, query: str | None, run: str, number: int, *batches: Any, **given: Any
) -> bool:
    """A batch job in the function of ``foreachBatch``."""
    wanted = options(log_dir, **({"writeId": "w", "writeBatch": number} | given))
    return write_job(wanted, *batches, query=query, run=run)


def published(log_dir: Path, topic: str = "orders") -> list[str]:
    with kstore.open(log_dir, "r") as store:
        return sorted(r.value.decode()[1:] for log in store[topic] for r in log)


def progress(log_dir: Path, name: str = "w") -> Any:
    return json.loads((log_dir / f"kstore.published.{name}").read_text())


def as_from_before(log_dir: Path, name: str = "w") -> None:
    """The progress file as a kstore wrote it that did not note whose it is."""
    path = log_dir / f"kstore.published.{name}"
    document = json.loads(path.read_text())
    assert all(document.pop(key, "none") != "none" for key in NEW_KEYS)
    path.write_text(json.dumps(document))


# --- batch jobs -----------------------------------------------------------------------------------


def test_a_job_run_again_is_recognised_in_whatever_order_its_rows_come(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Order, tasks, partitions that were drawn, and times that were stamped say nothing."""
    assert write(log_dir, rows(1, 2), rows(3, 4), writeId="w")
    assert not write(log_dir, rows(4, 3, 2), rows(1), writeId="w")
    assert published(log_dir) == ["1", "2", "3", "4"]
    (record,) = [each for each in caplog.records if "is a repetition" in each.message]
    assert record.levelno == logging.WARNING
    assert "its 4 rows are skipped" in record.message
    assert "published at 20" in record.message
    assert "with 4 rows for orders" in record.message
    assert not list(log_dir.glob("kstore.staged.*"))


def test_other_rows_under_a_write_id_are_refused(log_dir: Path) -> None:
    assert write(log_dir, rows(*range(20)), writeId="w")
    for other in (range(15), range(1, 21), [*range(19), 18]):
        with pytest.raises(InvalidConfigError, match=r"new writeId; or,.*rebindWriteId") as error:
            write(log_dir, rows(*other), writeId="w")
        assert "published at 20" in str(error.value)
    with pytest.raises(InvalidConfigError, match="this job has 20 rows for others"):
        write(log_dir, rows(*range(20)), writeId="w", topic="others")
    assert published(log_dir) == sorted(map(str, range(20)))
    assert published(log_dir, "others") == []


@pytest.mark.parametrize(
    "columns",
    [
        {"key": pa.array([b"k", None], pa.binary())},
        {"key": pa.array([b"k", b""], pa.binary())},
        {"timestamp": pa.array([1_000, 1_700_000_000_000_000], pa.timestamp("us", "UTC"))},
        {"partition": pa.array([1, 0], pa.int32())},
        {"headers": pa.array([[("a", b"1")], []], pa.map_(pa.string(), pa.binary()))},
    ],
    ids=["null key", "empty key", "time", "partition", "headers"],
)
def test_each_column_that_is_given_counts(log_dir: Path, columns: dict[str, Any]) -> None:
    assert write(log_dir, rows(1, 2), writeId="w")
    with pytest.raises(InvalidConfigError, match="this job has other rows"):
        write(log_dir, rows(1, 2, **columns), writeId="w")


def test_rows_that_have_no_time_are_the_same_later(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = pa.array([None, 1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    assert write(log_dir, rows(1, 2, timestamp=times), writeId="w")
    monkeypatch.setattr("kstore.spark.sink.stager.now_ms", lambda: 1_800_000_000_000)
    assert not write(log_dir, rows(1, 2, timestamp=times), writeId="w")


def test_a_recreated_topic_is_another_topic(log_dir: Path) -> None:
    """Its rows are gone: a job that writes them again is refused."""
    assert write(log_dir, rows(1), writeId="w")
    with kstore.open(log_dir) as store:
        store.delete_topic("orders")
    with pytest.raises(InvalidConfigError, match="orders was deleted since"):
        write(log_dir, rows(1), writeId="w", numPartitions=2)
    with kstore.open(log_dir) as store:
        store.create_topic("orders", 2)
    with pytest.raises(InvalidConfigError, match="orders was deleted since and recreated"):
        write(log_dir, rows(1), writeId="w")
    assert write(log_dir, rows(1), writeId="w", rebindWriteId="true")
    assert published(log_dir) == ["1"]


def test_a_recreated_topic_without_an_id_is_another_topic(log_dir: Path) -> None:
    """Its creation stamp is noted; a broker's upgrade, which gives it an id, changes nothing."""
    for partition in range(2):
        (log_dir / f"orders-{partition}" / "partition.metadata").unlink()
    leave_to_kafka(log_dir)
    assert write(log_dir, rows(1, 2, 3), writeId="w")
    assert progress(log_dir)["topics"]["orders"]
    for partition in range(2):
        metadata = log_dir / f"orders-{partition}" / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert not write(log_dir, rows(1, 2, 3), writeId="w")
    with kstore.open(log_dir) as store:
        store.delete_topic("orders", foreign=True)
        store.create_topic("orders", 2)
    with pytest.raises(InvalidConfigError, match="orders was deleted since and recreated"):
        write(log_dir, rows(1, 2, 3), writeId="w")
    assert published(log_dir) == []


def test_rebind_write_id_publishes_what_differs_once(log_dir: Path) -> None:
    assert write(log_dir, rows(1), writeId="w")
    assert write(log_dir, rows(2), writeId="w", rebindWriteId="true")
    assert not write(log_dir, rows(2), writeId="w", rebindWriteId="true")
    assert not write(log_dir, rows(2), writeId="w")
    with pytest.raises(InvalidConfigError, match="has other rows"):
        write(log_dir, rows(1), writeId="w")
    assert published(log_dir) == ["1", "2"]


def test_a_job_without_rows_is_known_too(log_dir: Path) -> None:
    assert write(log_dir, rows(), writeId="w")
    assert not write(log_dir, rows(), writeId="w")
    with pytest.raises(InvalidConfigError, match="with 0 rows for no topic"):
        write(log_dir, rows(1), writeId="w")


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"writeId": "w"}], ids=["query", "writeId"])
def test_a_streams_identity_is_its_query_and_batch(log_dir: Path, given: dict[str, str]) -> None:
    """Its rows may come otherwise when a batch runs again: that is still the same batch."""
    assert micro_batch(log_dir, "q1", 0, rows(1, 2), **given)
    assert not micro_batch(log_dir, "q1", 0, rows(1, 2, 3), **given)
    assert micro_batch(log_dir, "q1", 1, rows(3), **given)
    assert not micro_batch(log_dir, "q1", 0, rows(1, 2), **given)
    assert published(log_dir) == ["1", "2", "3"]


def test_a_write_id_under_a_new_checkpoint_is_refused(log_dir: Path) -> None:
    """A new checkpoint is a new query: its batches count from 0."""
    for number in range(3):
        assert micro_batch(log_dir, "q1", number, rows(number), writeId="w")
    for number in (0, 2, 3):
        with pytest.raises(InvalidConfigError, match=r"streaming query q1 \(batch 2\).*rebind"):
            micro_batch(log_dir, "q2", number, rows(*range(15)), writeId="w")
    with pytest.raises(InvalidConfigError, match="streaming query q1"):
        write(log_dir, rows(2), writeId="w")
    assert published(log_dir) == ["0", "1", "2"]
    again = {"writeId": "w", "rebindWriteId": "true"}
    assert micro_batch(log_dir, "q2", 0, rows(7), **again)
    assert not micro_batch(log_dir, "q2", 0, rows(7), **again)
    with pytest.raises(InvalidConfigError, match=r"streaming query q2 \(batch 0\)"):
        micro_batch(log_dir, "q1", 3, rows(8), writeId="w")
    assert published(log_dir) == ["0", "1", "2", "7"]


def test_a_stream_under_a_batch_jobs_write_id_is_refused(log_dir: Path) -> None:
    assert write(log_dir, rows(1), writeId="w")
    with pytest.raises(InvalidConfigError, match="is that of a batch job"):
        micro_batch(log_dir, "q1", 5, rows(2), writeId="w")


def test_a_stream_of_which_no_query_is_known_is_refused(log_dir: Path) -> None:
    for given in ({}, {"writeId": "w"}, {"checkpointLocation": "c"}):
        with pytest.raises(InvalidConfigError, match="no task knows the id of the streaming query"):
            micro_batch(log_dir, None, 0, rows(1), **given)
    assert published(log_dir) == []


def test_a_rebound_write_id_counts_in_any_order_of_the_directories(tmp_path: Path) -> None:
    """The old query's progress has the higher batch, and lies in another directory."""
    paths = [tmp_path / "one", tmp_path / "two"]
    with kstore.open(paths) as store:
        store.create_topic("orders", 2)
    listed = json.dumps([str(path) for path in paths])
    turned = json.dumps([str(path) for path in paths[::-1]])

    def batch(query: str, number: int, order: str, **given: str) -> bool:
        wanted = parse_sink({"paths": order, "topic": "orders", "writeId": "w"} | given)
        job = f"{query}{number}"
        staged = [stage(wanted, job, [rows(number)], query=query)]
        return publish(wanted, job, staged, identify_micro_batch(wanted, staged, number))

    assert batch("q1", 7, listed)
    assert batch("q2", 0, turned, rebindWriteId="true")
    assert not batch("q2", 0, listed)
    assert batch("q2", 1, listed)
    assert not batch("q2", 1, turned)


# --- foreachBatch ---------------------------------------------------------------------------------


def test_for_each_batch_is_known_by_its_query(log_dir: Path) -> None:
    assert foreach_batch(log_dir, "q1", "run1", 0, rows(1))
    assert not foreach_batch(log_dir, "q1", "run2", 0, rows(1, 2))
    assert foreach_batch(log_dir, "q1", "run2", 1, rows(2))
    with pytest.raises(InvalidConfigError, match="streaming query q1"):
        foreach_batch(log_dir, "q2", "run3", 0, rows(1))
    assert published(log_dir) == ["1", "2"]


def test_for_each_batch_without_a_query_is_refused(log_dir: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"the query is unknown.*queryId"):
        foreach_batch(log_dir, None, "", 0, rows(1))
    assert foreach_batch(log_dir, None, "", 0, rows(1), queryId="q1")
    assert not foreach_batch(log_dir, "q1", "run", 0, rows(1))
    with pytest.raises(InvalidConfigError, match="runs in the streaming query q2"):
        foreach_batch(log_dir, "q2", "run", 1, rows(1), queryId="q1")


def test_two_writes_of_a_micro_batch_take_two_write_ids(log_dir: Path) -> None:
    """The function is called once in a run: a second write of its batch is no repetition."""
    assert foreach_batch(log_dir, "q1", "run1", 0, rows(1))
    with pytest.raises(InvalidConfigError, match="each write of a micro-batch needs a writeId"):
        foreach_batch(log_dir, "q1", "run1", 0, rows(1), topic="others")
    with pytest.raises(InvalidConfigError, match="each write of a micro-batch needs a writeId"):
        foreach_batch(log_dir, "q1", "run1", 0, rows(2))
    assert not foreach_batch(log_dir, "q1", "run1", 0, rows(1))  # its commit's answer was lost
    assert foreach_batch(log_dir, "q1", "run1", 0, rows(1), topic="others", writeId="w2")


def test_a_second_write_of_a_micro_batch_is_refused_after_restarts_too(log_dir: Path) -> None:
    """Spark restarts a failed query, and its function writes what was published first again."""
    assert foreach_batch(log_dir, "q1", "run1", 0, rows(1, 2))
    for run in ("run1", "run2", "run3"):
        assert not foreach_batch(log_dir, "q1", run, 0, rows(1, 2))
        with pytest.raises(InvalidConfigError, match="each write of a micro-batch needs a writeId"):
            foreach_batch(log_dir, "q1", run, 0, rows(3, 4, 5))
        with pytest.raises(InvalidConfigError, match="each write of a micro-batch needs a writeId"):
            foreach_batch(log_dir, "q1", run, 0, rows(1, 2), topic="others")
    assert progress(log_dir)["rows"] == 2  # what was published
    assert foreach_batch(log_dir, "q1", "run3", 1, rows(3))
    assert published(log_dir) == ["1", "2", "3"]


def test_a_write_for_another_topic_is_no_repetition_in_another_run(log_dir: Path) -> None:
    """Whichever write the function begins with."""
    assert foreach_batch(log_dir, "q1", "run1", 0, rows(1, 2))
    with pytest.raises(InvalidConfigError, match="this write has rows for others"):
        foreach_batch(log_dir, "q1", "run2", 0, rows(3, 4, 5), topic="others")
    again = {"topic": "others", "rebindWriteId": "true"}
    assert foreach_batch(log_dir, "q1", "run2", 0, rows(3, 4, 5), **again)
    assert published(log_dir, "others") == ["3", "4", "5"]


def test_a_write_of_an_unknown_run_is_a_repetition_only_with_the_same_rows(log_dir: Path) -> None:
    """The tasks of another thread than the query's know no run: its second write may be one."""
    in_thread = {"queryId": "q1"}
    assert foreach_batch(log_dir, None, "", 0, rows(1, 2), **in_thread)
    assert not foreach_batch(log_dir, None, "", 0, rows(2, 1), **in_thread)
    for other in ({"topic": "others"}, {}):
        with pytest.raises(InvalidConfigError, match=r"needs a writeId of its own.*InheritableThr"):
            foreach_batch(log_dir, None, "", 0, rows(3, 4, 5), **in_thread, **other)
    assert published(log_dir, "others") == []
    assert foreach_batch(log_dir, None, "", 1, rows(3), **in_thread)
    # As the error says: with a known run, another run's rows are a repetition.
    assert not foreach_batch(log_dir, "q1", "run2", 1, rows(4))
    assert progress(log_dir)["run"] == "run2"
    with pytest.raises(InvalidConfigError, match="needs a writeId of its own"):
        foreach_batch(log_dir, None, "", 1, rows(4), **in_thread)
    assert not foreach_batch(log_dir, None, "", 1, rows(3), **in_thread)
    assert progress(log_dir)["run"] == "run2"
    assert published(log_dir) == ["1", "2", "3"]


def test_options_that_say_nothing_are_refused(log_dir: Path) -> None:
    for given, said in (
        ({"queryId": "q", "writeBatch": 1}, "writeBatch numbers the jobs"),
        ({"queryId": "q"}, "queryId applies to a writeId"),
        ({"rebindWriteId": "true"}, "rebindWriteId applies to a writeId"),
        ({"writeId": "w", "queryId": "q"}, "queryId names the query whose micro-batches"),
    ):
        with pytest.raises(InvalidConfigError, match=said):
            options(log_dir, **given)


@pytest.mark.spark
def test_write_batch_is_refused_in_a_stream(log_dir: Path) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("value", BinaryType())])
    named = {"path": str(log_dir), "topic": "orders", "writeId": "w", "queryId": "q"}
    with pytest.raises(InvalidConfigError, match="is for batch jobs"):
        prepare_sink(named | {"writeBatch": "1"}, schema, streaming=True)


# --- progress from before -------------------------------------------------------------------------


def test_a_jobs_progress_from_before_is_bound_at_its_next_use(log_dir: Path) -> None:
    """It has no checksum: whether as many rows for the same topics are the same is not known."""
    assert write(log_dir, rows(1, 2), writeId="w")
    as_from_before(log_dir)
    for other in (rows(1), rows(1, 2, 3)):
        with pytest.raises(InvalidConfigError, match=r"published at 20.* with 2 rows for orders"):
            write(log_dir, other, writeId="w")
    with pytest.raises(InvalidConfigError, match="this job has 2 rows for others"):
        write(log_dir, rows(1, 2), writeId="w", topic="others")
    for same_or_not in (rows(1, 2), rows(7, 8)):
        with pytest.raises(InvalidConfigError, match=r"not save a checksum.*rebindWriteId"):
            write(log_dir, same_or_not, writeId="w")
    assert published(log_dir) == ["1", "2"]
    assert write(log_dir, rows(7, 8), writeId="w", rebindWriteId="true")
    assert not write(log_dir, rows(7, 8), writeId="w", rebindWriteId="true")
    assert not write(log_dir, rows(7, 8), writeId="w")
    with pytest.raises(InvalidConfigError, match="has other rows"):
        write(log_dir, rows(3, 4), writeId="w")
    assert published(log_dir) == ["1", "2", "7", "8"]


def test_a_streams_progress_from_before_is_bound_at_its_next_use(log_dir: Path) -> None:
    for number in range(3):
        assert micro_batch(log_dir, "q1", number, rows(number, 9), writeId="w")
    as_from_before(log_dir)
    for number, batch in ((0, rows(0, 9)), (2, rows(1))):  # another query, for all that is known
        with pytest.raises(InvalidConfigError, match=r"published at 20.* with 2 rows for orders"):
            micro_batch(log_dir, "q2", number, batch, writeId="w")
    assert not micro_batch(log_dir, "q1", 2, rows(2, 9), writeId="w")
    assert progress(log_dir)["query"] == "q1"
    with pytest.raises(InvalidConfigError, match="streaming query q1"):
        micro_batch(log_dir, "q2", 3, rows(5), writeId="w")
    as_from_before(log_dir)
    assert micro_batch(log_dir, "q1", 3, rows(3), writeId="w")
    assert progress(log_dir)["query"] == "q1"


def test_a_streams_batch_that_may_be_another_querys_is_skipped_with_a_warning_that_says_so(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert micro_batch(log_dir, "q1", 2, rows(1, 9), writeId="w")
    as_from_before(log_dir)
    assert not micro_batch(log_dir, "q1", 2, rows(1, 9), writeId="w")
    (record,) = [each for each in caplog.records if "is a repetition" in each.message]
    for said in ("its 2 rows are skipped", "published at 20", "did not save which query"):
        assert said in record.message
    assert "new checkpoint and rebindWriteId" in record.message
    assert micro_batch(log_dir, "q2", 2, rows(3), writeId="w", rebindWriteId="true")
    assert published(log_dir) == ["1", "3", "9"]


@pytest.mark.parametrize("by_function", [False, True])
def test_a_stream_that_was_stopped_behind_its_commit_continues_after_an_upgrade(
    log_dir: Path, by_function: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark repeats the batch whose end it did not note: a refusal would strand the stream."""

    def run(number: int, *values: int, name: str) -> bool:
        if by_function:
            return foreach_batch(log_dir, "q1", name, number, rows(*values))
        return micro_batch(log_dir, "q1", number, rows(*values), writeId="w")

    assert run(5, 1, 2, name="before")
    as_from_before(log_dir)
    assert not run(5, 1, 2, name="after")
    warnings = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    (said,) = [each for each in warnings if "is a repetition" in each]
    assert "batch 5 of the streaming query q1 (writeId 'w')" in said
    assert "new checkpoint and rebindWriteId" in said
    assert run(6, 3, name="after")
    assert published(log_dir) == ["1", "2", "3"]
    assert progress(log_dir)["query"] == "q1"
    with pytest.raises(InvalidConfigError, match="streaming query q1"):
        micro_batch(log_dir, "q2", 6, rows(3), writeId="w")


def test_rebind_write_id_publishes_under_progress_from_before(log_dir: Path) -> None:
    assert micro_batch(log_dir, "q1", 2, rows(1, 9), writeId="w")
    as_from_before(log_dir)
    again = {"writeId": "w", "rebindWriteId": "true"}
    assert micro_batch(log_dir, "q2", 2, rows(3, 4), **again)
    assert not micro_batch(log_dir, "q2", 2, rows(3, 4), **again)
    assert published(log_dir) == ["1", "3", "4", "9"]


def test_progress_from_before_under_a_querys_id_is_that_querys(log_dir: Path) -> None:
    assert micro_batch(log_dir, "q1", 4, rows(1))
    as_from_before(log_dir, "q1")
    assert not micro_batch(log_dir, "q1", 4, rows(1, 2))
    assert progress(log_dir, "q1")["query"] == "q1"
    assert micro_batch(log_dir, "q1", 5, rows(2))


# --- the checksum ---------------------------------------------------------------------------------


def checksum(batch: Any, chosen: Any = None, topic: bytes = b"orders") -> int:
    count = batch.num_rows
    return sum_row_hashes(
        topic,
        chosen,
        np.arange(count, dtype=np.int64),
        np.arange(count, dtype=np.int32),
        binary_column(batch.column("key")),
        binary_column(batch.column("value")),
        header_column(batch.column("headers")),
    )


def many() -> Any:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None, b"", b"key", b"k" * 40], pa.binary()),
            "value": pa.array([b"", None, b"value", b"v" * 1000], pa.binary()),
            "headers": pa.array(
                [None, [], [{"key": "a", "value": b"1"}], [{"key": "", "value": None}]], kind
            ),
        }
    )


def test_the_checksum_stays_what_it_is() -> None:
    """It is kept in files: another one would refuse every job that is run again."""
    assert checksum(many()) == 35440798604729642
    assert sum_row_hashes(b"", None, np.empty(0, np.int64), None, None, EMPTY, None) == 0


EMPTY = binary_column(pa.array([], pa.binary()))


def test_the_checksum_adds_up() -> None:
    batch = many()
    parts = [checksum(batch, np.array([n], np.int64)) for n in (2, 0, 3, 1)]
    assert sum(parts) % (1 << 64) == checksum(batch)
    assert len(set(parts)) == 4
    assert checksum(batch, topic=b"others") != checksum(batch)
    with pytest.raises(ValueError, match="there is no row 4"):
        checksum(batch, np.array([4], np.int64))
    with pytest.raises(ValueError, match="differ in length"):
        sum_row_hashes(b"", None, np.zeros(2, np.int64), None, None, EMPTY, None)
    nameless = pa.array(
        [[{"key": None, "value": b""}]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    value = binary_column(pa.array([b""], pa.binary()))
    with pytest.raises(InvalidRecordError, match="null key"):
        sum_row_hashes(b"", None, np.zeros(1, np.int64), None, None, value, header_column(nameless))
