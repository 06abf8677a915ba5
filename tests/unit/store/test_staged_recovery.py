"""A store that recovers in a thread: each partition is used as soon as it is recovered."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.errors import ClosedError, RecoveryNeededError
from kstore.files.files import Files
from kstore.store.open_store import open_to_serve
from kstore.store.store import Store
from support.damage import flip
from support.stores import MARKER, QUIET, copy_as_killed

WAIT = 60


class Waiting(Files):
    """A disk that does not list the folders of the topic "slow" until it may."""

    def __init__(self) -> None:
        self.may_list = threading.Event()
        self.is_listing = threading.Event()

    def listdir(self, path: str | os.PathLike[str]) -> list[str]:
        if os.path.basename(path).startswith("slow-"):
            self.is_listing.set()
            assert self.may_list.wait(WAIT)
        return super().listdir(path)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A directory that a killed writer left: topics "fast" and "slow" of two partitions."""
    with kstore.open(tmp_path / "live", config=QUIET) as store:
        for name in ("fast", "slow"):
            for log in store.create_topic(name, 2):
                log.extend([b"value"] * 10)
        copy_as_killed(tmp_path / "live", tmp_path / "killed")
    return tmp_path / "killed"


@pytest.fixture
def files() -> Iterator[Waiting]:
    disk = Waiting()
    yield disk
    disk.may_list.set()


def start(work: object) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_recovered_partition_is_used_while_another_is_recovered(
    killed: Path, files: Waiting
) -> None:
    reported: list[Store] = []
    is_done = threading.Event()

    def note(store: Store) -> None:
        reported.append(store)
        is_done.set()

    with open_to_serve(killed, config=QUIET, files=files, on_recovered=note) as store:
        recoveries = store._manager.recoveries
        assert files.is_listing.wait(WAIT)
        for partition in (0, 1):  # waits for its own recovery only
            assert store["fast"][partition].append(b"more") == 10
        assert recoveries.is_waiting(("slow", 0))
        assert not recoveries.is_waiting(("fast", 0))
        ends: list[int] = []
        reader = start(lambda: ends.append(store["slow"][1].end_offset))
        assert reported == []
        files.may_list.set()
        reader.join(WAIT)
        assert ends == [10]
        assert is_done.wait(WAIT)
        assert reported == [store]
        assert len(store.recovery.reports) == 4
        assert store.recovery.unclean
    assert (killed / MARKER).exists()
    with kstore.open(killed, config=QUIET) as store:
        assert not store.recovery.unclean
        assert [log.end_offset for log in store["fast"]] == [11, 11]


def test_a_close_ends_the_recovery_and_the_next_opening_recovers(
    killed: Path, files: Waiting
) -> None:
    store = open_to_serve(killed, config=QUIET, files=files)
    assert files.is_listing.wait(WAIT)
    errors: list[Exception] = []

    def read() -> None:
        try:
            len(store["slow"][0])
        except ClosedError as error:
            errors.append(error)

    reader = start(read)
    closing = start(store.close)
    recoveries = store._manager.recoveries
    with recoveries._changed:
        assert recoveries._changed.wait_for(lambda: recoveries._stopping, WAIT)
    files.may_list.set()
    closing.join(WAIT)
    reader.join(WAIT)
    assert not closing.is_alive()
    assert len(errors) == 1
    assert not (killed / MARKER).exists()
    with kstore.open(killed, config=QUIET) as again:
        assert again.recovery.unclean
        assert [log.end_offset for log in again["slow"]] == [10, 10]


def test_a_topic_is_deleted_after_its_recovery(killed: Path, files: Waiting) -> None:
    with open_to_serve(killed, config=QUIET, files=files) as store:
        assert files.is_listing.wait(WAIT)
        deleting = start(lambda: store.delete_topic("slow"))
        assert "slow" in store
        files.may_list.set()
        deleting.join(WAIT)
        assert list(store) == ["fast"]
        store._manager.recoveries.wait_for_all()
        assert not list(killed.glob("slow-*"))


def test_settings_that_change_during_the_recovery_reach_the_log(
    killed: Path, files: Waiting
) -> None:
    with open_to_serve(killed, config=QUIET, files=files) as store:
        assert files.is_listing.wait(WAIT)
        store.alter_topic("slow", {"max.message.bytes": 1234})
        files.may_list.set()
        assert store["slow"][0].config.max_message_bytes == 1234
        assert store["slow"][1].config.max_message_bytes == 1234


def test_a_partition_that_cannot_be_recovered_does_not_block_the_others(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, segment_index_bytes=4096)
    with kstore.open(tmp_path / "live", config=QUIET) as store:
        for log in store.create_topic("t", 2, config=config):
            for _ in range(10):
                log.append(bytes(300))
        copy_as_killed(tmp_path / "live", tmp_path / "killed")
    flip(tmp_path / "killed/t-0" / f"{0:020}.log", 100)
    is_done = threading.Event()
    path = tmp_path / "killed"
    with open_to_serve(path, config=QUIET, on_recovered=lambda store: is_done.set()) as store:
        assert is_done.wait(WAIT)
        assert list(store.recovery.failed) == [("t", 0)]
        with pytest.raises(RecoveryNeededError):
            len(store["t"][0])
        assert store["t"][1].end_offset == 10
    assert not (path / MARKER).exists()


def test_an_interrupted_publication_is_undone_before_any_log_is_used(killed: Path) -> None:
    (killed / "kstore.publishing.x.tmp").touch()
    seen: list[bool] = []
    with open_to_serve(
        killed,
        config=QUIET,
        on_recovered=lambda store: seen.append(store._manager.recoveries.is_complete),
    ) as store:
        assert seen == [True]  # before the store was returned
        assert not (killed / "kstore.publishing.x.tmp").exists()
        assert store["slow"][0].end_offset == 10
