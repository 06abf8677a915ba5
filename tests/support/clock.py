"""Clocks whose time passes only when a test says so, and an event loop on such a clock."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class Clock:
    """Called, it returns ``now``, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class ManualLoop(Clock):
    """An event loop whose clock advances only by ``pass_time``, which calls what is due."""

    def __init__(self, now: float = 1000.0) -> None:
        super().__init__(now)
        self._timers: list[tuple[float, SimpleNamespace, Callable[..., object], Any]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[..., object], *args: Any) -> Any:
        timer = SimpleNamespace(is_cancelled=False, when=self.now + seconds)
        timer.cancel = lambda: setattr(timer, "is_cancelled", True)
        self._timers.append((self.now + seconds, timer, call, args))
        return timer

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        self.call_later(0, call, *args)

    call_soon_threadsafe = call_soon

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self._timers if each[0] <= self.now]
        self._timers = [each for each in self._timers if each[0] > self.now]
        for _, timer, call, args in due:
            if not timer.is_cancelled:
                call(*args)
