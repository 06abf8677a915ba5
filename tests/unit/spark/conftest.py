"""Fixtures of more than one file of unit tests."""

from typing import Any

import pytest

from kstore.spark.source import range_reader
from kstore.spark.source.range_reader import RangeReader


@pytest.fixture
def no_stores_from_elsewhere() -> Any:
    """As in a worker that has just started."""
    range_reader._open_stores.clear()
    yield
    for store in range_reader._open_stores.values():
        store.close()
    range_reader._open_stores.clear()


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
