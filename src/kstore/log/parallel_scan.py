"""A scan that several threads work ahead on, part by part, in order; what they hold is bounded."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import Slice

if TYPE_CHECKING:
    from kstore.record.columns import Columns

FINE = 1 << 18  # bytes of log that a part has at least
PART = 4 << 20  # bytes of log of one part at most: few blocks, whose memory is used again
HELD = 8 << 20  # bytes of rows and decompressed batches of a part that is not asked for yet

Found = Iterator[tuple["Columns", int]]
# Scans (slice, start offset, begin, end) and tells how many bytes it has given out so far.
Run = Callable[[Slice, int, int, int, Callable[[int], None]], Found]


class _Part:
    """Begun by a thread, which stops where it holds enough; the rest is left to the reader."""

    def __init__(self, run: Run, piece: Slice, offset: int, begin: int, end: int) -> None:
        self.size = end - begin
        self.held = 0
        self.is_wanted = True
        self._found = run(piece, offset, begin, end, self._hold)
        self._ready: list[tuple[Columns, int]] = []

    def _hold(self, size: int) -> None:
        self.held = size

    def work(self) -> "_Part":
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

    A part is the smaller, the more the one before it grew by decompression and rows. Memory:
    threads + 1 parts, each about ``HELD`` and a block, or one batch, more.
    """
    limit = FINE

    def parts() -> Iterator[_Part]:
        for piece, offset in slices:
            begin = 0
            while begin < piece.size:
                end = piece.part_end(begin, limit)
                yield _Part(run, piece, offset, begin, end)
                begin = end

    pool = ThreadPoolExecutor(threads, thread_name_prefix="kstore-scan")
    waiting: list[Future[_Part]] = []
    begun: list[_Part] = []

    def first() -> Found:
        nonlocal limit
        part = waiting.pop(0).result()
        yield from part
        begun.remove(part)
        limit = min(PART, max(FINE, part.size * HELD // max(part.held, 1)))

    try:
        for part in parts():
            begun.append(part)
            waiting.append(pool.submit(part.work))
            if len(waiting) > threads:
                yield from first()
        while waiting:
            yield from first()
    except GeneratorExit:
        # Perhaps the garbage collector's, amid code that holds the locks that shutdown takes:
        # the threads end by themselves when they have no part left and the pool is gone.
        for part in begun:
            part.is_wanted = False
        raise
    except BaseException:
        pool.shutdown()
        raise
    pool.shutdown()
