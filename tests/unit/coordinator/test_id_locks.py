"""The locks of transactional ids: one call at a time for an id, and no lock of an unused id."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kstore.coordinator.transaction.embedded_coordinator import EmbeddedCoordinator
from kstore.coordinator.transaction.id_locks import IdLocks
from unit.coordinator.test_transaction_coordinator import A, Hands

THREADS = 8
TURNS = 300
WAIT = 60.0


def wait_for_users(locks: IdLocks, users: int) -> None:
    until = time.monotonic() + WAIT
    while locks._locks["t"].users < users:
        assert time.monotonic() < until, f"{locks._locks['t'].users} of {users} users"
        time.sleep(0.001)


def test_turns_of_one_id_do_not_overlap_and_leave_no_lock() -> None:
    """Threads that come and go free the lock of an id, and make it again, all the time."""
    locks, inside, overlaps = IdLocks(), {"t": 0, "u": 0}, []
    start = threading.Barrier(THREADS)

    def work(number: int) -> None:
        start.wait()
        for turn in range(TURNS):
            name = "tu"[(number + turn) % 2]
            with locks.turn(name):
                inside[name] += 1
                if inside[name] != 1:
                    overlaps.append(name)
                inside[name] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    assert inside == {"t": 0, "u": 0}
    assert len(locks) == 0


def test_a_lock_stays_while_another_thread_waits_for_it() -> None:
    """Freed with its holder, it would let a third thread in beside the one that waited."""
    locks, order = IdLocks(), []
    inside, third = threading.Event(), threading.Event()

    def second() -> None:
        with locks.turn("t"):
            order.append("second in")
            inside.set()
            third.wait(WAIT)
            order.append("second out")

    def last() -> None:
        with locks.turn("t"):
            order.append("third in")

    with locks.turn("t"):
        thread = threading.Thread(target=second)
        thread.start()
        wait_for_users(locks, 2)
    assert inside.wait(WAIT)  # before the third, which a lock that is free may prefer
    another = threading.Thread(target=last)
    another.start()
    wait_for_users(locks, 2)
    third.set()
    thread.join()
    another.join()
    assert order == ["second in", "second out", "third in"]
    assert len(locks) == 0


def test_a_turn_may_be_taken_within_a_turn_and_fail() -> None:
    locks = IdLocks()

    def fail() -> None:
        with locks.turn("t"), locks.turn("t"):
            assert len(locks) == 1
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert len(locks) == 0


def test_a_coordinator_keeps_no_lock_of_an_id() -> None:
    """A process that takes a new id for each run keeps their states until they expire."""
    hands = Hands()
    coordinator = EmbeddedCoordinator(hands, max_timeout_ms=900_000)
    names = [f"run-{number}" for number in range(50)]
    for name in names:
        owner = coordinator.init(name, 60_000)
        coordinator.add_partitions(name, *owner, [A])
        coordinator.end(name, *owner, commit=True)
    assert len(coordinator._locks) == 0
    hands.now += 1000
    assert coordinator.expire(100) == sorted(names)
    assert (coordinator.all(), len(coordinator._locks)) == ([], 0)


def test_a_retirement_waits_for_turns_that_have_begun() -> None:
    locks, order = IdLocks(), []
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with locks.turn("t"):
            inside.set()
            leave.wait()
            order.append("turn")

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()

    def retire() -> None:
        locks.wait_for_all()
        order.append("retired")

    waiter = threading.Thread(target=retire)
    waiter.start()
    leave.set()
    for each in (thread, waiter):
        each.join()
    assert order == ["turn", "retired"]
    assert len(locks) == 0


@pytest.mark.parametrize(
    "walk",
    [
        lambda coordinator: coordinator.expire(100),
        lambda coordinator: coordinator.abort_timed_out(),
        lambda coordinator: coordinator.drop_topic("orders", ["a"]),
        lambda coordinator: coordinator.finish(),
    ],
    ids=["expire", "abort_timed_out", "drop_topic", "finish"],
)
def test_an_id_that_expires_before_its_turn_is_left_out(
    monkeypatch: pytest.MonkeyPatch, walk: Callable[[EmbeddedCoordinator], object]
) -> None:
    """Another thread removed it between the listing of all ids and the turn of this one."""
    coordinator = EmbeddedCoordinator(Hands(), max_timeout_ms=900_000)
    coordinator.init("a", 60_000)
    turn = coordinator._locks.turn

    @contextmanager
    def late_turn(transactional_id: str) -> Iterator[None]:
        coordinator._ids.clear()
        with turn(transactional_id):
            yield

    monkeypatch.setattr(coordinator._locks, "turn", late_turn)
    assert not walk(coordinator)
    assert coordinator.all() == []
