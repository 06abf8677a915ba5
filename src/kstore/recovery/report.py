"""What recovery says it did. Immutable values; :mod:`kstore.recovery.plan` makes them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.recovery.lost_segments import LostRange

_FEW = 3  # names that a sentence can bear


def some_of(names: Sequence[str]) -> str:
    """Names as people read them: few of them all, of many the first and the last."""
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} to {names[-1]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryReport:
    """What opening a partition for writing found and changed. Immutable; ``str`` tells it.

    ``steps`` says in sentences what was done, in that order; empty where nothing had to be. Of
    many files they name the first and the last: ``rebuilt``, ``removed`` and ``kept`` name all.
    """

    path: str = ""
    clean: bool = True  # left by a clean stop: only what looked wrong was scanned
    segments_scanned: int = 0
    batches: int = 0
    bytes_scanned: int = 0
    cut_size: int = 0  # bytes taken from the end of the last segment
    cut_offset: int | None = None  # the log ended here after the cut
    cut_reason: str | None = None
    missing: int = 0  # offsets below the recovery point that the log had lost before it was opened
    kept_in: str | None = None  # the file with the cut bytes; None if they were all zero
    kept: tuple[str, ...] = ()  # names of all files that were put aside, kept_in's included
    indexes_rebuilt: int = 0
    rebuilt: tuple[str, ...] = ()  # names of side files that were written anew
    removed: tuple[str, ...] = ()  # names of leftovers
    faulty: bool = False  # side files, or what the segments say of each other, looked wrong
    swapped: tuple[str, ...] = ()  # names of files that finished an interrupted compaction
    steps: tuple[str, ...] = ()
    milliseconds: float = 0.0

    @property
    def alarming(self) -> bool:
        """Whether something was wrong that an interrupted writer does not leave."""
        return self.faulty or bool(self.kept or self.missing)  # zeros alone are not kept

    @property
    def changed(self) -> bool:
        """Whether any file is another one than before."""
        return bool(self.cut_size or self.kept or self.rebuilt or self.removed or self.swapped)

    def and_producers(self, removed: list[str], rewritten: list[str]) -> "RecoveryReport":
        """The same and what was done to snapshots and transaction indexes."""
        if not removed and not rewritten:
            return self
        steps = list(self.steps)
        if removed:
            steps.append(
                f"removed {len(removed)} producer snapshots that do not count: {some_of(removed)}"
            )
        if rewritten:
            steps.append(
                f"made {len(rewritten)} transaction indexes from the log: {some_of(rewritten)}"
            )
        return replace(
            self,
            removed=(*self.removed, *removed),
            rebuilt=(*self.rebuilt, *rewritten),
            steps=tuple(steps),
        )

    def and_end(self, end_offset: int, recovery_point: int) -> "RecoveryReport":
        """The same and, where the log ends below the recovery point, that it does."""
        if end_offset >= recovery_point:
            return self
        step = (
            f"the log ends at offset {end_offset}, below the recovery point {recovery_point}: "
            "what was between had been on disk, and is gone"
        )
        return replace(self, steps=(*self.steps, step), missing=recovery_point - end_offset)

    def __str__(self) -> str:
        name = os.path.basename(self.path)
        return f"{name}: {'; '.join(self.steps) or 'nothing to recover'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredSegment:
    """A segment that is there; what only a scan can tell is None where none was needed."""

    base_offset: int
    size: int
    next_offset: int | None = None  # the offset after its last batch
    max_timestamp: int | None = None  # ms; -1: it has no timestamps
    max_timestamp_offset: int | None = None
    first_timestamp: int | None = None
    producer_batches: int | None = None  # of idempotent and transactional producers


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovered:
    report: RecoveryReport
    segments: tuple[RecoveredSegment, ...]  # by base offset
    epochs: LeaderEpochs
    lost: tuple[LostRange, ...] = ()  # records that are gone with their segments
