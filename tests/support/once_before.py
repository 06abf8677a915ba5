"""Makes a change between two steps of what another call does."""

from collections.abc import Callable
from typing import Any

import pytest


def once_before(
    monkeypatch: pytest.MonkeyPatch,
    target: type,
    name: str,
    change: Callable[[], object],
    calls: int = 0,
) -> list[str]:
    """Make the change before the first call of a method, or after so many; the list has its name
    afterwards."""
    called: list[str] = []
    original = getattr(target, name)
    left = calls

    def changed(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not called:
            called.append(name)
            change()
        return original(self, *arguments, **options)

    monkeypatch.setattr(target, name, changed)
    return called
