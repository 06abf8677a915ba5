"""The event loop: order, timers, wake-ups, and errors that do not end it."""

import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from kstore.broker.loop import READABLE, Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_callbacks_run_in_order_and_timers_by_their_time(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_later(0.02, seen.append, "late")
    loop.call_later(0.02, loop.stop)
    loop.call_later(0.0, seen.append, "early")
    loop.call_soon(seen.append, "first")
    loop.call_soon(seen.append, "second")
    loop.run()
    assert sorted(seen[:3]) == ["early", "first", "second"]
    assert seen.index("first") < seen.index("second")
    assert seen[3] == "late"


def test_a_cancelled_timer_does_not_run(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_later(0.0, seen.append, "cancelled").cancel()
    loop.call_later(0.01, loop.stop)
    loop.run()
    assert seen == []


def test_many_cancelled_timers_leave_the_heap(loop: Loop) -> None:
    kept = loop.call_later(1000, print)
    for _ in range(10_000):
        loop.call_later(1000, print).cancel()
    assert len(loop._timers) < 3000
    assert any(entry[2] is kept for entry in loop._timers)


def test_another_thread_wakes_a_waiting_loop(loop: Loop) -> None:
    seen: list[int] = []
    thread = threading.Thread(target=loop.run)
    thread.start()
    for number in range(1000):
        loop.call_soon_threadsafe(seen.append, number)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    assert seen == list(range(1000))


def test_an_error_of_a_callback_is_logged_and_the_loop_continues(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    one, other = socket.socketpair()
    with one, other, caplog.at_level(logging.ERROR, "kstore.broker"):
        loop.register(
            one.fileno(), READABLE, lambda events: (loop.unregister(one.fileno()), fail())
        )
        other.send(b"x")
        loop.call_soon(fail)
        loop.call_later(0, fail)
        loop.call_later(0.01, loop.stop)
        loop.run()
    assert len([each for each in caplog.records if each.exc_info]) == 3


def test_a_descriptor_unregistered_in_the_same_turn_is_not_called(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    seen: list[int] = []

    def first_wins(events: int) -> None:
        seen.append(events)
        for one, _ in pairs:
            loop.unregister(one.fileno())

    for one, other in pairs:
        loop.register(one.fileno(), READABLE, first_wins)
        other.send(b"x")
    loop.call_later(0.01, loop.stop)
    loop.run()
    assert len(seen) == 1
    for pair in pairs:
        for each in pair:
            each.close()


def test_calls_after_close_are_without_effect() -> None:
    loop = Loop()
    loop.call_soon_threadsafe(loop.stop)
    loop.run()
    loop.close()
    loop.call_soon_threadsafe(print)
    loop.stop()
