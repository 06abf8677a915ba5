"""An exclusive lock: a process that has the store between two locks may leave it unfinished."""

from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.spark import exclusive_lock
from support.stores import QUIET


@pytest.mark.parametrize("times", [0, 1, 2])
def test_asked_again_after_the_lock_is_retaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("orders", 1)[0].extend([b"x"])
    opened, locks, left = exclusive_lock.open_alone, exclusive_lock._lock, [times]
    calls: list[str] = []

    def counted(*given: Any) -> Any:
        calls.append("open")
        return opened(*given)

    def after_another_died(*given: Any) -> Any:
        """Another process wrote, and died without a clean end."""
        if left[0]:
            left[0] -= 1
            (tmp_path / ".kafka_cleanshutdown").unlink()
        return locks(*given)

    monkeypatch.setattr(exclusive_lock, "open_alone", counted)
    monkeypatch.setattr(exclusive_lock, "_lock", after_another_died)
    with exclusive_lock.keep_closed((str(tmp_path),), 1000, "a test"):
        assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert calls == ["open"] * times
