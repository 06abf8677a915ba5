"""Fixtures of more than one file of unit tests."""

from typing import Any

import pytest

from kstore.spark import reading
from kstore.spark.reading import RangeReader


@pytest.fixture
def no_stores_from_elsewhere() -> Any:
    """As in a worker that has just started."""
    reading._open_stores.clear()
    yield
    for store in reading._open_stores.values():
        store.close()
    reading._open_stores.clear()


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offsets that were not read as planned."""
    seen: list[tuple[int, int]] = []
    original = RangeReader._search

    def search(self: RangeReader, of: Any, start: int, stop: int) -> Any:
        seen.append((start, stop))
        return original(self, of, start, stop)

    monkeypatch.setattr(RangeReader, "_search", search)
    return seen
