"""What the parts on damage must be able to see: each planted fault ends in its own violation."""

import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from kstore import Log, Store
from kstore.log.view import LogView
from kstore.recovery import torn_tail
from torture import parts_of_other_tests, random_damage
from torture.bounds import TookTooLongError, in_memory, in_time, nothing_left_open
from torture.checks import Violation
from torture.parts import Budget
from torture.test_fuzz import TARGETS

Plant = Callable[[Any], Any]


def _touches(original: Any) -> Any:
    def verify(self: Log) -> Any:
        with open(f"{self.path}/left-by-a-reader", "w"):
            return original(self)

    return verify


def _leaks(original: Any) -> Any:
    def verify(self: Log, **named: Any) -> Any:
        os.open(self.path, os.O_RDONLY)
        return original(self, **named)

    return verify


def _leaves_out(original: Any) -> Any:
    def records(self: Any, **named: Any) -> Iterator[Any]:
        found = list(original(self, **named))
        return iter(found[:-1] if named.get("on_damage") == "skip" else found)

    return records


def _shows_twice(original: Any) -> Any:
    def records(self: Any) -> Iterator[Any]:
        for record in original(self):
            yield record
            yield record

    return records


def _writes_outside(original: Any) -> Any:
    def close(self: Store) -> None:
        original(self)
        with open(f"{self.paths[0]}.canary", "ab") as file:
            file.write(b"!")

    return close


def _fails(original: Any) -> Any:
    def offset_at(self: Log, when: Any) -> int:
        raise IndexError(when)

    return offset_at


FAULTS: dict[str, tuple[object, str, Plant, str]] = {
    "a reader that writes": (Log, "verify", _touches, "a reader changed the directory"),
    "a descriptor left open": (Log, "verify", _leaks, "left open"),
    "a sound record is skipped": (LogView, "records", _leaves_out, "lost sound records"),
    "a record twice": (Log, "__iter__", _shows_twice, "again|a second opening shows"),
    "a file outside written to": (Store, "close", _writes_outside, "a file outside"),
    "an error of another kind": (Log, "offset_at", _fails, "IndexError"),
    "cut bytes that are not kept": (
        torn_tail, "_keep_tail", lambda _: lambda *a, **k: None, "a complete batch is gone"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_mutations_catch(name: str) -> None:
    owner, attribute, make, words = FAULTS[name]
    with patch.object(owner, attribute, make(getattr(owner, attribute))):
        figures = random_damage.mutate_all(Budget(3600, until_violation=True), most=400)
    assert re.search(words, "".join(figures.violations[:1]))


def test_a_call_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TookTooLongError), in_time(1):
        threading.Event().wait()


def test_a_call_that_takes_too_much_memory_is_seen() -> None:
    with in_memory(64 << 20):
        bytearray(1 << 20)
    with pytest.raises(Violation, match="MiB of memory"), in_memory(64 << 20):
        bytearray(b"x") * (200 << 20)


def test_a_file_that_stays_open_is_named(tmp_path: Any) -> None:
    path = tmp_path / "left"
    path.touch()
    fds = []
    with pytest.raises(Violation, match="left"), nothing_left_open():
        fds.append(os.open(path, os.O_RDONLY))
    os.close(fds[0])


def test_fuzzing_catches_an_error_of_another_kind() -> None:
    broken = (lambda data: [][0], TARGETS["columns"][1])
    with patch.dict(TARGETS, {"columns": broken}):
        figures = parts_of_other_tests.fuzz_all(Budget(3600, until_violation=True))
    assert "columns | IndexError" in figures.violations[0]
