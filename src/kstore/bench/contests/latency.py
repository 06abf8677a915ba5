"""Tail latency under a steady load, from the time at which each request was due.

Requests are due at fixed times, however long earlier ones take (an open loop). A request that an
earlier one delays counts from when it was due: a stall of 10 ms at 10,000 requests a second makes
a hundred late requests, not one ("coordinated omission").
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import perf_counter_ns

import kstore
from kstore.bench.contest import Contest, Timed, scale
from kstore.bench.data.batches import VALUE_SIZE, client_batch
from kstore.bench.data.logs import check_log, fresh_log, median_of
from kstore.bench.data.raw_files import raw_file
from kstore.bench.machine.disk import MIB
from kstore.bench.workload import Setting, Workload

LEAD = 1_000_000  # ns before the first request is due
VALUE = b"x" * VALUE_SIZE


def paced(call: Callable[[int], object], rate: float, count: int) -> list[int]:
    """Make ``count`` calls, ``rate`` a second; nanoseconds from the due time of each to its end.

    The wait is a busy loop: a sleep wakes up late, which would count as latency.
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
    """As :func:`paced` for requests that are acknowledged later.

    ``submit`` returns the offset that ``durable()`` has to reach before the request is done; the
    loop that waits for the next request polls it. ``submit``, and ``check`` after the last
    request, raise the error of a failed sync, for which the loop would otherwise wait forever.
    """
    clock = perf_counter_ns
    took: list[int] = []
    pending: deque[tuple[int, int]] = deque()
    interval = 1e9 / rate
    start = clock() + LEAD

    def poll() -> None:
        reached = durable()
        while pending and pending[0][0] <= reached:
            took.append(clock() - pending.popleft()[1])

    for number in range(count):
        due = start + int(number * interval)
        while clock() < due:
            poll()
            os.sched_yield()  # to the thread that syncs
        pending.append((submit(number), due))
    while pending:
        poll()
        check()
        os.sched_yield()
    return took


def _timed(took: list[int], count: int) -> Timed:
    if len(took) != count:
        raise AssertionError(f"{len(took)} of {count} requests were answered")
    return median_of(took)


def appends(directory: Path, rate: float, count: int, *, flush: bool = False) -> Timed:
    """append() of one record; ``flush``: with a flush() after each."""
    with fresh_log(directory) as log:
        log.append(VALUE)
        log.flush()
        append, sync = log.append, log.flush

        def durably(number: int) -> None:
            append(VALUE)
            sync()

        took = paced(durably if flush else lambda number: append(VALUE), rate, count)
        check_log(log, count + 1)
        if flush and log.recovery_point < log.end_offset:
            raise AssertionError("not everything was flushed")
    return _timed(took, count)


def writes(directory: Path, rate: float, count: int, *, flush: bool = False) -> Timed:
    """write(2) of a ready batch; ``flush``: with an fdatasync after each."""
    batch = client_batch(1)
    with raw_file(directory, count * len(batch)) as fd:

        def write(number: int) -> None:
            os.write(fd, batch)
            if flush:
                os.fdatasync(fd)

        took = paced(write, rate, count)
    return _timed(took, count)


def group_commits(directory: Path, rate: float, count: int) -> Timed:
    """append(), acknowledged when a Committer's sync covers it."""
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
        check_log(log, count + 1)
    return _timed(took, count)


class _Syncer(Thread):
    """A thread that syncs whatever was written since its last fdatasync."""

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
        """How many writes are on disk; raises the error of a failed sync."""
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
    """write(2) of a ready batch, acknowledged when another thread's fdatasync covers it."""
    batch = client_batch(1)
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
    """How many writes with an fdatasync each the disk can do in a second."""
    batch, count = client_batch(1), 20
    with raw_file(directory, count * len(batch)) as fd:
        started = perf_counter_ns()
        for _ in range(count):
            os.write(fd, batch)
            os.fdatasync(fd)
        return count / ((perf_counter_ns() - started) / 1e9)


def contests(setting: Setting) -> Iterator[Contest]:
    """Page cache at two rates; on disk at half the rate of single syncs, and at a higher one."""
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
        shows="10,000 a second; 100,000 a second; flush each; group commit",
        sizes=(MIB, 2 * MIB, 32 * MIB),
        contests=contests,
        count=(4, 4, 4),
        weight=2.5,
    ),
)
