"""Reports of a recovery: immutable values that :mod:`kstore.recovery.recover_partition` creates."""

import os
from collections.abc import Sequence
from dataclasses import replace

from kstore.checkpoint.leader_epochs import EpochEntry, LeaderEpochs
from kstore.files.filenames import LOG_STARTS
from kstore.integers import count_of
from kstore.lazy_dataclass import lazy_dataclass
from kstore.recovery.lost_segments import LostRange

_FEW = 3  # names in a sentence


def some_of(names: Sequence[str]) -> str:
    """A few names in full; of many the first and the last."""
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} to {names[-1]}"


def describe_hidden(first: int, data_end: int, log_start: int) -> str:
    """A log start beyond the log's last record, as openings and ``verify`` report it."""
    return (
        f"{LOG_STARTS} sets the log start to {log_start}, but the log's records end at "
        f"{data_end}: those at offsets {first} to {data_end - 1} are in its files and hidden, "
        f"unless they were deleted; to read them, remove the entry from {LOG_STARTS} while no "
        "process has the directory open"
    )


@lazy_dataclass(frozen=True, kw_only=True)
class RecoveryReport:
    """What opening a partition for writing found and changed. Immutable; ``str`` is a sentence.

    ``steps`` are sentences about what was done, in order; empty where nothing had to be. Of
    many files they name the first and the last: ``rebuilt``, ``removed`` and ``kept`` name all.
    """

    path: str = ""
    clean: bool = True  # after a clean stop: only what looked wrong was scanned
    segments_scanned: int = 0
    batches: int = 0
    bytes_scanned: int = 0
    cut_size: int = 0  # bytes removed from the end of the last segment
    cut_offset: int | None = None  # the log end after the truncation
    cut_reason: str | None = None
    missing: int = 0  # offsets from the log end to the recovery point; `kept` may have their bytes
    kept_in: str | None = None  # the file with the cut bytes; None if they were all zero
    kept: tuple[str, ...] = ()  # names of all quarantined files, with kept_in's
    indexes_rebuilt: int = 0
    rebuilt: tuple[str, ...] = ()  # names of rebuilt side files
    removed: tuple[str, ...] = ()  # names of removed files
    faulty: bool = False  # side files were wrong, or segments contradicted each other
    swapped: tuple[str, ...] = ()  # names of files that finished an interrupted compaction
    # Acknowledged records may be gone, and new ones get their offsets: the leader epoch that a
    # broker begins so that consumers notice, beyond all that the log had.
    next_epoch: int | None = None
    steps: tuple[str, ...] = ()
    milliseconds: float = 0.0

    @property
    def alarming(self) -> bool:
        """Whether a fault was found that an interrupted writer does not leave."""
        return self.faulty or bool(self.kept or self.missing)  # zeros alone are not kept

    @property
    def changed(self) -> bool:
        """Whether any file was changed."""
        return bool(self.cut_size or self.kept or self.rebuilt or self.removed or self.swapped)

    def and_producers(self, removed: list[str], rewritten: list[str]) -> "RecoveryReport":
        """This report, with the changes to snapshots and transaction indexes."""
        if not removed and not rewritten:
            return self
        steps = list(self.steps)
        if removed:
            steps.append(
                f"removed {count_of(len(removed), 'invalid producer snapshot')}: {some_of(removed)}"
            )
        if rewritten:
            steps.append(
                f"rebuilt "
                f"{count_of(len(rewritten), 'transaction index', 'es')}: {some_of(rewritten)}"
            )
        return replace(
            self,
            removed=(*self.removed, *removed),
            rebuilt=(*self.rebuilt, *rewritten),
            steps=tuple(steps),
        )

    def and_end(self, end_offset: int, recovery_point: int) -> "RecoveryReport":
        """This report, with a step where the log ends below the recovery point."""
        if end_offset >= recovery_point:
            return self
        step = (
            f"the log ends at offset {end_offset}, below the recovery point {recovery_point}: "
            "the records between are missing from the log"
        )
        return replace(self, steps=(*self.steps, step), missing=recovery_point - end_offset)

    def and_hidden(self, first: int, data_end: int, log_start: int) -> "RecoveryReport":
        """This report, with a step where the checkpoint's log start hides all records.

        A power cut leaves that too, if it takes the end of a log whose records were deleted.
        """
        if not first < data_end < log_start:
            return self
        step = describe_hidden(first, data_end, log_start)
        return replace(self, steps=(*self.steps, step), faulty=True)

    def __str__(self) -> str:
        name = os.path.basename(self.path)
        return f"{name}: {'; '.join(self.steps) or 'nothing to recover'}"


@lazy_dataclass(frozen=True, kw_only=True)
class RecoveredSegment:
    """A segment of the log; facts that need a scan are None where none was made."""

    base_offset: int
    size: int
    next_offset: int | None = None  # the offset after its last batch
    max_timestamp: int | None = None  # ms; -1: it has no timestamps
    max_timestamp_offset: int | None = None
    first_timestamp: int | None = None
    producer_batches: int | None = None  # of idempotent and transactional producers


@lazy_dataclass(frozen=True, kw_only=True)
class Recovered:
    report: RecoveryReport
    segments: tuple[RecoveredSegment, ...]  # by base offset
    epochs: LeaderEpochs
    epoch_before: EpochEntry | None = None  # the latest of the file that the last writer left
    names: frozenset[str] | None = None  # of the directory; None: recovery changed some
    lost: tuple[LostRange, ...] = ()  # records lost with their segments
    has_cut_batches: bool = False  # off the log's end; an incomplete last batch is none
