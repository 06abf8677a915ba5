"""Tail latency under a steady load: from the moment when a request was meant to start.

Requests are due at fixed times, whatever became of those before them (an open loop). One that is
held up by an earlier one has waited since it was due, and its latency says so: a stall of 10 ms at
10,000 requests a second is a hundred late requests, not one ("coordinated omission").
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import perf_counter_ns

import numpy as np

import kstore
from kstore.bench.contest import Contest, Timed, scale
from kstore.bench.disk import MIB
from kstore.bench.log_append import VALUE_SIZE, check, fresh_log, prepared, raw_file
from kstore.bench.workload import Setting, Workload

LEAD = 1_000_000  # ns before the first request is due
VALUE = b"x" * VALUE_SIZE


def paced(call: Callable[[int], object], rate: float, count: int) -> list[int]:
    """Make ``count`` calls, ``rate`` a second; nanoseconds from when each was due to its end.

    The wait is a spin: a sleep would wake late, and the lateness would count as latency.
    """
    clock = perf_counter_ns
    took: list[int] = []
    note = took.append
    interval = 1e9 / rate
    start = clock() + LEAD
    for number in range(count):
        due = start + int(number * interval)
        while clock() < due:
            pass
        call(number)
        note(clock() - due)
    return took


def acknowledged(
    submit: Callable[[int], int],
    durable: Callable[[], int],
    rate: float,
    count: int,
    check: Callable[[], object] = lambda: None,
) -> list[int]:
    """The same for requests that are answered later: ``submit`` returns what ``durable()`` has to
    reach before it counts as done. Whoever waits for the next request looks at the answers.

    ``submit``, and after the last one ``check``, raises the error of who answers: otherwise one
    that died would be waited for without an end.
    """
    clock = perf_counter_ns
    took: list[int] = []
    pending: deque[tuple[int, int]] = deque()
    interval = 1e9 / rate
    start = clock() + LEAD

    def settle() -> None:
        reached = durable()
        while pending and pending[0][0] <= reached:
            took.append(clock() - pending.popleft()[1])

    for number in range(count):
        due = start + int(number * interval)
        while clock() < due:
            settle()
            os.sched_yield()  # whoever syncs may want this core and the interpreter
        pending.append((submit(number), due))
    while pending:
        settle()
        check()
        os.sched_yield()
    return took


def _timed(took: list[int], count: int) -> Timed:
    if len(took) != count:
        raise AssertionError(f"{len(took)} of {count} requests were answered")
    samples = np.asarray(took, np.int64)
    return Timed(float(np.median(samples)) / 1e9, result=count, samples=samples)


def appends(directory: Path, rate: float, count: int, *, flush: bool = False) -> Timed:
    """append() of one record, with flush() after each if wanted."""
    with fresh_log(directory) as log:
        log.append(VALUE)
        log.flush()
        append, sync = log.append, log.flush

        def durably(number: int) -> None:
            append(VALUE)
            sync()

        took = paced(durably if flush else lambda number: append(VALUE), rate, count)
        check(log, count + 1)
        if flush and log.recovery_point < log.end_offset:
            raise AssertionError("not everything was flushed")
    return _timed(took, count)


def writes(directory: Path, rate: float, count: int, *, flush: bool = False) -> Timed:
    """write(2) of a ready batch, with fdatasync after each if wanted."""
    batch = prepared(1)
    with raw_file(directory, count * len(batch)) as fd:

        def write(number: int) -> None:
            os.write(fd, batch)
            if flush:
                os.fdatasync(fd)

        took = paced(write, rate, count)
    return _timed(took, count)


def group_commits(directory: Path, rate: float, count: int) -> Timed:
    """append(), acknowledged by a Committer's sync that covers it."""
    with fresh_log(directory) as log:
        log.append(VALUE)
        log.flush()
        with kstore.Committer(log) as committer:

            def submit(number: int) -> int:
                offset = log.append(VALUE)
                committer.request()
                return offset + 1

            took = acknowledged(
                submit,
                lambda: committer.durable_offset,
                rate,
                count,
                lambda: committer.wait(timeout=0),
            )
        check(log, count + 1)
    return _timed(took, count)


class _Syncer(Thread):
    """fdatasync, again and again, of whatever has been written meanwhile."""

    def __init__(self, fd: int) -> None:
        super().__init__(daemon=True)
        self._fd = fd
        self._wanted = Event()
        self.written = 0
        self.stopping = False
        self._durable = 0
        self._error: Exception | None = None

    def request(self) -> None:
        self._wanted.set()

    def durable(self) -> int:
        """How many writes are on disk; the error of a sync that failed is raised here, since
        whoever waits for it would wait for ever."""
        if self._error is not None:
            raise self._error
        return self._durable

    def run(self) -> None:
        try:
            self._sync()
        except Exception as error:
            self._error = error

    def _sync(self) -> None:
        while not self.stopping:
            self._wanted.wait(1)
            self._wanted.clear()
            reached = self.written
            if reached > self._durable:
                os.fdatasync(self._fd)
                self._durable = reached


def shared_syncs(directory: Path, rate: float, count: int) -> Timed:
    """write(2) of a ready batch, acknowledged by another thread's fdatasync that covers it."""
    batch = prepared(1)
    with raw_file(directory, count * len(batch)) as fd:
        syncer = _Syncer(fd)
        syncer.start()

        def submit(number: int) -> int:
            os.write(fd, batch)
            syncer.written = number + 1
            syncer.request()
            return number + 1

        try:
            took = acknowledged(submit, syncer.durable, rate, count)
        finally:
            syncer.stopping = True
            syncer.request()
            syncer.join()
    return _timed(took, count)


def syncs_a_second(directory: Path) -> float:
    """How many writes with an fdatasync the disk does, one after another."""
    batch, count = prepared(1), 20
    with raw_file(directory, count * len(batch)) as fd:
        started = perf_counter_ns()
        for _ in range(count):
            os.write(fd, batch)
            os.fdatasync(fd)
        return count / ((perf_counter_ns() - started) / 1e9)


def contests(setting: Setting) -> Iterator[Contest]:
    """Page cache at two rates; then on disk at half of what syncs one by one give, and at more."""
    directory = setting.directory
    seconds = setting.pick(0.2, 1.0, 10.0) * min(1.0, scale())
    rounds = setting.pick(3, 5, 9)
    for rate in (10_000, 100_000):
        count = max(100, int(rate * seconds))
        yield Contest(
            name=f"append one record, page cache, {rate:,} a second",
            calls={
                "kstore, append": partial(appends, directory, rate, count),
                "os.write": partial(writes, directory, rate, count),
            },
            ceiling="os.write",
            rounds=rounds,
        )
    slow = max(10.0, syncs_a_second(directory) / 2)
    count = max(20, int(slow * seconds))
    floor = "write, fdatasync"
    yield Contest(
        name="append one record, on disk, at half the rate of syncs",
        calls={
            "kstore, flush each": partial(appends, directory, slow, count, flush=True),
            "kstore, group commit": partial(group_commits, directory, slow, count),
            floor: partial(writes, directory, slow, count, flush=True),
            "write, syncs shared": partial(shared_syncs, directory, slow, count),
        },
        ceiling=floor,
        rounds=rounds,
    )
    fast = 10_000
    count = max(100, int(fast * seconds))
    yield Contest(
        name=f"append one record, on disk, {fast:,} a second",
        calls={
            "kstore, group commit": partial(group_commits, directory, fast, count),
            "write, syncs shared": partial(shared_syncs, directory, fast, count),
        },
        ceiling="write, syncs shared",
        rounds=rounds,
    )


WORKLOADS = (
    Workload(
        group="engine",
        name="latency",
        about="percentiles under a steady load, from when each request was due",
        ceiling="the same system calls without an engine",
        shows=("10,000 a second", "100,000 a second", "flush each", "group commit"),
        sizes=(MIB, 2 * MIB, 32 * MIB),
        contests=contests,
        count=(4, 4, 4),
        weight=2.5,
    ),
)
