"""Readers while the writer, another process, moves partitions between its log directories."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store
from kstore.files.files import Files
from support.stores import QUIET

RECORDS = 10  # of each partition


class Meanwhile(Files):
    """Acts before some of the calls on paths; a listing reads the directory as opened before."""

    def __init__(self) -> None:
        self.calls = 0
        self.at: frozenset[int] = frozenset()
        self.act: Callable[[], None] = lambda: None

    def _called(self) -> None:
        self.calls += 1
        if self.calls in self.at:
            self.act()

    def open(self, path: Any, flags: int = os.O_RDONLY) -> int:
        self._called()
        return super().open(path, flags)

    def kind(self, path: Any) -> str | None:
        self._called()
        return super().kind(path)

    def about(self, path: Any) -> os.stat_result:
        self._called()
        return super().about(path)

    def identity_of(self, path: Any) -> tuple[int, int] | None:
        self._called()
        return super().identity_of(path)

    def scan(self, path: Any) -> tuple[list[str], list[str]]:
        self._called()
        return super().scan(path)

    def listdir(self, path: Any) -> list[str]:
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return super().listdir(path)
        try:
            self._called()
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)


def read_all(reader: Store) -> object:
    return [[record.value for record in log] for log in reader["t"]]


def poll_all(reader: Store) -> object:
    values = []
    with reader.consumer("t") as consumer:
        while found := consumer.poll():
            values += [record.value or b"" for records in found.values() for record in records]
    return sorted(values)


def peek_ends(reader: Store) -> object:
    return len(reader["t"]), reader["t"].end_offsets()


def audit(reader: Store) -> object:
    reports = [log.verify(pause=lambda look: None) for log in reader["t"]]
    return [(each.batches, each.findings, each.warnings, each.in_flight) for each in reports]


@pytest.mark.parametrize("moves", [1, 2])
@pytest.mark.parametrize("use", [read_all, poll_all, peek_ends, audit])
def test_a_move_at_any_step_of_a_reader_hides_nothing(
    tmp_path: Path, use: Callable[[Store], object], moves: int
) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(dirs, config=QUIET) as store:
        for log in store.create_topic("t", 2):
            log.extend([b"%d" % number for number in range(RECORDS)])
        store["t"].flush()

        def move() -> None:
            source = Path(store["t"][0].path).parent
            store.move("t", 0, dirs[source == dirs[0]])

        def run(at: int) -> tuple[object, int]:
            files = Meanwhile()
            files.at, files.act = frozenset(range(at, at + moves)), move
            with Store(dirs, "r", config=QUIET, files=files) as reader:
                return use(reader), files.calls

        expected, steps = run(10**9)
        for at in range(1, steps + 1, 2 * moves - 1):
            assert run(at)[0] == expected, f"moved at step {at}"
        assert steps > 20
