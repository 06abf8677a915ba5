"""A process is killed before it writes the end markers again that a truncation has removed."""

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.coordinator.transaction import end_markers
from kstore.coordinator.transaction.end_markers import AppendedMarker, append_marker
from kstore.errors import NewerFormatError
from kstore.files.files import DISK
from kstore.recovery.removed_ends import (
    RemovedEnd,
    RemovedEnds,
    load_removed_ends,
    write_removed_ends,
)
from support.stores import QUIET, copy_as_killed
from support.waiting import until

ENDS = Path("t-0") / "kstore.ends"


def committed(store: kstore.Store) -> list[bytes | None]:
    return [each.value for each in store["t"][0].view(isolation="read_committed")]


def transact(producer: kstore.TransactionalProducer, value: bytes, *, commit: bool) -> None:
    producer.begin_transaction()
    producer.send("t", value, partition=0)
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool) -> Path:
    """A store with one transaction whose end a truncation removed, and that of a later one."""
    live, copy = tmp_path / "live", tmp_path / "killed"

    def photograph(log: kstore.Log, *arguments: Any, **options: Any) -> AppendedMarker:
        copy_as_killed(live, copy)
        return append_marker(log, *arguments, **options)

    with kstore.open(live, config=QUIET) as store:
        log = store.create_topic("t")[0]
        with store.transactional_producer("p") as producer:
            transact(producer, b"first", commit=is_committed)
            transact(producer, b"second", commit=not is_committed)
            monkeypatch.setattr(end_markers, "append_marker", photograph)
            log.truncate_to(1)
            monkeypatch.undo()
        assert log.end_offset == 2
        assert not (live / ENDS).exists()
    assert copy.exists()
    return copy


both = pytest.mark.parametrize("is_committed", [False, True])
aborted = pytest.mark.parametrize("is_committed", [False])


@pytest.mark.parametrize("is_served", [False, True])
@both
def test_the_next_opening_writes_the_markers(
    killed: Path, is_committed: bool, is_served: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shown = [b"first"] * is_committed
    with kstore.open(killed, config=QUIET) as store:
        owner: AbstractContextManager[object] = nullcontext()
        if is_served:
            owner = kstore.Broker(store, port=0)
        with owner, store.transactional_producer("p") as producer:
            log = store["t"][0]
            until(lambda: log.last_stable_offset == log.end_offset)
            assert log.end_offset == 2
            assert committed(store) == shown
            assert not (killed / ENDS).exists()
            transact(producer, b"next", commit=True)
            assert committed(store) == [*shown, b"next"]
    kind = "commit" if is_committed else "abort"
    assert f"t-0: the truncation removed the {kind} marker" in caplog.text


@pytest.mark.parametrize(("log_end", "is_kept"), [(4, True), (5, True), (8, True), (6, False)])
def test_the_file_is_void_once_another_program_has_appended(
    tmp_path: Path, log_end: int, is_kept: bool
) -> None:
    """Its records may be of the same transaction: a Kafka broker does not know the file."""
    removed = RemovedEnds(5, (8, 10), (RemovedEnd(1, 2, is_commit=False),), 5)
    write_removed_ends(DISK, str(tmp_path), removed)
    found = load_removed_ends(DISK, str(tmp_path), log_end)
    assert found == (removed._replace(log_end=log_end) if is_kept else None)
    assert (tmp_path / "kstore.ends").exists() == is_kept


@aborted
def test_a_file_that_does_not_parse_is_ignored(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (killed / ENDS).write_text("{}")
    with kstore.open(killed, config=QUIET) as store:
        assert store["t"][0].last_stable_offset >= 0
    assert "kstore.ends does not parse" in caplog.text


@aborted
def test_a_newer_file_is_refused(killed: Path) -> None:
    document = json.loads((killed / ENDS).read_text())
    (killed / ENDS).write_text(json.dumps({**document, "format": 2}))
    with kstore.open(killed, config=QUIET) as store:
        assert isinstance(store.recovery.failed["t", 0], NewerFormatError)
