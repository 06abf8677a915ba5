"""Sequential writing of which only durable bytes count, and whether its rate is steady.

One thread writes blocks into the page cache and another syncs what was written, so that the disk
never waits for the writer. The writer stays at most ``ahead`` bytes in front of the last sync:
bytes that are in the kernel's buffers alone are in no figure, and the dirty limits of the kernel
are never reached.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Condition, Thread
from time import perf_counter

import numpy as np

from kstore.bench.data.raw_files import block_of, check_stamps

MIB = 1 << 20
BLOCK = MIB
SALT = 1 << 48
SYNC_SECONDS = 0.1  # how long a sync should take: the writer's lead is chosen for it
LEAST_AHEAD, MOST_AHEAD = 2 * MIB, 256 * MIB
WINDOWS = 24  # of time, into which a run is divided
WARM_UP = 0.25  # fraction of the windows that are no figure: buffers fill
FALLING = 0.9  # a rate that is below this fraction of the one before is still falling
Point = tuple[float, int]  # seconds since the start, durable bytes


class DurableStream:
    """A new file that one thread fills while the caller syncs it.

    ``most``: bytes after which the writer stops. :meth:`sync` is for one thread. ``write_calls``
    has, for each of ``points``, the seconds that the writer had spent in ``pwrite`` by then.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path, self.most = path, max(most // BLOCK, 1) * BLOCK
        self.durable = 0
        self.written = 0
        self.points: list[Point] = [(0.0, 0)]
        self.write_calls = [0.0]
        self._write_seconds = 0.0
        self._ahead = LEAST_AHEAD
        self._ended = False
        self._error: OSError | None = None
        self._changed = Condition()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._began = perf_counter()
        self._writer = Thread(target=self._write, daemon=True)
        self._writer.start()

    def _write(self) -> None:
        block = block_of(BLOCK)
        stamp = block[:8].cast("q")
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self._has_room())
                    if self._ended:
                        return
                stamp[0] = self.written ^ SALT
                started = perf_counter()
                if os.pwrite(self._fd, block, self.written) != BLOCK:
                    raise OSError("a block was not written completely")
                self._write_seconds += perf_counter() - started
                with self._changed:
                    self.written += BLOCK
                    self._ended = self._ended or self.written >= self.most
                    self._changed.notify_all()
        except OSError as error:
            with self._changed:
                self._error, self._ended = error, True
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return self.written - self.durable < self._ahead

    def sync(self) -> bool:
        """Sync what is written; False if everything is durable and nothing more comes.

        OSError if the writer failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.written > self.durable)
            if self._error is not None:
                raise self._error
            target, before = self.written, self.durable
        if target == before:
            return False
        started = perf_counter()
        os.fdatasync(self._fd)
        now = perf_counter()
        with self._changed:
            self.durable = target
            wanted = int((target - before) / max(now - started, 1e-6) * SYNC_SECONDS)
            self._ahead = min(max(wanted, LEAST_AHEAD), MOST_AHEAD, 2 * self._ahead)
            self._changed.notify_all()
        self.points.append((now - self._began, target))
        self.write_calls.append(self._write_seconds)
        return True

    def close(self) -> None:
        """Stop the writer and close the file, which is kept."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._writer.join()
        os.close(self._fd)


@contextmanager
def durable_stream(path: Path, most: int) -> Iterator[DurableStream]:
    """A stream that is closed at the end, whose file has every block that it reported."""
    stream = DurableStream(path, most)
    try:
        yield stream
    finally:
        stream.close()
    check_stamps(path, np.arange(0, stream.durable, BLOCK), SALT, 64)


def rates(points: Sequence[Point], windows: int = WINDOWS) -> list[float]:
    """Durable bytes a second in each of some equal windows of time.

    Between two syncs the bytes count as evenly spread. No more windows than syncs.
    """
    windows = min(windows, len(points) - 1)
    if windows < 1:
        return []
    edges = np.linspace(0.0, points[-1][0], windows + 1)
    times, sizes = zip(*points, strict=True)
    found = np.diff(np.interp(edges, times, sizes)) / np.diff(edges)
    return [float(each) for each in found]


def without_warm_up(found: Sequence[float]) -> list[float]:
    """The rates after the first quarter of the windows."""
    return list(found[int(np.ceil(len(found) * WARM_UP)) :])


def share_of_later_half(points: Sequence[Point], seconds: Sequence[float]) -> float:
    """The fraction of the later half of a run's time that some work took.

    ``seconds``: what the work had taken by each of the points.
    """
    times = [each for each, _ in points]
    half = times[-1] / 2
    return float(seconds[-1] - np.interp(half, times, seconds)) / half if half else 0.0


def is_steady(found: Sequence[float]) -> bool:
    """Whether a rate is no longer falling.

    The warm-up is not counted. What is left is divided in halves, and the later one must reach
    ``FALLING`` of the earlier. Fewer than six windows cannot show it.
    """
    counted = without_warm_up(found)
    if len(counted) < 6:
        return False
    half = len(counted) // 2
    return median(counted[half:]) >= FALLING * median(counted[:half])
