"""The native lock keeps RLock's rules, alone, between threads, in a Condition, after a fork."""

import os
import signal
import threading
import time

import pytest

from kstore._native.append.reentrant_lock import ReentrantLock


def in_thread(work):
    done = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join(10)
    return done[0]


def test_the_owning_thread_can_lock_again():
    lock = ReentrantLock()
    with lock, lock:
        assert lock.acquire()
        assert in_thread(lambda: lock.acquire(blocking=False)) is False
        lock.release()
        assert lock._is_owned()
        assert in_thread(lock._is_owned) is False
    assert not lock._is_owned()
    assert in_thread(lambda: lock.acquire(blocking=False)) is True


def test_only_the_owning_thread_can_unlock():
    lock = ReentrantLock()
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.release()

    def release():
        with pytest.raises(RuntimeError, match="does not hold"):
            lock.release()
        return True

    with lock:
        assert in_thread(release)
        assert lock._is_owned()


def test_an_attempt_acquires_the_lock_only_if_it_is_free():
    lock = ReentrantLock()
    with lock.attempt() as taken:
        assert taken is True
        assert lock._is_owned()
        with lock.attempt() as again:
            assert again is False
        assert lock._is_owned()
        assert in_thread(lambda: lock.attempt().__enter__()) is False
    assert not lock._is_owned()
    with pytest.raises(ZeroDivisionError), lock.attempt():
        raise ZeroDivisionError
    assert in_thread(lambda: lock.acquire(blocking=False)) is True


def test_threads_take_turns():
    lock = ReentrantLock()
    inside, most, total = [], [], [0]

    def work():
        for _ in range(200):
            with lock:
                inside.append(1)
                most.append(len(inside))
                before = total[0]
                time.sleep(0)  # another thread runs here, if the lock lets it
                total[0] = before + 1
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (total, max(most)) == ([800], 1)


def test_a_condition_waits_with_a_lock_that_was_acquired_repeatedly():
    lock = ReentrantLock()
    changed = threading.Condition(lock)
    ready = []

    def notify():
        with changed:
            ready.append(1)
            changed.notify_all()

    thread = threading.Thread(target=notify)
    with lock, changed:
        thread.start()
        assert changed.wait_for(lambda: ready, 10)
        assert lock._is_owned()
    assert not lock._is_owned()
    thread.join(10)


def test_a_signal_ends_the_wait():
    lock = ReentrantLock()
    holding, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            holding.set()
            over.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(10)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    over.set()
    thread.join(10)
    assert lock.acquire(blocking=False)


def test_a_forked_child_gets_a_new_lock():
    lock = ReentrantLock()
    thread = threading.Thread(target=lock.acquire)  # never given back, as by a thread that is gone
    thread.start()
    thread.join(10)
    assert not lock.acquire(blocking=False)
    lock._at_fork_reinit()
    assert lock.acquire(blocking=False)
    lock.release()


def test_it_says_whether_a_thread_holds_it():
    lock = ReentrantLock()
    assert not lock.locked()
    with lock, lock:
        assert lock.locked()
    assert not lock.locked()
