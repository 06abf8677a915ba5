"""A mirror whose source is compacted: the end of a transaction may be gone before it is copied.

Source and copy are stores of kstore's own; the same with Kafka's brokers and cleaner is in
tests/interop/test_mirror_compacted.py.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store
from kstore.cli.mirror import print_report
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror import copy as engine
from kstore.mirror.source_types import Fetched, Position
from support.stores import QUIET
from support.transactions import TransactionWriter
from unit.mirror.test_mirror import Leader, copied

COMPACTED = LogConfig(
    cleanup_policy="compact",
    delete_retention_ms=0,
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
)
COMMITTED = "read_committed"


class Source(Leader):
    """A leader of one partition, its transactions, and a cleaner that runs when it is called."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "t")
        self.log = store["t"][0]
        self.teller = TransactionWriter(self.log)

    def transaction(self, count: int, producer_id: int = 7) -> None:
        self.teller.data(producer_id, count)

    def end(self, *, commit: bool, producer_id: int = 7) -> int:
        self.teller.end(producer_id, commit=commit)
        return self.log.end_offset - 1

    def overwrite(self, count: int) -> None:
        """Newer records of the keys k0, k1, ... that each batch of the teller's has."""
        self.teller.data(-1, count)

    def clean(self, times: int = 4) -> None:
        """Compact all records; what follows keeps the last batch from being it."""
        for _ in range(times):
            self.teller.data(-1, 1)
            self.log.roll()
            self.log.compact()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with kstore.open(tmp_path / "source", config=QUIET) as store:
        store.create_topic("t", config=COMPACTED)
        yield Source(store)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path / "copy", config=QUIET) as store:
        yield store


def run(source: Source, target: Store) -> MirrorReport:
    return Mirror(target, source).run()


def shown(store: Store, isolation: str = COMMITTED) -> list[int]:
    return [record.offset for record in store["t"][0].view(isolation=isolation)]


def is_stable(store: Store) -> bool:
    log = store["t"][0]
    report = log.verify()
    assert (report.findings, report.warnings) == ([], [])
    return log.last_stable_offset == log.end_offset


def holds(source: Source, offset: int) -> bool:
    """Whether the source has a batch that begins at an offset."""
    found = source.log.read(offset, 1)
    return found is not None and found.next_offset - 1 >= offset == _first(bytes(found))


def _first(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "continues"])
@pytest.mark.parametrize("commit", [False, True], ids=["abort", "commit"])
def test_an_end_that_was_compacted_away(
    source: Source, target: Store, capsys: pytest.CaptureFixture[str], commit: bool, goes_on: bool
) -> None:
    """Nothing shows what it was: it is reported as not committed, and the status is not 0."""
    source.overwrite(5)
    source.transaction(20)  # offsets 5 to 24
    assert run(source, target).ok
    assert target["t"][0].last_stable_offset == 5
    end = source.end(commit=commit)
    source.overwrite(30)
    if goes_on:
        source.transaction(3)
        source.end(commit=True)
    source.clean()
    assert not holds(source, 5)

    report = run(source, target)
    assert not report.ok
    ((producer_id, first, marker),) = report.partitions[0].undecided
    assert (producer_id, first) == (7, 5)
    assert marker <= end
    print_report(report)
    assert "its outcome is unknown" in capsys.readouterr().out
    assert is_stable(target)
    assert set(range(5, 25)) <= set(shown(target, "read_uncommitted"))
    assert not set(range(5, 25)) & set(shown(target))
    theirs = [r.offset for r in source.log.view(isolation=COMMITTED)]
    assert [offset for offset in shown(target) if offset > 24] == theirs

    again = run(source, target)  # the marker that was written here is no other source
    assert again.ok
    assert again.bytes == 0


def test_a_copy_ends_at_an_emptied_batch_as_its_source_does(source: Source, target: Store) -> None:
    """As Kafka's cleaner leaves it: the batch of the marker, and no record in it."""
    source.overwrite(1)
    source.transaction(20)
    run(source, target)
    source.log.truncate_to(1)
    source.log._require_writer().truncator.skip_to(21)
    source.teller.empty(7)
    source.overwrite(3)
    report = run(source, target)
    assert [each.end_offset for each in report.partitions[0].undecided] == [21]
    assert is_stable(target)
    assert shown(target) == [0, 22, 23, 24]


class SmallFetches:
    """Small answers, so that a run sees the source in between; ``at`` runs before the nth."""

    def __init__(
        self, source: Source, monkeypatch: pytest.MonkeyPatch, at: dict[int, Callable[[], None]]
    ) -> None:
        monkeypatch.setattr(engine, "_PAUSE", 0)
        self.count = 0
        answer_all = source._answer

        def answer(number: int, position: Position, size: int) -> Fetched:
            at.get(self.count, lambda: None)()
            self.count += 1
            return answer_all(number, position, 1)

        source._answer = answer


@pytest.mark.parametrize("commit", [False, True], ids=["abort", "commit"])
def test_a_decision_that_came_with_the_records_is_kept_after_they_are_compacted(
    source: Source, target: Store, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """One answer has the records, the list of aborted ones with them; the next has no end."""
    source.transaction(20)
    source.end(commit=commit)
    source.overwrite(30)

    def clean() -> None:
        source.clean()
        assert not holds(source, 0)

    SmallFetches(source, monkeypatch, {1: clean})
    report = run(source, target)
    assert report.ok
    assert is_stable(target)
    assert set(range(20)) <= set(shown(target, "read_uncommitted"))
    assert (set(range(20)) <= set(shown(target))) is commit


@pytest.mark.parametrize("commit", [False, True], ids=["abort", "commit"])
def test_records_that_are_copied_open_and_then_decided(
    source: Source, target: Store, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """A follower asks what became of them while the leader still has them."""
    source.transaction(20)
    source.transaction(5, producer_id=8)
    run(source, target)
    source.overwrite(30)
    source.end(commit=commit)
    # One round brings the records behind the transaction, and that it is decided.
    SmallFetches(source, monkeypatch, {})
    mirror = Mirror(target, source)
    mirror.run(follow=True, stop=lambda: target["t"][0].end_offset > 25)
    mirror.run()
    assert mirror.report().ok
    assert target["t"][0].last_stable_offset == 20
    source.end(commit=False, producer_id=8)
    mirror.run()
    assert is_stable(target)
    assert (0 in shown(target)) is commit


@pytest.mark.parametrize("commit", [False, True], ids=["abort", "commit"])
def test_a_decision_seen_while_following_is_kept_after_the_records_are_compacted(
    source: Source, target: Store, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """Copied open, decided before the marker is copied, and compacted away just then."""
    source.transaction(20)

    def decide() -> None:
        source.overwrite(1)
        source.end(commit=commit)
        source.overwrite(30)

    def clean() -> None:
        assert target["t"][0].end_offset == 21
        source.clean()
        assert not holds(source, 0)

    # The answers: nothing stable, the open records, one record more, and what became of them.
    SmallFetches(source, monkeypatch, {2: decide, 4: clean})
    mirror = Mirror(target, source)
    mirror.run(follow=True, stop=lambda: target["t"][0].end_offset > 54)
    assert mirror.report().ok
    assert is_stable(target)
    assert (0 in shown(target)) is commit
    assert 20 in shown(target)


def test_a_transaction_whose_records_remain_is_copied_with_its_marker(
    source: Source, target: Store
) -> None:
    """Other records went; the transaction's remain, and so does its marker, to be copied."""
    source.overwrite(5)
    source.transaction(5)
    run(source, target)
    source.overwrite(2)
    source.overwrite(2)
    source.overwrite(2)
    end = source.end(commit=True)
    source.clean(1)
    report = run(source, target)
    assert report.ok
    assert is_stable(target)
    assert end in [b for b in range(end + 1) if holds(source, b)]
    assert {7, 8, 9} <= set(shown(target))


def test_other_transactions_of_the_seam(source: Source, target: Store) -> None:
    """Two are open where the copy ends; one went with its marker, the other remains."""
    source.transaction(4, producer_id=8)
    source.transaction(9)
    run(source, target)
    source.end(commit=False)
    source.end(commit=True, producer_id=8)
    source.overwrite(3)
    source.clean()
    assert holds(source, 0)
    assert not holds(source, 4)
    report = run(source, target)
    assert [each.producer_id for each in report.partitions[0].undecided] == [7]
    assert is_stable(target)
    assert 3 in shown(target)
    assert not set(range(4, 13)) & set(shown(target))


def test_retention_took_the_end(source: Source, target: Store) -> None:
    """The source begins behind it. What is kept here is not left open forever."""
    source.transaction(9)
    run(source, target)
    source.end(commit=True)
    source.overwrite(9)
    source.log.configure(LogConfig(cleanup_policy="delete", file_delete_delay_ms=0))
    source.log.roll()
    source.log.delete_records(15)
    report = Mirror(target, source, keep_deleted=True).run()
    assert [each.first_offset for each in report.partitions[0].undecided] == [0]
    assert is_stable(target)
    assert shown(target) == list(range(10, 19))  # complete batches are copied


def test_a_leader_that_does_not_answer_is_asked_again(
    source: Source, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_PAUSE", 0)
    source.transaction(20)
    run(source, target)
    source.end(commit=False)
    source.overwrite(30)
    source.clean()
    refused: list[Position] = []
    answer_all = source._answer

    def answer(number: int, position: Position, size: int) -> Fetched:
        if position.offset == 0 and len(refused) < 3:
            refused.append(position)
            return Fetched(6, -1, -1, b"")
        return answer_all(number, position, size)

    source._answer = answer
    report = run(source, target)
    assert len(refused) == 3
    assert len(report.partitions[0].undecided) == 1
    assert is_stable(target)


def test_nothing_is_written_where_nothing_is_missing(source: Source, target: Store) -> None:
    for n in range(12):
        source.transaction(3, producer_id=n % 3)
        if n % 3 == 2:
            source.end(commit=True, producer_id=0)
            source.end(commit=False, producer_id=1)
        run(source, target)
    assert copied(target) == copied(source.store)
