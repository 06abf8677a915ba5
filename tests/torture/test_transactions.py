"""A transaction over two partitions is all or nothing, whenever the process dies.

The directory is copied before every step that a commit, an abort and their beginning take; each
copy is what a kill at that moment leaves. It is opened again, and every reader with
read_committed sees both partitions with the transaction or both without.
"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from time import time_ns

import pytest

import kstore
from kstore.coordinator.transaction.store_transactions import StoreTransactions
from kstore.coordinator.transaction.transaction_state_records import TransactionState
from kstore.log.log import Log
from support.damage import write_damaged
from support.stores import MARKER, QUIET

STEPS = ("store", "flush_state", "flush", "mark")


class Photographer:
    """Copies a directory before every step; a copy has no lock and no clean-shutdown marker."""

    def __init__(self, directory: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.target = target
        self.copies: list[tuple[str, Path]] = []
        for name in STEPS:
            monkeypatch.setattr(StoreTransactions, name, self.around(name))
        producer = kstore.TransactionalProducer
        monkeypatch.setattr(producer, "_write", self.around("_write", producer))
        self.active = False

    def around(self, name: str, owner: type = StoreTransactions) -> Callable[..., object]:
        original = getattr(owner, name)

        def step(thing: object, *arguments: object, **options: object) -> object:
            self.take(f"before {name}")
            return original(thing, *arguments, **options)

        return step

    def take(self, what: str) -> None:
        if self.active:
            copy = self.target / str(len(self.copies))
            shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns(".lock", MARKER))
            self.copies.append((what, copy))


def committed_values(store: kstore.Store, topic: str) -> list[bytes | None]:
    return [record.value for record in store[topic][0].view(isolation="read_committed")]


def stable(log: Log) -> bool:
    return log.last_stable_offset == log.end_offset


@pytest.mark.parametrize("clock", ["runs", "stands", "goes back"])
@pytest.mark.parametrize("commit", [True, False])
def test_all_or_nothing_after_a_kill_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: bool, clock: str
) -> None:
    """Also where all of it happens within one millisecond, or the clock is set back meanwhile."""
    if clock != "runs":
        times = itertools.count(time_ns() // 1_000_000, 0 if clock == "stands" else -1000)
        monkeypatch.setattr(StoreTransactions, "now_ms", lambda self: next(times))
    photographer = Photographer(tmp_path / "store", tmp_path, monkeypatch)
    with kstore.open(tmp_path / "store", config=QUIET) as store:
        for name in ("a", "b", "__transaction_state", "__consumer_offsets"):
            store.create_topic(name)
        producer = store.transactional_producer("id")
        with producer.transaction():
            producer.send("a", b"first")
            producer.send("b", b"first")
        photographer.active = True
        producer.begin_transaction()
        producer.send("a", b"second")
        producer.flush()
        producer.send("b", b"second")
        producer.send_offsets_to_transaction({("a", 0): 1}, "g")
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        photographer.take("at the end")
        photographer.active = False
    outcomes = []
    for what, copy in photographer.copies:
        with kstore.open(copy, mode="r") as store:
            # Before anybody finishes it: nothing of a transaction that is not ended there.
            assert committed_values(store, "a") in ([b"first"], [b"first", b"second"]), what
        with kstore.open(copy, config=QUIET) as store:
            again = store.transactional_producer("id")
            seen = [committed_values(store, name) for name in ("a", "b")]
            with store.consumer(group="g") as consumer:
                offset = consumer.committed(("a", 0))
            committed = seen == [[b"first", b"second"]] * 2 and offset == 1
            nothing = seen == [[b"first"]] * 2 and offset is None
            assert committed != nothing, (what, seen, offset)
            assert all(stable(store[name][0]) for name in ("a", "b", "__consumer_offsets")), what
            with again.transaction():
                again.send("a", b"third")
            assert committed_values(store, "a")[-1] == b"third"
            outcomes.append(committed)
    assert len(outcomes) >= (12 if commit else 9)
    assert outcomes == sorted(outcomes)  # once decided, it stays decided
    assert outcomes[-1] == commit
    # From "before flush_state" on, which follows the decision; an abort is never undone.
    assert outcomes.count(True) == (7 if commit else 0)


def test_after_the_decision_the_next_opening_finishes_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photographer = Photographer(tmp_path / "store", tmp_path, monkeypatch)
    with kstore.open(tmp_path / "store", config=QUIET) as store:
        store.create_topic("a")
        store.create_topic("__transaction_state")
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        producer.send("a", b"1")
        photographer.active = True
        producer.commit_transaction()
        photographer.active = False
    (copy,) = [copy for what, copy in photographer.copies if what == "before mark"]
    with kstore.open(copy, config=QUIET) as store:
        assert committed_values(store, "a") == [b"1"]
        assert store._transactions().coordinator["id"].state is TransactionState.COMPLETE_COMMIT


def test_records_without_a_state_are_aborted(tmp_path: Path) -> None:
    """As after a power cut that took the state and left the records."""
    state = tmp_path / "store" / "__transaction_state-0"
    with kstore.open(tmp_path / "store", config=QUIET) as store:
        store.create_topic("a")
        store.create_topic("__transaction_state")
        producer = store.transactional_producer("id")
        (path,) = state.glob("*.log")
        kept = path.stat().st_size
        producer.begin_transaction()
        producer.send("a", b"1")
        producer.flush()
        shutil.copytree(
            tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock")
        )
        producer.abort_transaction()
    copied = tmp_path / "copy" / state.name / path.name
    write_damaged(copied, copied.read_bytes()[:kept])
    for side in copied.parent.glob("*index"):
        side.unlink()
    with kstore.open(tmp_path / "copy", config=QUIET) as store:
        assert store._transactions().coordinator["id"].state is TransactionState.EMPTY
        log = store["a"][0]
        assert stable(log)
        assert log.end_offset == 2
        assert committed_values(store, "a") == []
