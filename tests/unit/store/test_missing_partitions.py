"""Partitions that ``kstore.topics`` has and no log directory has; deletions that left folders."""

import errno
import json
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.cli import main
from kstore.errors import StorageError, TopicExistsError, UnknownTopicOrPartitionError
from kstore.files.files import DISK, Files
from kstore.segment import header_checksums
from kstore.store.remove_tree import remove_tree
from support.stores import QUIET

NO_DELAY = LogConfig(file_delete_delay_ms=0)


def fill(path: Path | list[Path], partitions: int) -> None:
    with kstore.open(path, config=QUIET) as store:
        for log in store.create_topic("t", partitions):
            log.extend([b"old"] * 10)


def test_a_lost_partition_is_not_created_again_by_adding_partitions(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    shutil.rmtree(tmp_path / "t-1")
    with kstore.open(tmp_path, config=QUIET) as store:
        with pytest.raises(UnknownTopicOrPartitionError, match="restore t-1, or delete the topic"):
            store.add_partitions("t", 4)
        assert store["t"].partitions == (0, 2)
    assert not (tmp_path / "t-1").exists()
    assert not (tmp_path / "t-3").exists()


def test_a_partition_of_a_directory_that_was_not_given_is_not_created_again(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    fill(dirs, 4)
    with (
        kstore.open(dirs[0], config=QUIET) as store,
        pytest.raises(UnknownTopicOrPartitionError, match="all its log directories"),
    ):
        store.add_partitions("t", 6)
    with kstore.open(dirs, config=QUIET) as store:
        assert len(store.add_partitions("t", 6)) == 6
        assert [log.end_offset for log in store["t"]] == [10] * 4 + [0] * 2


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_lost_partition_is_a_warning_when_the_topic_is_read(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, 3)
    shutil.rmtree(tmp_path / "t-1")
    with (
        caplog.at_level(logging.WARNING, "kstore"),
        kstore.open(tmp_path, mode, config=QUIET) as store,
    ):
        assert sum(1 for log in store["t"] for _ in log) == 20
    assert [each.getMessage() for each in caplog.records if "t-1" in each.getMessage()] == [
        "kstore.topics has t-1, but no such folder exists: lost, or in a log directory that was "
        "not given: reads of the topic lack its records"
    ]


def test_a_topic_without_any_folder_is_not_created_again_before_it_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(dirs[1:], config=QUIET) as store:
        store.create_topic("t", 2)
    with kstore.open(dirs, config=QUIET) as store:
        store.create_topic("other")
    known = (dirs[1] / "kstore.topics").read_bytes()
    with kstore.open(dirs[0], config=QUIET) as store:
        warned = [each.getMessage() for each in caplog.records]
        assert warned[0].startswith("kstore.topics has t-0, t-1, but no such folder exists: lost")
        assert warned[0].endswith("to give them up, delete the topic")
        assert "t" not in store
        assert sum("t-0, t-1" in each for each in warned) == 1
        with pytest.raises(UnknownTopicOrPartitionError, match="has t-0, t-1, but no such folder"):
            store["t"]
        for _ in range(2):
            with pytest.raises(TopicExistsError, match="directory that was not given"):
                store.create_topic("t")
    with kstore.open(dirs, config=QUIET) as store:
        assert (dirs[1] / "kstore.topics").read_bytes() == known
        assert len(store["t"]) == 2
    with kstore.open(dirs[0], config=QUIET) as store:
        store.delete_topic("t", missing_ok=True)
        assert store.create_topic("t")[0].end_offset == 0
        assert len(caplog.records) == 2  # of the first and of this opening


def test_a_topic_without_any_folder_is_deleted_by_the_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, 2)
    for number in range(2):
        shutil.rmtree(tmp_path / f"t-{number}")
    words = ["topics", "--topic", "t", "--log-dir", str(tmp_path)]
    assert main([*words, "--describe"]) == 1
    assert "does not exist as expected: kstore.topics has t-0, t-1" in capsys.readouterr().out
    assert main([*words, "--create"]) == 1
    assert "cannot be created: kstore.topics has t-0, t-1" in capsys.readouterr().out
    assert main([*words, "--delete", "--dry-run"]) == 0
    assert "Topic t would be deleted (0 partitions)" in capsys.readouterr().out
    assert main([*words, "--delete"]) == 0
    assert main([*words, "--create"]) == 0


def test_a_damaged_entry_without_folders_keeps_no_broker_from_starting(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("other")
    shutil.rmtree(tmp_path / "t-0")
    path = tmp_path / "kstore.topics"
    document = json.loads(path.read_text())
    document["topics"]["t"]["partitions"] = "x"
    path.write_text(json.dumps(document))
    with kstore.open(tmp_path, config=QUIET) as store, kstore.Broker(store, port=0) as broker:
        assert broker.port > 0
        with pytest.raises(UnknownTopicOrPartitionError):
            store["t"]


def test_a_stray_number_of_a_topic_does_not_make_others_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder such as ``t-20240101``: only kstore.topics says which partitions there should be."""
    fill(tmp_path, 2)
    shutil.rmtree(tmp_path / "t-1")
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-20240101")
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"].partitions == (0, 20240101)
    [warned] = [each for each in caplog.messages if "no such folder" in each]
    assert warned.startswith("kstore.topics has t-1, but no such folder exists")


def test_a_topic_with_an_unfinished_move_can_be_created_again_once_deleted(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(dirs, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.append(b"x" * 1000)
        target = dirs[Path(log.path).parent == dirs[0]]

        def stop(done: int, total: int) -> None:
            raise InterruptedError

        with pytest.raises(InterruptedError):
            store.move("t", 0, target, progress=stop)
        store.delete_topic("t")
        assert store.create_topic("t")[0].end_offset == 0


def test_a_partition_behind_a_link_is_deleted_with_its_link(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with kstore.open(data, config=QUIET) as store:
        store.create_topic("t", config=NO_DELAY)[0].append(b"x")
    shutil.move(data / "t-0", other)
    (data / "t-0").symlink_to(other)
    with kstore.open(data, config=QUIET) as store:
        assert store["t"][0].end_offset == 1
        store.delete_topic("t")
        assert not [each for each in os.listdir(data) if each.startswith("t-")]
        assert store.create_topic("t")[0].end_offset == 0
    assert (other / f"{0:020}.log").exists()


def test_a_link_without_a_target_is_removed(tmp_path: Path) -> None:
    (tmp_path / "t-0.0-delete").symlink_to(tmp_path / "nowhere")
    remove_tree(DISK, str(tmp_path / "t-0.0-delete"))
    assert os.listdir(tmp_path) == []


class Held(Files):
    """Stops the thread that has renamed a replaced segment, until another one has failed."""

    def __init__(self) -> None:
        self.is_armed = False
        self.renamed, self.failed = threading.Event(), threading.Event()

    def rename(self, source: Any, target: Any) -> None:
        super().rename(source, target)
        if self.is_armed and str(target).endswith(".log.deleted"):
            self.is_armed = False
            self.renamed.set()
            assert self.failed.wait(30)

    def open(self, path: Any, flags: int = os.O_RDONLY) -> int:
        return self._failing(super().open, path, flags)

    def modified_ns(self, path: Any) -> int:
        return self._failing(super().modified_ns, path)

    def _failing(self, call: Any, *arguments: Any) -> int:
        try:
            return int(call(*arguments))
        except StorageError:
            if self.renamed.is_set():
                self.failed.set()
            raise


def test_the_cleaner_that_meets_a_compaction_by_hand_reports_no_failure(tmp_path: Path) -> None:
    failures: list[Any] = []
    config = StoreConfig(
        background=False, log_cleaner_enable=False, on_background_error=failures.append
    )
    files = Held()
    with kstore.Store(tmp_path, config=config, files=files) as store:
        settings = LogConfig(
            segment_bytes=500, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0
        )
        log = store.create_topic("t", config=settings)[0]
        for number in range(30):
            log.append(b"x" * 100, key=b"%d" % (number % 3))
        files.is_armed = True
        by_hand = threading.Thread(target=log.compact)
        by_hand.start()
        assert files.renamed.wait(30)
        manager = store._manager
        try:
            manager.cleaner.grab_filthiest(manager)
        finally:
            files.failed.set()
            by_hand.join(30)
        assert failures == []
        assert store.background_failures == ()


def test_a_segment_that_left_the_log_gives_no_warning_about_checksums(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kstore"):
        assert not header_checksums.write(DISK, tmp_path, 0)
        assert caplog.records == []

        class Full(Files):
            def open(self, path: Any, flags: int = os.O_RDONLY) -> int:
                if flags != os.O_RDONLY:
                    raise StorageError("cannot open", errno=errno.ENOSPC, path=path)
                return super().open(path, flags)

        (tmp_path / f"{0:020}.log").write_bytes(b"")
        header_checksums.write(Full(), tmp_path, 0)
        assert "no header checksums were written" in caplog.text
