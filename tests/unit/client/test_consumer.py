"""A consumer: positions, batches that commit when they are worked off, groups over processes."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig, TopicPartition
from kstore.coordinator.group.offset_records import decode_offset_key, decode_offset_value
from kstore.errors import (
    ClosedError,
    GroupConflictError,
    InvalidConfigError,
    InvalidGroupError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kstore.protocol.fields import partition_for_name

QUIET = StoreConfig(background=False)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A topic of two partitions with 10 and 20 records, a second apart."""
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t", 2)
        for partition, count in enumerate((10, 20)):
            for number in range(count):
                topic[partition].append(b"%d" % number, timestamp=1000 * number)
    return tmp_path


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with kstore.open(path, config=QUIET) as opened:
        yield opened


def python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- reading ----------------------------------------------------------------------------------


def test_everything_is_read_in_turn(store: Store) -> None:
    with store.consumer("t", max_poll_records=4, timeout=0) as consumer:
        assert consumer.assignment == {T0, T1}
        seen: dict[int, list[bytes]] = {0: [], 1: []}
        order = []
        for batch in consumer:
            assert len(batch) <= 4
            assert batch.stop_offset - batch.start_offset == len(batch)
            order.append(batch.partition)
            seen[batch.partition] += [record.value for record in batch]
            assert sum(len(columns.offsets) for columns in batch.view.scan()) == len(batch)
    assert order[:4] == [0, 1, 0, 1]
    assert seen == {0: [b"%d" % n for n in range(10)], 1: [b"%d" % n for n in range(20)]}


def test_poll_gives_records_by_partition(store: Store) -> None:
    with store.consumer(assignment=[("t", 1), ("t", 0)]) as consumer:
        found = consumer.poll(max_records=25)
        assert sum(len(records) for records in found.values()) == 25
        assert consumer.position(T0) + consumer.position(T1) == 25
        assert sum(map(len, consumer.poll().values())) == 5
        assert consumer.poll(timeout=0.01) == {}


def test_seek_by_offset_and_time(store: Store) -> None:
    with store.consumer(assignment=[T0, T1]) as consumer:
        consumer.seek(T0, 7)
        assert [record.value for record in consumer.poll()[T0]] == [b"7", b"8", b"9"]
        consumer.seek_to_time(datetime.fromtimestamp(4.5, UTC))
        assert (consumer.position(T0), consumer.position(T1)) == (5, 5)
        consumer.seek_to_time(15_000, T1)
        assert (consumer.position(T0), consumer.position(T1)) == (5, 15)
        consumer.seek_to_time(10**12)
        assert (consumer.position(T0), consumer.position(T1)) == (10, 20)
        consumer.seek_to_beginning(T0)
        assert (consumer.position(T0), consumer.position(T1)) == (0, 20)
        consumer.seek_to_end(T0)
        assert consumer.position(T0) == 10
        with pytest.raises(OffsetOutOfRangeError):
            consumer.seek(T0, -1)
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.seek(("t", 5), 0)
        with pytest.raises(TypeError):
            consumer.seek_to_time("yesterday")


def test_paused_partitions_are_not_read(store: Store) -> None:
    with store.consumer("t") as consumer:
        consumer.pause(T1)
        assert consumer.paused == {T1}
        assert set(consumer.poll(max_records=100)) == {T0}
        consumer.resume(T1)
        assert set(consumer.poll(max_records=100)) == {T1}
        consumer.pause()
        consumer.seek_to_beginning()
        assert consumer.poll(timeout=0.01) == {}
        consumer.resume()
        assert set(consumer.poll(max_records=100)) == {T0, T1}


@pytest.mark.parametrize(("reset", "position"), [("earliest", 4), ("latest", 10)])
def test_lost_positions_are_reset(store: Store, reset: str, position: int) -> None:
    store["t"][0].delete_records(4)
    with store.consumer(assignment=[T0], auto_offset_reset=reset) as consumer:
        assert consumer.position(T0) == position
        for lost in (2, 99):
            consumer.seek(T0, lost)
            consumer.poll(max_records=1)
            assert consumer.position(T0) == min(position + 1, 10)


def test_without_a_reset_lost_positions_are_errors(store: Store) -> None:
    with store.consumer(assignment=[T0], auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError):
            consumer.position(T0)
        consumer.seek(T0, 11)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            consumer.poll()
        assert caught.value.offset == 11
        consumer.seek(T0, 9)
        assert len(consumer.poll()[T0]) == 1


@pytest.mark.parametrize("assignment", [[T0], [T0, T1]])
def test_iteration_waits_for_more(store: Store, assignment: list[TopicPartition]) -> None:
    got: list[bytes] = []
    with store.consumer(assignment=assignment, auto_offset_reset="latest") as consumer:
        for tp in assignment:
            consumer.position(tp)  # the end as it is now

        def work() -> None:
            for batch in consumer:
                got.extend(record.value for record in batch)

        thread = threading.Thread(target=work)
        thread.start()
        for number in range(5):
            store["t"][0].append(b"new %d" % number)
            time.sleep(0.002)
        end = time.monotonic() + 30
        while len(got) < 5 and time.monotonic() < end:
            time.sleep(0.002)
        consumer.close()  # ends the iteration
        thread.join(30)
        assert not thread.is_alive()
    assert got == [b"new %d" % number for number in range(5)]


def test_a_closed_consumer_says_so(store: Store) -> None:
    consumer = store.consumer("t", group="g")
    consumer.close()
    consumer.close()
    for use in (consumer.poll, lambda: consumer.position(T0), consumer.commit):
        with pytest.raises(ClosedError):
            use()
    assert list(consumer) == []


@pytest.mark.parametrize(
    "options",
    [
        {"auto_offset_reset": "never"},
        {"max_poll_records": 0},
        {"max_poll_records": "all"},
    ],
)
def test_wrong_options_are_refused(store: Store, options: dict[str, str]) -> None:
    with pytest.raises(InvalidConfigError):
        store.consumer("t", group="g", **options)
    with store.consumer("t", group="g") as consumer:  # and nothing stays claimed
        assert consumer.assignment


def test_unknown_partitions_are_refused(store: Store) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        store.consumer("nope")
    with pytest.raises(UnknownTopicOrPartitionError):
        store.consumer(group="g", assignment=[T0, ("t", 2)])
    with store.consumer(group="g", assignment=[T0]) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.assign([T1, ("t", 2)])
        assert consumer.assignment == {T0}
        consumer.assign([T1])
        with store.consumer(group="g", assignment=[T0]) as other:
            assert other.assignment == {T0}


# --- committing -------------------------------------------------------------------------------


def test_a_batch_is_committed_when_its_block_succeeds(store: Store) -> None:
    with store.consumer(group="g", assignment=[T0], max_poll_records=4, timeout=0) as consumer:
        assert consumer.committed(T0) is None
        for batch in consumer:
            with batch:
                assert consumer.committed(T0) in (None, batch.start_offset)
            assert consumer.committed(T0) == batch.stop_offset
    with store.consumer(group="g", assignment=[T0]) as consumer:
        assert consumer.position(T0) == 10


def test_a_loop_that_ends_early_commits_what_it_was_given(store: Store) -> None:
    with store.consumer(group="g", assignment=[T0], timeout=0) as consumer:
        with next(iter(consumer)) as batch:
            first = list(zip(range(4), batch, strict=False))
        assert consumer.committed("t", 0) == consumer.position("t", 0) == 4
        with next(iter(consumer)) as batch:
            assert [record.offset for record in batch] == list(range(4, 10))
            assert any(record.offset == 5 for record in batch)  # the furthest loop counts
            assert batch[0] in batch
        assert consumer.committed("t", 0) == 10
        for use in (iter, len, lambda batch: batch.view.to_arrow()):
            consumer.seek(T0, 5)
            batch = next(iter(consumer))
            assert next(iter(batch)).offset == 5  # before the block
            with batch:
                use(batch)
            assert consumer.committed("t", 0) == 10
    assert len(first) == 4


def test_a_batch_that_failed_comes_again(store: Store) -> None:
    with store.consumer(group="g", assignment=[T0], max_poll_records=4, timeout=0) as consumer:
        first = next(iter(consumer))
        with first:
            pass
        second = next(iter(consumer))
        with pytest.raises(ZeroDivisionError), second:
            _ = 1 / 0
        assert consumer.committed(T0) == 4
        again = next(iter(consumer))
        assert (again.start_offset, again.stop_offset) == (4, 8)
        with suppress(ZeroDivisionError), again:
            consumer.seek(T0, 9)
            _ = 1 / 0
        assert consumer.position(T0) == 9  # the caller's own seek stands


def test_a_commit_covers_partitions_that_were_assigned_but_not_read(store: Store) -> None:
    """Kafka's SubscriptionState.allConsumed: a poll gives each assigned partition a position."""
    with store.consumer("t", group="g", max_poll_records=4, timeout=0) as consumer:
        assert len(consumer.poll()) == 1
        consumer.commit()
        assert sorted(consumer.committed(tp) or 0 for tp in (T0, T1)) == [0, 4]
        assert None not in {consumer.committed(T0), consumer.committed(T1)}
    assert store.group("g").lag == 26


def test_commits_are_kafkas_records(store: Store) -> None:
    group = "my-group"
    with store.consumer("t", group=group) as consumer:
        consumer.poll(max_records=100)
        consumer.commit(metadata="note")
        consumer.commit({T0: 3})
        assert (consumer.committed(T0), consumer.committed(T1)) == (3, 20)
        assert consumer.position(T0) == 10
    topic = store["__consumer_offsets"]
    assert len(topic) == 50
    assert topic.config.cleanup_policy == "compact"
    log = topic[partition_for_name(group, 50)]
    found = [(decode_offset_key(record.key), decode_offset_value(record.value)) for record in log]
    assert [(tuple(key or ()), value.offset, value.metadata) for key, value in found] == [
        ((group, "t", 0), 10, "note"),
        ((group, "t", 1), 20, "note"),
        ((group, "t", 0), 3, ""),
    ]
    times = [value.commit_timestamp for key, value in found if key and key.partition == 0]
    assert times[1] > times[0] > time.time() * 1000 - 600_000


def test_wrong_commits_are_refused(store: Store) -> None:
    with store.consumer("t") as consumer:
        assert consumer.committed(T0) is None
        with pytest.raises(InvalidConfigError):
            consumer.commit()
    with store.consumer(group="g", assignment=[T0]) as consumer:
        with pytest.raises(OffsetOutOfRangeError):
            consumer.commit({T0: -1})
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.commit({T1: 1})
        with pytest.raises((InvalidConfigError, InvalidRecordError)):
            consumer.commit({T0: 1}, metadata="x" * 4097)
        assert consumer.committed(T0) is None
    for group in ("", "x" * 32768, 7):
        with pytest.raises(InvalidGroupError):
            store.consumer("t", group=group)


def test_the_directorys_own_count_of_offset_partitions_counts(path: Path) -> None:
    with kstore.open(path, config=QUIET) as store:
        store.create_topic("__consumer_offsets", 3, config=LogConfig(cleanup_policy="compact"))
        with store.consumer(group="my-group", assignment=[T0]) as consumer:
            consumer.commit({T0: 4})
        assert store["__consumer_offsets"][1906497762 % 3].end_offset == 1


# --- several processes ------------------------------------------------------------------------

READ_AND_COMMIT = """
import sys, kstore
with kstore.open(sys.argv[1], "r") as store:
    settings = dict(assignment=[("t", 0)], max_poll_records=3, timeout=0)
    with store.consumer(group="g", **settings) as consumer:
        for batch in consumer:
            with batch:
                print(batch.start_offset, batch.stop_offset, consumer.committed(("t", 0)))
            break
"""


def test_a_reader_commits_into_a_file_that_the_next_writer_folds_in(path: Path) -> None:
    assert python(READ_AND_COMMIT, path) == "0 3 None\n"
    file = path / "kstore.offsets.g"
    assert json.loads(file.read_bytes())["offsets"]["t"]["0"]["offset"] == 3
    assert python(READ_AND_COMMIT, path) == "3 6 3\n"
    assert not (path / "__consumer_offsets-0").exists()
    with kstore.open(path, config=QUIET) as store:
        assert not file.exists()
        assert store["__consumer_offsets"][partition_for_name("g", 50)].end_offset == 1
        with store.consumer(group="g", assignment=[T0]) as consumer:
            assert consumer.committed(T0) == 6
    assert python(READ_AND_COMMIT, path) == "6 9 6\n"


def test_a_reader_beside_a_writer_and_the_newer_commit_counts(store: Store, path: Path) -> None:
    with store.consumer(group="g", assignment=[T0]) as consumer:
        consumer.commit({T0: 2})
    assert python(READ_AND_COMMIT, path) == "2 5 2\n"
    with store.consumer(group="g", assignment=[T0]) as consumer:
        assert consumer.committed(T0) == 5
        consumer.commit({T0: 1})
        assert consumer.committed(T0) == 1
    assert python(READ_AND_COMMIT, path) == "1 4 1\n"


HOLD = """
import sys, kstore
with kstore.open(sys.argv[1], "r") as store, store.consumer(group="g", assignment=[("t", 0)]):
    print("reading", flush=True)
    sys.stdin.readline()
"""


def test_one_partition_has_one_reader_of_a_group(store: Store, path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        with pytest.raises(GroupConflictError) as caught:
            store.consumer("t", group="g")
        assert caught.value.code == 25
        assert "store.consumer(group='g', assignment=[('t', 1)])" in str(caught.value)
        with (
            store.consumer(group="g", assignment=[T1]) as other,
            store.consumer(group="h", assignment=[T0]) as another,
        ):
            assert other.poll(max_records=1)
            assert another.poll(max_records=1)
            with pytest.raises(GroupConflictError):
                other.assign([T1, T0])
            assert other.assignment == {T1}
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    with store.consumer("t", group="g") as consumer:
        assert consumer.assignment == {T0, T1}


def test_a_damaged_offsets_file_is_kept_and_named(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, newer = path / "kstore.offsets.a", path / "kstore.offsets.b"
    damaged.write_text("{")
    newer.write_text('{"format": 7}')
    with kstore.open(path, config=QUIET) as store:
        assert "kstore.offsets.a" in caplog.text
        assert "kstore.offsets.b" in caplog.text
        assert "__consumer_offsets" not in store
    assert (damaged.read_text(), newer.read_text()) == ("{", '{"format": 7}')


def test_a_directory_of_kafkas_without_the_groups_partition_keeps_a_file(path: Path) -> None:
    (path / "__consumer_offsets-49").mkdir()
    with kstore.open(path, config=QUIET) as store:
        with store.consumer(group="g1", assignment=[T0]) as consumer:  # g1 lives in partition 42
            consumer.commit({T0: 5})
            assert consumer.committed(T0) == 5
        assert store["__consumer_offsets"].partitions == (49,)
    assert (path / "kstore.offsets.g1").exists()
    with kstore.open(path, config=QUIET) as store:
        assert (path / "kstore.offsets.g1").exists()
        with store.consumer(group="g1", assignment=[T0]) as consumer:
            assert consumer.committed(T0) == 5


@pytest.mark.parametrize("count", [0, -1])
def test_poll_refuses_a_count_below_one(tmp_path, count):
    """As Kafka's max.poll.records; otherwise it would never return."""
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].append(b"x")
        with (
            store.consumer(assignment=[("t", 0)]) as consumer,
            pytest.raises(InvalidConfigError, match="at least 1"),
        ):
            consumer.poll(max_records=count)


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_records_deleted_between_check_and_read_are_not_skipped_silently(
    path: Path, reset: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with kstore.open(path, config=QUIET) as store:
        consumer = store.consumer(assignment=[T0], timeout=0, auto_offset_reset=reset)
        consumer.seek(T0, 0)
        read = consumer._fetcher._view

        def delete_and_read(tp: TopicPartition, log: kstore.Log, start: int, stop: int) -> object:
            log.delete_records(5)
            return read(tp, log, start, stop)

        monkeypatch.setattr(consumer._fetcher, "_view", delete_and_read)
        if reset == "none":
            with pytest.raises(OffsetOutOfRangeError, match="holds offsets from 5 to 10"):
                consumer.poll()
        else:
            assert [record.offset for record in consumer.poll()[T0]] == list(range(5, 10))
            assert "offset 0 is out of range" in caplog.text
        consumer.close()


# --- dropped consumers ------------------------------------------------------------------------


def test_a_dropped_consumer_releases_its_partitions(store: Store) -> None:
    consumer = store.consumer("t", group="g")
    with pytest.warns(ResourceWarning, match=r"'g' of t-0, t-1> was not closed: use `with"):
        del consumer
    store.consumer("t", group="g").close()


def test_a_consumer_of_a_loop_is_dropped_after_it(store: Store) -> None:
    """The last batch stays in the loop's variable; it does not keep the consumer open."""

    def read() -> int:
        for batch in store.consumer("t", group="g", timeout=0):
            with batch:
                assert batch.topic == "t"
        return batch.stop_offset

    with pytest.warns(ResourceWarning, match="was not closed"):
        assert read() == 20
    with store.consumer("t", group="g", timeout=0) as consumer:
        assert list(consumer) == []


def test_a_batch_of_a_dropped_consumer_is_not_committed(store: Store) -> None:
    consumer = store.consumer("t", group="g", timeout=0)
    batch = next(iter(consumer))
    with pytest.warns(ResourceWarning):
        del consumer
    with pytest.raises(ClosedError, match="was dropped"), batch:
        pass
    assert [record.value for record in batch] == [record.value for record in batch.view]


def test_a_dropped_consumer_without_a_group_holds_nothing(store: Store) -> None:
    consumer = store.consumer("t")
    del consumer  # a ResourceWarning would be an error here


def test_a_consumer_may_be_collected_while_another_thread_holds_its_lock(store: Store) -> None:
    kept = [store.consumer("t", group="g")]
    lock = kept[0]._lock
    collected = threading.Event()

    def collect() -> None:
        with pytest.warns(ResourceWarning):
            kept.clear()
        collected.set()

    with lock:
        thread = threading.Thread(target=collect)
        thread.start()
        assert collected.wait(30)
    thread.join()


def test_a_conflict_says_who_reads_and_what_to_do(store: Store) -> None:
    with (
        store.consumer("t", group="g"),
        pytest.raises(GroupConflictError, match=r"group 'g' in this process reads .*: close it"),
    ):
        store.consumer(group="g", assignment=[T0])


# --- batches and records ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["value", "key", "offset", "timestamp", "headers"])
def test_a_batch_says_where_a_record_s_attributes_are(store: Store, name: str) -> None:
    with store.consumer("t", timeout=0) as consumer:
        batch = next(iter(consumer))
        with pytest.raises(AttributeError, match=f"for record in batch: record.{name}`"):
            getattr(batch, name)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            batch.nothing  # noqa: B018


def test_records_come_one_by_one(store: Store) -> None:
    with store.consumer("t", timeout=0, max_poll_records=7) as consumer:
        values = [record.value for record in consumer.records()]
        assert len(values) == 30
        assert consumer.positions() == {T0: 10, T1: 20}
        assert list(consumer.records()) == []


def test_a_commit_between_records_is_exact(store: Store) -> None:
    with store.consumer(group="g", assignment=[T1], timeout=0) as consumer:
        for record in consumer.records():
            if record.value == b"7":
                consumer.commit()
                break
        assert consumer.committed(T1) == 8
        assert next(consumer.records()).value == b"8"


def test_a_seek_between_records_counts(store: Store) -> None:
    with store.consumer(assignment=[T1], timeout=0) as consumer:
        read = []
        for record in consumer.records():
            read.append(record.offset)
            if record.offset == 3 and len(read) == 4:
                consumer.seek(T1, 18)
            if record.offset == 18:
                consumer.pause(T1)
        assert read == [0, 1, 2, 3, 18]
        consumer.resume(T1)
        assert [record.offset for record in consumer.records()] == [19]


def test_records_end_when_the_consumer_is_closed(store: Store) -> None:
    consumer = store.consumer("t")
    read = []
    for record in consumer.records():
        read.append(record)
        consumer.close()
    assert len(read) == 1


def test_lag_is_the_distance_to_the_end(store: Store) -> None:
    with store.consumer("t", group="g") as consumer:
        assert consumer.lag() == {T0: 10, T1: 20}
        consumer.seek(T0, 4)
        consumer.seek_to_end(T1)
        store["t"][1].append(b"x")
        assert consumer.lag() == {T0: 6, T1: 1}
        consumer.seek(T0, 12)
        assert consumer.lag()[T0] == -2
    with pytest.raises(ClosedError):
        consumer.lag()


def test_the_lag_of_committed_reads_ends_at_the_last_stable_offset(store: Store) -> None:
    with store.transaction("id") as transaction:
        transaction.send("t", b"x", partition=0)
        transaction.flush()
        with store.consumer("t", isolation_level="read_committed") as consumer:
            assert consumer.lag() == {T0: 10, T1: 20}
