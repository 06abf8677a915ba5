"""A scan in which threads read ahead, range by range and in order, with bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import Slice

if TYPE_CHECKING:
    from kstore.record.columns import Columns

FINE = 1 << 18  # bytes of log that a range has at least
LARGEST = 4 << 20  # bytes of log of one range at most: few blocks, whose memory is reused
HELD = 8 << 20  # bytes of rows and decompressed batches that a range holds before it is read

Found = Iterator[tuple["Columns", int]]
# Scans (slice, start offset, begin, end) and reports how many bytes it has returned so far.
Run = Callable[[Slice, int, int, int, Callable[[int], None]], Found]


class _Range:
    """A thread begins it and stops where it holds enough; the reader scans the rest."""

    def __init__(self, run: Run, data: Slice, offset: int, begin: int, end: int) -> None:
        self.size = end - begin
        self.held = 0
        self.is_wanted = True
        self._found = run(data, offset, begin, end, self._hold)
        self._ready: list[tuple[Columns, int]] = []

    def _hold(self, size: int) -> None:
        self.held = size

    def work(self) -> "_Range":
        for each in self._found:
            self._ready.append(each)
            if self.held >= HELD or not self.is_wanted:
                break
        return self

    def __iter__(self) -> Found:
        ready, self._ready = self._ready, []
        yield from ready
        yield from self._found


def scan_in_parallel(run: Run, slices: Iterable[tuple[Slice, int]], threads: int) -> Found:
    """What ``run`` finds in all slices, in order, by so many threads.

    The more a range grew by decompression and rows, the smaller is the next one. Memory:
    threads + 1 ranges, each about ``HELD`` and one block or batch more.
    """
    limit = FINE

    def ranges() -> Iterator[_Range]:
        for data, offset in slices:
            begin = 0
            while begin < data.size:
                end = data.batch_end_after(begin, limit)
                yield _Range(run, data, offset, begin, end)
                begin = end

    pool = ThreadPoolExecutor(threads, thread_name_prefix="kstore-scan")
    waiting: list[Future[_Range]] = []
    begun: list[_Range] = []

    def first() -> Found:
        nonlocal limit
        scanned = waiting.pop(0).result()
        yield from scanned
        begun.remove(scanned)
        limit = min(LARGEST, max(FINE, scanned.size * HELD // max(scanned.held, 1)))

    try:
        for each in ranges():
            begun.append(each)
            waiting.append(pool.submit(each.work))
            if len(waiting) > threads:
                yield from first()
        while waiting:
            yield from first()
    except GeneratorExit:
        # Perhaps the garbage collector's, inside code that holds the locks that shutdown takes.
        # The threads end by themselves when the queue is empty and the pool is collected.
        for each in begun:
            each.is_wanted = False
        raise
    except BaseException:
        pool.shutdown()
        raise
    pool.shutdown()
