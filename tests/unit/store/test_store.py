"""The store: one writer and many readers over Kafka's log directories."""

import logging
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.errors import (
    ClosedError,
    CorruptFileError,
    InvalidConfigError,
    NewerFormatError,
    PolicyViolationError,
    ReadOnlyError,
    RecoveryNeededError,
    StorageError,
    StoreLockedError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.files import process_lifetime
from support.damage import write_damaged
from support.process_exit import close_as_at_exit
from support.stores import MARKER, QUIET, Broken, drop, leave_to_kafka, python, scanned, snapshot

DAY_MS = 86_400_000


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A directory with a topic of three partitions, closed cleanly."""
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t", 3)
        for partition in range(3):
            topic[partition].extend([b"%d" % number for number in range(partition * 10)])
    return tmp_path


# --- opening and closing ----------------------------------------------------------------------


def test_appended_records_are_read_after_reopening(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "new" / "store") as store:
        position = store.create_topic("orders", 4).append(b"paid", key=b"alice")
        assert store["orders"][position.partition][position.offset].value == b"paid"
    with kstore.open(tmp_path / "new" / "store") as store:
        assert list(store) == ["orders"]
        assert len(store) == 1
        assert "orders" in store
        assert "other" not in store
        log = store["orders"][position.partition]
        assert log[position.offset].key == b"alice"
        assert scanned(log) == 0


def test_a_clean_close_leaves_what_kafka_expects(filled: Path) -> None:
    names = {each.name for each in filled.iterdir()}
    assert names == {
        ".lock",
        MARKER,
        "kstore.topics",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0",
        "t-1",
        "t-2",
    }
    expected = "0\n3\nt 0 0\nt 1 10\nt 2 20\n"
    assert (filled / "recovery-point-offset-checkpoint").read_text() == expected
    assert (filled / "replication-offset-checkpoint").read_text() == expected
    assert (filled / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'


def test_the_checkpoint_of_high_watermarks_has_them_and_not_the_log_ends(tmp_path: Path) -> None:
    checkpoint = tmp_path / "replication-offset-checkpoint"
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t", 2)
        for log in topic:
            log.extend([b"0", b"1", b"2", b"3", b"4"])
        topic[0].set_high_watermark(2)
        store.checkpoint()
        assert checkpoint.read_text() == "0\n2\nt 0 2\nt 1 5\n"
        topic[0].set_high_watermark(3)
    assert checkpoint.read_text() == "0\n2\nt 0 3\nt 1 5\n"
    expected = "0\n2\nt 0 5\nt 1 5\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == expected


def test_a_store_that_used_no_log_changes_no_byte(filled: Path) -> None:
    (filled / MARKER).write_bytes(b'{"version":0,"brokerEpoch":27}')
    before = snapshot(filled)
    with kstore.open(filled) as store:
        assert store.end_offsets() == {("t", 0): 0, ("t", 1): 10, ("t", 2): 20}
    assert snapshot(filled) == before


def test_the_clean_shutdown_marker_is_removed_and_written_back_unchanged(filled: Path) -> None:
    (filled / MARKER).write_bytes(b'{"version":0,"brokerEpoch":27}')
    checkpoint = filled / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n4\nt 0 0\nt 1 10\nt 2 20\nelsewhere 7 99\n")
    with kstore.open(filled) as store:
        store["t"][1].append(b"more")
        assert not (filled / MARKER).exists()
    assert (filled / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":27}'
    assert checkpoint.read_text() == "0\n4\nelsewhere 7 99\nt 0 0\nt 1 11\nt 2 20\n"


def test_after_an_unclean_stop_the_marker_waits_for_every_log(filled: Path) -> None:
    """All are recovered with the store; one that cannot be keeps the marker away."""
    (filled / MARKER).unlink()
    log = filled / "t-1" / f"{0:020}.log"
    intact = log.read_bytes()
    log.write_bytes(intact[:-1])  # below the recovery point
    with kstore.open(filled) as store:
        assert scanned(store["t"][2]) == 1
        assert list(store.recovery.failed) == [("t", 1)]
        with pytest.raises(RecoveryNeededError):
            _ = store["t"][1]
    assert not (filled / MARKER).exists()
    log.write_bytes(intact)
    with kstore.open(filled) as store:
        assert store.recovery.failed == {}
        assert store.end_offsets() == {("t", 0): 0, ("t", 1): 10, ("t", 2): 20}
    assert (filled / MARKER).exists()
    with kstore.open(filled) as store:
        assert scanned(store["t"][1]) == 0


def test_a_killed_writer_loses_nothing_that_was_appended(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, kstore\n"
        "store = kstore.open(sys.argv[1])\n"
        "topic = store.create_topic('t')\n"
        "topic[0].extend([b'%d' % n for n in range(100)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    python(code, tmp_path, status=-9)
    with kstore.open(tmp_path) as store:
        assert [record.value for record in store["t"][0]] == [b"%d" % n for n in range(100)]
        assert store["t"][0].append(b"next") == 100


def test_close_is_idempotent_and_final(tmp_path: Path) -> None:
    store = kstore.open(tmp_path)
    topic = store.create_topic("t")
    log = topic[0]
    store.close()
    store.close()
    assert store.closed
    for use in (
        lambda: store["t"],
        lambda: list(store),
        lambda: topic.append(b"x"),
        lambda: log.append(b"x"),
        lambda: store.create_topic("u"),
        store.end_offsets,
    ):
        with pytest.raises(ClosedError):
            use()


def test_a_store_left_open_is_closed_at_exit(tmp_path: Path) -> None:
    code = (
        "import sys, kstore\n"
        "store = kstore.open(sys.argv[1])\n"
        "store.create_topic('t').append(b'x')\n"
        "producer = store.producer('t', linger_ms=60_000)\n"
        "producer.send(b'y')\n"
    )
    python(code, tmp_path)
    assert (tmp_path / MARKER).exists()
    with kstore.open(tmp_path, "r") as store:
        assert [record.value for record in store["t"][0]] == [b"x", b"y"]


def test_a_dropped_store_warns_and_releases_the_lock(tmp_path: Path) -> None:
    kept = [kstore.open(tmp_path, config=QUIET)]
    with pytest.warns(ResourceWarning, match="was not closed"):
        drop(kept)
    kstore.open(tmp_path).close()


@pytest.mark.parametrize("mode", ["w", "", "rw", None])
def test_modes_are_two(tmp_path: Path, mode: str) -> None:
    with pytest.raises(InvalidConfigError):
        kstore.open(tmp_path, mode)


def test_a_failed_open_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "kstore.topics").write_text('{"format": 99}')
    for _ in range(2):
        with pytest.raises(NewerFormatError):
            kstore.open(tmp_path)


def test_a_log_that_does_not_close_leaves_no_marker(tmp_path: Path) -> None:
    files = Broken()
    store = Store(tmp_path, config=QUIET, files=files)
    store.create_topic("t").append(b"x")
    files.failing = True
    with pytest.raises(StorageError):
        store.close()
    assert store.closed
    assert not (tmp_path / MARKER).exists()
    with kstore.open(tmp_path) as again:  # the lock was given back all the same
        assert again["t"][0][0].value == b"x"


# --- other processes -------------------------------------------------------------------------

HOLD = """
import sys, kstore
store = kstore.open(sys.argv[1])
print(list(store), flush=True)
sys.stdin.readline()
store.close()
"""


@pytest.fixture
def holder(filled: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the store open for writing."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(filled)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "['t']\n"
        yield process
        process.communicate("\n", timeout=60)
        assert process.returncode == 0


@pytest.mark.usefixtures("holder")
def test_a_second_writer_is_refused_by_name_and_readers_are_not(filled: Path) -> None:
    with pytest.raises(StoreLockedError) as caught:
        kstore.open(filled)
    assert caught.value.path == str(filled / ".lock")
    assert "another process has this directory open for writing" in str(caught.value)
    before = snapshot(filled)
    with kstore.open(filled, "r") as store:
        assert store["t"][2][19].value == b"19"
        assert store.end_offsets("t") == {("t", 0): 0, ("t", 1): 10, ("t", 2): 20}
    assert snapshot(filled) == before


def test_a_second_writer_of_the_same_process_is_named(filled: Path) -> None:
    with kstore.open(filled) as store:
        with pytest.raises(StoreLockedError, match=r"^this process .* already: use that store"):
            kstore.open(filled)
        store["t"][0].append(b"v")
    kstore.open(filled).close()


def test_a_reader_changes_no_byte_and_refuses_writing(filled: Path) -> None:
    before = snapshot(filled)
    with kstore.open(filled, "r") as store:
        assert [record.value for record in store["t"][1][-2:]] == [b"8", b"9"]
        assert not store.writable
        for use in (
            lambda: store.create_topic("u"),
            lambda: store.delete_topic("t"),
            lambda: store.alter_topic("t", config={}),
            lambda: store["t"].append(b"x"),
            lambda: store["t"][0].append(b"x"),
            lambda: store.producer("t"),
            store.checkpoint,
        ):
            with pytest.raises(ReadOnlyError):
                use()
    assert snapshot(filled) == before
    with pytest.raises(StorageError):
        kstore.open(filled / "missing", "r")


def test_a_reader_sees_what_a_writer_adds(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as writer, kstore.open(tmp_path, "r") as reader:
        with pytest.raises(UnknownTopicOrPartitionError):
            reader["t"]
        topic = writer.create_topic("t", 2)
        assert list(reader) == ["t"]
        assert reader["t"][1].end_offset == 0
        topic[1].append(b"x")
        assert reader["t"][1].end_offset == 1
        assert reader["t"][1][0].value == b"x"


def test_a_forked_child_is_refused_and_the_parent_continues(tmp_path: Path) -> None:
    code = (
        "import os, sys, kstore\n"
        "from kstore.errors import ForkedError\n"
        "store = kstore.open(sys.argv[1])\n"
        "topic = store.create_topic('t'); log = topic[0]; log.append(b'x')\n"
        "producer = store.producer('t'); consumer = store.consumer('t', group='g')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    bad = 0\n"
        "    for use in (lambda: topic.append(b'y'), lambda: log.append(b'y'), store.end_offsets,\n"
        "                lambda: producer.send(b'y'), consumer.poll, lambda: list(store)):\n"
        "        try:\n"
        "            use()\n"
        "        except ForkedError:\n"
        "            continue\n"
        "        bad += 1\n"
        "    store.close(); producer.close(); consumer.close()\n"
        "    sys.exit(bad)\n"
        "print(os.waitpid(child, 0)[1])\n"
        "print(log.append(b'z'), producer.send(b'p').result().offset)\n"
    )
    assert python(code, tmp_path) == "0\n1 2\n"
    with kstore.open(tmp_path) as store:
        assert [record.value for record in store["t"][0]] == [b"x", b"z", b"p"]


def test_a_childs_copy_does_not_hold_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, kstore\n"
        "store = kstore.open(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    os.write(1, b'ready\\n'); sys.stdin.readline(); os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "ready\n"  # from the child, which has released it
        assert process.wait(60) == 0  # the parent is gone, its child still waits
        kstore.open(tmp_path).close()
        process.communicate("\n", timeout=60)


def test_nothing_can_be_pickled(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t")
        with store.producer("t") as producer, store.consumer("t") as consumer:
            for each in (store, topic, producer, consumer):
                with pytest.raises(TypeError):
                    pickle.dumps(each)


# --- topics -----------------------------------------------------------------------------------


def test_topics_come_and_go(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t", 2, config=LogConfig(segment_ms=77))
        assert store.create_topic("t", 2, exist_ok=True) is topic
        with pytest.raises(TopicExistsError):
            store.create_topic("t", 2)
        with pytest.raises(TopicExistsError):
            store.create_topic("t", 3, exist_ok=True)
        topic.append(b"x", partition=1)
        assert topic[1].config.segment_ms == 77
        log = topic[1]
        store.delete_topic("t")
        assert list(store) == []
        with pytest.raises(ClosedError):
            log.append(b"x")
        again = store.create_topic("t", 2)
        assert again[1].end_offset == 0
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 1 0\n"
    assert sorted(each.name for each in tmp_path.glob("t-*")) == ["t-0", "t-1"]


def test_a_deleted_topic_leaves_no_checkpoint_behind(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        log.extend([b"x"] * 10)
        log.delete_records(5)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    with kstore.open(tmp_path) as store:
        assert store["t"][0].start_offset == 5
        store.delete_topic("t")
        assert store.create_topic("t")[0].start_offset == 0
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_unknown_topics_bring_close_names(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders")
        with pytest.raises(UnknownTopicOrPartitionError) as caught:
            store["order"]
        assert "'orders'" in caught.value.reason
        assert caught.value.code == 3
        assert isinstance(caught.value, LookupError)


def test_a_topic_id_can_be_given(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t", topic_id="AAAAAAAAQACAAAAAAAAAqg")
        assert topic.topic_id == "AAAAAAAAQACAAAAAAAAAqg"
        metadata = (tmp_path / "t-0" / "partition.metadata").read_text()
        assert metadata == "version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAqg"
        assert len(store.create_topic("u").topic_id or "") == 22


def test_other_settings_reach_logs_that_are_open(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.append(b"x" * 100)
        store.alter_topic("t", config={"segment_bytes": 200, "max_message_bytes": 150})
        for _ in range(3):
            log.append(b"x" * 50)
        assert len(log.segments.views) == 4
        with pytest.raises(kstore.errors.MessageTooLargeError):
            log.append(b"x" * 100)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].config.segment_bytes == 200


# --- several directories ----------------------------------------------------------------------


def test_several_directories_make_one_store(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths) as store:
        store.create_topic("t", 3)
        store.create_topic("u", 3)
        for topic in store.values():
            for log in topic:
                log.append(b"x")
    found = [sorted(each.name for each in path.glob("?-?")) for path in paths]
    assert sorted(found[0] + found[1]) == ["t-0", "t-1", "t-2", "u-0", "u-1", "u-2"]
    assert [len(each) for each in found] == [3, 3]
    for path in paths:
        assert (path / MARKER).exists()
        assert (path / "recovery-point-offset-checkpoint").read_text().count(" 1\n") == 3
    with kstore.open(list(reversed(paths))) as store:
        assert set(store.end_offsets().values()) == {1}
    with kstore.open(paths[0], "r") as store:
        assert sum(len(topic.partitions) for topic in store.values()) == 3


def test_one_locked_directory_of_several_gives_the_others_back(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths[1]):
        with pytest.raises(StoreLockedError) as caught:
            kstore.open(paths)
        assert caught.value.path == str(paths[1] / ".lock")
        kstore.open(paths[0]).close()


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    for each in ("a", "b"):
        (tmp_path / each / "t-0").mkdir(parents=True)
    with pytest.raises(CorruptFileError):
        kstore.open([tmp_path / "a", tmp_path / "b"], "r")
    with pytest.raises(InvalidConfigError):
        kstore.open([tmp_path / "a", tmp_path / "a"], "r")
    with pytest.raises(InvalidConfigError):
        kstore.open([])


def test_an_unclean_directory_does_not_cause_recovery_of_a_clean_one(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths) as store:
        for log in store.create_topic("t", 4):
            log.append(b"x")
    (paths[0] / MARKER).unlink()
    with kstore.open(paths) as store:
        recovered = {log.path: scanned(log) for log in store["t"]}
    assert {path.startswith(str(paths[0])): found for path, found in recovered.items()} == {
        True: 1,
        False: 0,
    }
    assert all((path / MARKER).exists() for path in paths)


# --- a directory that Kafka made --------------------------------------------------------------


def foreign(path: Path) -> list[int]:
    """A directory as Kafka leaves it, with records of ten years ago; its segments' offsets."""
    old = int(time.time() * 1000) - 3650 * DAY_MS
    with kstore.open(path, config=QUIET) as store:
        log = store.create_topic("kafka", config=LogConfig(segment_bytes=2000))[0]
        for number in range(100):
            log.append(b"x" * 100, timestamp=old + number)
        bases = [view.base_offset for view in log.segments.views]
    leave_to_kafka(path)
    assert len(bases) > 5
    return bases


def test_a_foreign_directory_keeps_every_byte(tmp_path: Path) -> None:
    foreign(tmp_path)
    before = snapshot(tmp_path)
    config = StoreConfig(
        log=LogConfig(retention_ms=1, retention_bytes=1, cleanup_policy="compact,delete"),
        retention_check_interval_ms=1,
    )
    with kstore.open(tmp_path, config=config) as store:
        log = store["kafka"][0]
        assert log.config.retention_ms == -1
        store.apply_retention()
        assert log.apply_retention() == 0
        store.create_topic("own").append(b"x", key=b"k")
        time.sleep(0.05)
        with pytest.raises(PolicyViolationError):
            store.delete_topic("kafka")
    after = snapshot(tmp_path)
    for name, (content, _) in before.items():
        if name.startswith("kafka-0"):
            assert after[name][0] == content, name


def test_retention_that_is_asked_for_works_on_a_foreign_topic(tmp_path: Path) -> None:
    bases = foreign(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["kafka"][0]
        store.alter_topic("kafka", config={"retention_ms": DAY_MS, "segment_bytes": 2000})
        store.apply_retention()
        assert log.start_offset == 100 > bases[-1]
        store.delete_topic("kafka")
    assert list(tmp_path.glob("kafka*")) == []


def test_a_topic_of_kafka_is_deleted_with_the_explicit_option(tmp_path: Path) -> None:
    foreign(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        store.delete_topic("kafka", foreign=True)
        assert list(store) == []
    assert list(tmp_path.glob("kafka*")) == []


def test_unrecognized_directories_are_named_and_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found" / "x").write_bytes(b"x")
    with caplog.at_level(logging.WARNING, "kstore"), kstore.open(tmp_path) as store:
        assert store.strangers == (str(tmp_path / "lost+found"),)
        assert list(store) == []
    assert "lost+found" in caplog.text
    assert (tmp_path / "lost+found" / "x").read_bytes() == b"x"


def test_damage_before_later_data_is_cut_only_with_recovery_kafka(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        settings = LogConfig(segment_bytes=1000, batch_size=300)
        log = store.create_topic("t", config=settings)[0]
        log.extend([b"x" * 100] * 30)
    (tmp_path / MARKER).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    first = sorted((tmp_path / "t-0").glob("*.log"))[0]
    write_damaged(first, first.read_bytes()[:-5])
    with (
        kstore.open(tmp_path, config=QUIET) as store,
        pytest.raises(RecoveryNeededError, match=r"recovery=.kafka"),
    ):
        _ = store["t"][0]
    with kstore.open(tmp_path, config=StoreConfig(background=False, recovery="kafka")) as store:
        log = store["t"][0]
        assert log.recovery is not None
        assert log.recovery.cut_size > 0
        assert [record.offset for record in log] == list(range(log.end_offset))
        assert log.end_offset > 0
    assert len(list((tmp_path / "t-0").glob("kstore.cut.*"))) >= 3


def test_a_reader_says_that_recovery_is_due(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t")[0].extend([b"x"] * 10)
        with caplog.at_level(logging.WARNING, "kstore"), kstore.open(tmp_path, "r"):
            assert "recovery is due" not in caplog.text  # another process has it open
    with caplog.at_level(logging.WARNING, "kstore"), kstore.open(tmp_path, "r"):
        assert "recovery is due" not in caplog.text
    (tmp_path / MARKER).unlink()
    log_file = next((tmp_path / "t-0").glob("*.log"))
    write_damaged(log_file, log_file.read_bytes() + b"torn")
    with caplog.at_level(logging.WARNING, "kstore"), kstore.open(tmp_path, "r") as store:
        assert "recovery is due" in caplog.text
        assert store["t"][0].end_offset == 10


def test_a_store_that_does_not_close_at_exit_is_reported(tmp_path, monkeypatch, caplog):
    with kstore.open(tmp_path / "data") as store, monkeypatch.context() as patched:
        patched.setattr(store, "close", lambda: 1 / 0)
        patched.setattr(process_lifetime, "_OPEN", {store})
        close_as_at_exit()
    assert "did not close cleanly" in caplog.text
    assert "data" in caplog.text
