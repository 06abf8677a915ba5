"""Lets requests that free space succeed on a full disk, with space that the broker has reserved."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kstore.errors import StorageError
from kstore.store.space_reserve import CHUNKS, FULL, SpaceReserve

if TYPE_CHECKING:
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.loop import Loop, Timer
    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_KEY = "space reserve"  # of the disk workers
_FILL_SECONDS = 10.0  # until the next attempt to fill the reserve

Result = TypeVar("Result")


class FullDisk:
    """Fills the reserve, and releases it to changes that meet a full disk."""

    def __init__(self, reserve: SpaceReserve, loop: "Loop", workers: "DiskWorkers") -> None:
        self._reserve = reserve
        self._loop = loop
        self._workers = workers
        self._is_closed = False
        self._timer: Timer | None = None  # of the next attempt

    def start(self) -> None:
        """Fill the reserve, with retries until it is complete. Loop's thread."""
        if not self._is_closed:
            self._workers.submit(_KEY, self._reserve.fill, self._filled)

    def _filled(self, is_full: bool | None, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.warning("space for a full disk cannot be reserved: %s", error)
        if self._timer is not None:  # of an earlier attempt: only one timer runs at a time
            self._timer.cancel()
        self._timer = None if is_full else self._loop.call_later(_FILL_SECONDS, self.start)

    def run(self, change: Callable[[], Result]) -> Result:
        """Make a change that frees space; if the disk is full, release reserved space and retry.

        On a disk worker. A change that failed must be safe to repeat.
        """
        try:
            return change()
        except StorageError as error:
            if error.errno not in FULL:
                raise
        _LOGGER.warning("the disk is full: its reserve is released to free space")
        try:
            for _ in range(CHUNKS):
                if not self._reserve.release():
                    break
                try:
                    return change()
                except StorageError as error:
                    if error.errno not in FULL:
                        raise
            return change()
        finally:
            self._loop.call_soon_threadsafe(self.start)

    def close(self) -> None:
        """Release all reserved space. Call it after the workers have ended."""
        self._is_closed = True
        try:
            self._reserve.remove()
        except StorageError as error:
            _LOGGER.warning("reserved space is not released: %s", error)


def run_freeing(services: "Services", change: Callable[[], Result]) -> Result:
    """Make a change that frees space, on a disk worker, even where the disk is full."""
    return change() if services.full_disk is None else services.full_disk.run(change)
