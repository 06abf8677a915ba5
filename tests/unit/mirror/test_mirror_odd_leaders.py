"""A mirror whose leader does not do what it should: stays silent, repeats itself, goes back."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import kstore
from kstore import Store
from kstore.errors import SourceChangedError, SourceError
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror import copy as engine
from kstore.mirror.pace import Pace
from kstore.mirror.source_types import EARLIEST, Fetched, Position
from kstore.mirror.transaction_ends import Endings
from support.stores import QUIET
from support.transactions import TransactionWriter
from unit.mirror.test_mirror import Leader, copied, fill, run
from unit.mirror.test_mirror import leader as leader
from unit.mirror.test_mirror import target as target


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A time that only sleep and fetches advance."""
    now = [0.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        engine.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + max(seconds, 0.01))
    )
    return now


def each_fetch_takes(leader: Leader, clock: list[float], seconds: float = 0.5) -> None:
    leader.before_fetch = lambda: clock.__setitem__(0, clock[0] + seconds)


# --- what is skipped is reported ------------------------------------------------------------------


def test_a_gap_after_an_emptied_copy_is_reported(leader: Leader, target: Store) -> None:
    """The copy holds nothing, but had begun: what the source deleted since is missing."""
    fill(leader, 30)
    leader.store["t"][0].delete_records(-1)
    assert run(leader, target).partitions[0].notes == []
    fill(leader, 30)
    leader.store["t"][0].delete_records(45)
    notes = run(leader, target).partitions[0].notes
    assert notes == ["the source deleted offsets 30 to 44 before they were copied"]


def test_a_gap_while_an_empty_partition_is_followed_is_reported_once(
    leader: Leader, target: Store
) -> None:
    rounds: list[int] = []

    def more() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            fill(leader, 20)
            leader.store["t"][0].delete_records(12)
            leader.errors = [1, 1, 1]

    leader.before_fetch = more
    mirror = Mirror(target, leader, partitions=[0])
    report = mirror.run(follow=True, stop=lambda: len(rounds) >= 9)
    assert report.partitions[0].notes == [
        "the source deleted offsets 0 to 11 before they were copied"
    ]
    assert [r.offset for r in target["t"][0]] == list(range(12, 20))


def test_offsets_without_a_record_at_the_end_are_reported(leader: Leader, target: Store) -> None:
    fill(leader, 10)
    leader.store["t"][0]._require_writer().truncator.skip_to(25)
    (note,) = run(leader, target, partitions=[0]).partitions[0].notes
    assert note.startswith("the leader has no records at offsets 10 to 24")
    assert target["t"][0].end_offset == 25


def test_a_leader_that_is_slow_with_its_records_loses_none(leader: Leader, target: Store) -> None:
    """As one that reads them from a remote tier: it answers without them, and without an error."""
    fill(leader, 10)
    answer_all, empty = leader._answer, [1] * 5

    def answer(number: int, at: Position, size: int) -> Fetched:
        found = answer_all(number, at, size)
        return found._replace(records=b"") if empty and empty.pop() else found

    leader._answer = answer
    run(leader, target, partitions=[0])
    assert copied(target) == copied(leader.store)


def test_each_gap_is_asked_for_as_often(leader: Leader, target: Store) -> None:
    """After one of them, too, an answer without records may be a slow one."""
    fill(leader, 10)
    source = leader.store["t"][0]
    source._require_writer().truncator.skip_to(25)
    answer_all, empty = leader._answer, [0]

    def answer(number: int, at: Position, size: int) -> Fetched:
        if at.offset == 25 and source.end_offset == 25:
            fill(leader, 5)
            empty[0] = 5
        found = answer_all(number, at, size)
        if at.offset < 25 or not empty[0]:
            return found
        empty[0] -= 1
        return found._replace(records=b"")

    leader._answer = answer
    mirror = Mirror(target, leader, partitions=[0])
    report = mirror.run(follow=True, stop=lambda: target["t"][0].end_offset >= 30)
    assert copied(target) == copied(leader.store)
    assert len(report.partitions[0].notes) == 1


def come_late(leader: Leader, steps: dict[int, Callable[[], object]]) -> None:
    """Do a step at the fetch of a number; the five answers from it on have no records.

    If the step leaves an error, that is the answer.
    """
    answer_all, asked, empty = leader._answer, [0], [0]

    def answer(number: int, at: Position, size: int) -> Fetched:
        asked[0] += 1
        if asked[0] in steps:
            steps[asked[0]]()
            empty[0] = 0 if leader.errors else 5
        found = answer_all(number, at, size)
        empty[0] -= 1
        return found if empty[0] < 0 else found._replace(records=b"")

    leader._answer = answer


def follow_to(leader: Leader, target: Store, end: int) -> MirrorReport:
    mirror = Mirror(target, leader, partitions=[0])
    return mirror.run(follow=True, stop=lambda: target["t"][0].end_offset >= end)


def test_answers_up_to_an_end_that_went_back_do_not_count(leader: Leader, target: Store) -> None:
    """It reports 20, has nothing behind 5, and continues from there."""
    fill(leader, 5)
    offsets = leader.offsets
    leader.offsets = lambda numbers, when: (
        offsets(numbers, when) if when == EARLIEST else dict.fromkeys(numbers, 20)
    )
    come_late(leader, {15: lambda: fill(leader, 9)})
    assert follow_to(leader, target, 14).partitions[0].notes == []
    assert copied(target) == copied(leader.store)


def test_the_answers_are_counted_anew_after_the_end_was_reached(
    leader: Leader, target: Store
) -> None:
    fill(leader, 5)

    def go_back() -> None:
        leader.store["t"][0].truncate_to(5)
        leader.errors = [1]

    fill_more = partial(fill, leader, 9)
    come_late(leader, {3: fill_more, 8: go_back, 15: fill_more, 20: go_back, 26: fill_more})
    assert follow_to(leader, target, 14).partitions[0].notes == []
    assert copied(target) == copied(leader.store)


# --- every wait ends --------------------------------------------------------------------------


def test_a_leader_whose_log_ends_before_the_end_that_it_reported(
    leader: Leader, target: Store, clock: list[float]
) -> None:
    """Its end went back (an unclean election): there is nothing to wait for."""
    fill(leader, 9)
    each_fetch_takes(leader, clock)
    offsets, ends = leader.offsets, [20]
    leader.offsets = lambda numbers, when: (
        dict.fromkeys(numbers, ends.pop()) if when != EARLIEST and ends else offsets(numbers, when)
    )
    (note,) = run(leader, target, partitions=[0]).partitions[0].notes
    assert note.startswith("the source ended at 20, and ends at 9 now")
    assert copied(target) == copied(leader.store)


def test_a_leader_that_never_sends_what_it_says_it_has(
    leader: Leader, target: Store, clock: list[float]
) -> None:
    fill(leader, 9)
    each_fetch_takes(leader, clock)
    offsets = leader.offsets
    leader.offsets = lambda numbers, when: (
        offsets(numbers, when) if when == EARLIEST else dict.fromkeys(numbers, 20)
    )
    with pytest.raises(SourceError, match="ends at 20, but sends nothing beyond 9") as caught:
        run(leader, target, partitions=[0])
    assert caught.value.offset == 9
    assert clock[0] < 120


def test_a_leader_that_does_not_say_how_a_transaction_ended_is_given_up(
    tmp_path: Path, clock: list[float]
) -> None:
    with kstore.open(tmp_path / "s", config=QUIET) as source, kstore.open(tmp_path / "c") as here:
        source.create_topic("t", 1)
        teller = TransactionWriter(source["t"][0])
        teller.data(7, 3)
        leader = Leader(source, "t")
        run(leader, here)
        source["t"][0]._require_writer().truncator.skip_to(9)
        teller.data(-1, 3)
        fetch = leader.fetch
        leader.fetch = lambda positions, **rest: (
            {} if rest["max_wait_ms"] == 0 else fetch(positions, **rest)
        )
        with pytest.raises(SourceError, match="no leader has answered"):
            run(leader, here)
        assert clock[0] < 60


def test_a_leader_that_repeats_its_first_batch_does_not_loop(tmp_path: Path) -> None:
    """Asked for the rest of a transaction, it sends what is before it."""
    with kstore.open(tmp_path / "s", config=QUIET) as source:
        source.create_topic("t", 1)
        log = source["t"][0]
        teller = TransactionWriter(log)
        teller.data(-1, 2)
        first = bytes(log.read(0, 1))
        teller.data(7, 3)
        asked: list[Position] = []

        def ask(at: Position, room: int) -> Fetched | None:
            asked.append(at)
            assert len(asked) < 9
            return Fetched(0, 9, 0, first, None, 9)

        endings = Endings(log, ask)
        (entry,) = endings.opened()
        assert endings._is_gone(entry) is None


def test_the_last_error_is_named_when_a_partition_is_given_up(
    leader: Leader, target: Store
) -> None:
    fill(leader, 9)
    run(leader, target, partitions=[0])
    fill(leader, 1)
    leader.errors = [6] * 10**4
    with pytest.raises(SourceError, match="broker 1 answers error 6") as caught:
        run(leader, target, partitions=[0])
    assert (caught.value.offset, caught.value.path) == (9, target["t"][0].path)
    leader.errors = [29] * 9
    with pytest.raises(SourceError, match="broker 1 refuses: error 29") as caught:
        run(leader, target, partitions=[0])
    assert caught.value.offset == 9


def test_a_leader_that_is_not_reached_is_named(leader: Leader, target: Store) -> None:
    fill(leader, 1)
    leader.fetch = lambda *_, **__: {}
    with pytest.raises(SourceError, match="last problem: broker 1 is gone"):
        run(leader, target, partitions=[0])


def test_a_leader_that_is_noticed_late_to_be_gone_has_a_successor(
    leader: Leader, target: Store, clock: list[float]
) -> None:
    """A socket that stays silent costs as much time as a trouble may last."""
    fill(leader, 1)
    fetch, silent = leader.fetch, [1]

    def hang(positions, **rest):
        if not silent:
            return fetch(positions, **rest)
        silent.pop()
        clock[0] += 31
        return {}

    leader.fetch = hang
    run(leader, target, partitions=[0])
    assert copied(target) == copied(leader.store)


def test_a_leader_that_refuses_the_copy_s_end_for_ever_is_given_up(
    leader: Leader, target: Store, clock: list[float]
) -> None:
    """The comparison of the last batch goes well each time; that is no success of the copy."""
    fill(leader, 9)
    run(leader, target, partitions=[0])
    fill(leader, 1)
    each_fetch_takes(leader, clock)
    answer_all = leader._answer
    leader._answer = lambda number, at, size: (
        Fetched(1, -1, -1, b"") if at.offset == 9 else answer_all(number, at, size)
    )
    with pytest.raises(SourceError, match="last problem: broker 1 answers error 1"):
        Mirror(target, leader, partitions=[0]).run(stop=lambda: clock[0] > 99)


# --- the last batch ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", [6, 5, -1], ids=["moved", "none", "silent"])
def test_the_last_batch_is_compared_even_if_the_leader_moves(
    leader: Leader, target: Store, code: int
) -> None:
    leader.id = None  # neither an id nor an epoch says it
    fill(leader, 9)
    run(leader, target)
    leader.store["t"][0].truncate_to(5)
    for _ in range(20):
        leader.store["t"][0].append(b"other")
    before = copied(target)
    if code > 0:
        leader.errors = [code]
    else:
        fetch, silent = leader.fetch, [1]
        leader.fetch = lambda positions, **rest: (
            {} if silent and silent.pop() else fetch(positions, **rest)
        )
    with pytest.raises(SourceChangedError, match="last batch"):
        run(leader, target)
    assert copied(target) == before


def test_the_last_batch_is_compared_with_a_broker_that_cuts_it(
    leader: Leader, target: Store
) -> None:
    """Fetch versions up to 2 cut the first batch, too."""
    leader.id = None
    fill(leader, 9)
    run(leader, target)
    leader.store["t"][0].truncate_to(5)
    for _ in range(20):
        leader.store["t"][0].append(b"other")
    answer_all = leader._answer

    def answer(number: int, at: Position, size: int) -> Fetched:
        found = answer_all(number, at, size)
        return found._replace(records=found.records[:size])

    leader._answer = answer
    with pytest.raises(SourceChangedError, match="last batch"):
        run(leader, target)


def other_records(leader: Leader) -> None:
    """The source has other records than the copy; neither an id nor an epoch says it."""
    leader.id = None
    leader.store["t"][0].truncate_to(5)
    for _ in range(20):
        leader.store["t"][0].append(b"other")


def test_the_last_batch_is_asked_for_again_where_it_does_not_come(
    leader: Leader, target: Store
) -> None:
    fill(leader, 9)
    leader.id = None
    run(leader, target, partitions=[0])
    other_records(leader)
    come_late(leader, {1: list})
    with pytest.raises(SourceChangedError, match="last batch"):
        run(leader, target, partitions=[0])


def test_a_last_batch_that_never_comes_is_reported(leader: Leader, target: Store) -> None:
    fill(leader, 9)
    run(leader, target, partitions=[0])
    answer_all = leader._answer
    leader._answer = lambda *asked: answer_all(*asked)._replace(records=b"")
    (note,) = run(leader, target, partitions=[0]).partitions[0].notes
    assert note.startswith("the leader sends nothing from offset 8 on: the last batch")


def test_a_run_is_stopped_before_the_last_batch_was_compared(
    leader: Leader, target: Store, clock: list[float]
) -> None:
    """Nothing is deleted in a copy that may be none of this source."""
    fill(leader, 9)
    leader.id = None
    run(leader, target, partitions=[0])
    other_records(leader)
    leader.store["t"][0].delete_records(7)
    leader.errors = [6] * 10**4
    report = Mirror(target, leader, partitions=[0]).run(stop=lambda: clock[0] > 3)
    assert (report.partitions[0].start_offset, report.partitions[0].end_offset) == (0, 9)
    assert clock[0] < 5


# --- the rate ---------------------------------------------------------------------------------


def test_an_idle_time_is_not_made_up_for(clock: list[float]) -> None:
    pace = Pace(1000)
    pace.keep(3000, lambda: False)
    assert clock[0] == pytest.approx(3, abs=0.3)
    clock[0] = 1000.0
    pace.keep(10_000, lambda: False)
    assert clock[0] == pytest.approx(1009, abs=0.3)


def test_a_wait_for_the_rate_ends_with_the_run(clock: list[float]) -> None:
    asked: list[int] = []
    Pace(1).keep(10**9, lambda: len(asked) > 2 or bool(asked.append(1)))
    assert clock[0] < 2


def test_a_batch_beyond_the_rate_is_copied_from_an_old_broker(
    leader: Leader, target: Store
) -> None:
    leader.store["t"][0].append(b"x" * 1800)
    answer_all = leader._answer

    def answer(number: int, at: Position, size: int) -> Fetched:
        found = answer_all(number, at, size)
        return found._replace(records=found.records[:size])

    leader._answer = answer
    run(leader, target, partitions=[0], max_bytes_per_second=1000)
    assert copied(target) == copied(leader.store)
