"""Bugs planted on purpose: each has to be caught by a part, or the part proves little.

A bug is a patch at run time of one function of kstore; ``caught`` runs a short form of the part
that is named beside it, and says whether that part reported a violation.
"""

import dataclasses
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from kstore._native.recovery.segment_scan import SegmentScan
from kstore.broker.transaction_service import TransactionService
from kstore.checkpoint import log_dir
from kstore.checkpoint.topics_file import DELETING, TopicsFile
from kstore.coordinator.transaction.embedded_coordinator import EmbeddedCoordinator
from kstore.coordinator.transaction.store_transactions import StoreTransactions
from kstore.coordinator.transaction.transaction_events import StoreTransaction
from kstore.coordinator.transaction.transaction_state_records import TransactionState
from kstore.errors import StorageError
from kstore.files import files
from kstore.files.file_lock import Lock
from kstore.files.files import Files
from kstore.log import group_commit
from kstore.log.flush import Flusher
from kstore.recovery import apply_changes, torn_tail
from kstore.recovery import recover_partition as recovery
from kstore.segment import preallocate, segment
from kstore.segment import scan as segment_scan
from kstore.store import log_dir_checkpoints
from oracle.crc import crc32c
from torture import bit_flips, crash_states, io_errors, kills, parts_of_other_tests, random_damage
from torture.parts import Budget, Figures, scratch

GOAL = None
LONGEST = 60.0  # seconds for one bug


class Bug(NamedTuple):
    plant: Callable[[], AbstractContextManager[object]]
    part: str
    scenarios: tuple[str, ...] = ()
    models: tuple[str, ...] = ("kill", "ordered", "hostile")
    every: int = 1  # of so many moments of a long scenario one is checked


def caught(name: str, seed: int = 1) -> Figures:
    """Run the part's short form on the bug; its violations end it, and nothing of them is kept."""
    bug = BUGS[name]
    budget = Budget(LONGEST, seed, until_violation=True)
    with scratch(memory=False) as kept, patch.object(tempfile, "tempdir", kept), bug.plant():
        return SHORT_FORMS[bug.part](budget, bug)


SHORT_FORMS: dict[str, Callable[[Budget, Bug], Figures]] = {
    "crash-states": lambda budget, bug: crash_states.explore_all(
        budget, names=list(bug.scenarios), models=bug.models, bound=60, rounds=4, every=bug.every
    ),
    "kills": lambda budget, bug: kills.kill_all(budget, names=list(bug.scenarios), most=1),
    "io-errors": lambda budget, bug: io_errors.fail_all(budget, names=list(bug.scenarios)),
    "mutations": lambda budget, bug: random_damage.mutate_all(budget, most=600),
    "fuzz": lambda budget, bug: parts_of_other_tests.fuzz_all(budget),
    "bit-flips": lambda budget, bug: bit_flips.flip_all(budget, most=300),
}


# --- the bugs -------------------------------------------------------------------------------------


def replace(owner: object, name: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
    """A patch of owner.name by what make returns for the original."""
    return lambda: patch.object(owner, name, make(getattr(owner, name)))


def nothing(original: Any) -> Any:
    return lambda *arguments, **named: None


def _sync_with(**forced: object) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def sync(self: Any, active_fd: int, rolled: list[Any], directory: bool) -> None:
            asked = {"active_fd": active_fd, "rolled": rolled, "directory": directory, **forced}
            original(self, **asked)

        return sync

    return make


def _sync_swallowing(original: Any) -> Any:
    def sync(self: Any, *arguments: Any) -> None:
        with suppress(StorageError):
            original(self, *arguments)

    return sync


def _small_file(*, in_place: bool = False, sync: bool = True, name: bool = True) -> Any:
    def write(self: Files, path: Any, data: bytes) -> None:
        target = os.fspath(path)
        temporary = target if in_place else target + ".tmp"
        fd = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.write(fd, data)
            if sync:
                self.fsync(fd)
        finally:
            self.close(fd)
        if not in_place:
            self.rename(temporary, target)
        if name:
            self.sync_directory(os.path.dirname(target))

    return lambda original: write


def _state_at_the_end(original: Any) -> Any:
    return lambda log: original(log)._replace(recovery_point=log.end_offset)


def _marker_stays(original: Any) -> Any:
    return log_dir.read_clean_shutdown


def _marker_unsynced(original: Any) -> Any:
    def take(files: Files, directory: Any) -> bytes | None:
        content = log_dir.read_clean_shutdown(files, directory)
        if content is not None:
            files.remove(os.path.join(directory, ".kafka_cleanshutdown"))
        return content

    return take


def _untrimmed(original: Any) -> Any:
    def trim(files: Files, view: Any, opened: Any) -> None:
        with patch.object(type(files), "truncate", nothing(None)):
            original(files, view, opened)

    return trim


def _without(name: str) -> Callable[[Any], Any]:
    """The original, run on a disk that leaves out one call."""

    def make(original: Any) -> Any:
        def run(files: Files, *arguments: Any, **named: Any) -> Any:
            disk = type(getattr(files, "inner", files))  # behind the watch of a directory
            with patch.object(disk, name, nothing(None)):
                return original(files, *arguments, **named)

        return run

    return make


def _mark_late(original: Any) -> Any:
    def mark(self: Any, topic: str, entry: Any, state: str, *unique: str) -> Any:
        if state != DELETING:
            return original(self, topic, entry, state, *unique)
        return dataclasses.replace(entry, unique=unique[0])

    return mark


class _Scan:
    """The kernel's scan with something done to the bytes it is fed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._scan = SegmentScan(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scan, name)

    def alter(self, data: bytearray) -> None:
        raise NotImplementedError

    def feed(self, chunk: Any) -> Any:
        data = bytearray(chunk)
        self.alter(data)
        return self._scan.feed(bytes(data))


def _batches(data: bytearray) -> Iterator[tuple[int, int]]:
    position = 0
    while position + 61 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if size < 61 or position + size > len(data):
            return
        yield position, size
        position += size


class _NoChecksum(_Scan):
    def alter(self, data: bytearray) -> None:
        for at, size in _batches(data):
            data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4, "big")


class _LastBatchDropped(_Scan):
    def alter(self, data: bytearray) -> None:
        *_, (at, _) = ((0, 0), *_batches(data))
        if at:
            data[at + 20] ^= 1


def _cut_zeros_never(original: Any) -> Any:
    def cut(files: Files, directory: Path, scan: Any, names: Any, **how: bool) -> str | None:
        fd = files.open(directory / f"{scan.base_offset:020d}.log")
        try:
            zeros = files.only_zeros(fd, scan.valid_size, scan.file_size)
        finally:
            files.close(fd)
        return None if zeros else original(files, directory, scan, names, **how)

    return cut


def _write_once(fd: int, buffer: Any, done: int) -> int:
    with memoryview(buffer).cast("B") as view:
        os.write(fd, view[done:])
        return len(view)


def _lock_unseen(original: Any) -> Any:
    def lock(self: Files, path: Any, start: int = 0, size: int = 0) -> Lock:
        fd = self.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return Lock(os.fspath(path), fd)

    return lock


def _keep_half_appends(original: Any) -> Any:
    """What a failed append left is not cut off; sizes of indexes are set as before."""

    def truncate(self: Files, fd: int, size: int) -> None:
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
            original(self, fd, size)

    return truncate


def _flush_without(topic: str) -> Callable[[Any], Any]:
    """A transaction's records are synced, but for those in one topic."""

    def make(original: Any) -> Any:
        return lambda self, partitions: original(self, [tp for tp in partitions if tp[0] != topic])

    return make


def _unjoined(topic: str) -> Callable[[Any], Any]:
    """The partitions of a topic are not added to the transaction that has records there."""

    def make(original: Any) -> Any:
        def add(self: Any, name: str, producer_id: int, epoch: int, partitions: Any) -> None:
            original(self, name, producer_id, epoch, [tp for tp in partitions if tp[0] != topic])

        return add

    return make


EACH = ("append, sync each",)


def _decision_unsynced(original: Any) -> Any:
    """Only what InitProducerId stores is synced: without it, its producer is unknown."""

    def must_sync(self: TransactionService, effect: StoreTransaction) -> bool:
        metadata = effect.metadata
        is_init = metadata is not None and metadata.state is TransactionState.EMPTY
        return is_init and bool(original(self, effect))

    return must_sync


TRANSACTIONS = ("transactions",)
BROKERS_TRANSACTIONS = ("broker's transactions",)
POWER = ("ordered", "hostile")
HOSTILE = ("hostile",)
BUGS: dict[str, Bug] = {
    "flush syncs nothing": Bug(
        replace(Flusher, "sync", nothing), "crash-states", EACH, POWER
    ),
    "flush does not sync the directory": Bug(
        replace(Flusher, "sync", _sync_with(directory=False)),
        "crash-states", ("roll",), HOSTILE,
    ),
    "a rolled segment is never synced": Bug(
        replace(Flusher, "sync", _sync_with(rolled=[])), "crash-states", ("roll",), POWER
    ),
    "a group's commit is acknowledged before its sync": Bug(
        replace(group_commit.Committer, "wait", lambda _: lambda self, *a, **k: True),
        "crash-states", ("group commit",), POWER,
    ),
    "a failed sync is swallowed": Bug(
        replace(Flusher, "sync", _sync_swallowing), "io-errors", EACH
    ),
    "a small file is not synced before its rename": Bug(
        replace(Files, "write_atomically", _small_file(sync=False)),
        "crash-states", ("topic create",), POWER,
    ),
    "a small file is written in place": Bug(
        replace(Files, "write_atomically", _small_file(in_place=True)), "kills", ("topic create",)
    ),
    "the name of a small file is not synced": Bug(
        replace(Files, "write_atomically", _small_file(name=False)),
        "crash-states", ("topic create",), HOSTILE,
    ),
    "the recovery point runs ahead of the sync": Bug(
        replace(log_dir_checkpoints, "state_of", _state_at_the_end),
        "crash-states", ("append, no sync",), POWER,
    ),
    "the clean marker is not removed": Bug(
        replace(log_dir, "take_clean_shutdown", _marker_stays),
        "crash-states", ("close and open",),
    ),
    "the clean marker's removal is not synced": Bug(
        replace(log_dir, "take_clean_shutdown", _marker_unsynced),
        "crash-states", ("close and open",), POWER,
    ),
    "recovered indexes are not written": Bug(
        replace(apply_changes, "_replace", lambda _: lambda *a: False),
        "crash-states", ("append, no sync",),
    ),
    "a rolled index is not trimmed": Bug(
        replace(segment, "trim_indexes", _untrimmed), "crash-states", EACH
    ),
    "a rolled segment keeps its zeros": Bug(
        replace(preallocate, "trim_log", nothing), "crash-states", ("prewritten",), ("kill",)
    ),
    "recovery checks no checksum": Bug(
        replace(segment_scan, "SegmentScan", lambda _: _NoChecksum),
        "crash-states", ("append, no sync",), HOSTILE,
    ),
    "recovery drops the last batch": Bug(
        replace(segment_scan, "SegmentScan", lambda _: _LastBatchDropped), "kills", EACH
    ),
    "zeros at the end are not cut": Bug(
        replace(apply_changes, "cut_tail", _cut_zeros_never), "crash-states", EACH, POWER
    ),
    "cut bytes are not kept": Bug(replace(torn_tail, "_keep_tail", nothing), "mutations"),
    "damage below the recovery point is cut": Bug(
        replace(recovery, "_check_cut", nothing), "bit-flips"
    ),
    "a truncation's removals are not synced in order": Bug(
        replace(segment, "finish_truncation", _without("sync_directory")),
        "crash-states", ("truncate",), HOSTILE,
    ),
    "a truncation's copy is not synced": Bug(
        replace(segment, "copy_beginning", _without("fsync")),
        "crash-states", ("truncate",), HOSTILE,
    ),
    "a deletion is not noted before it begins": Bug(
        replace(TopicsFile, "mark", _mark_late), "kills", ("topic delete",)
    ),
    "a short write is not gone on with": Bug(
        replace(files, "_write_rest", lambda _: _write_once), "io-errors", EACH
    ),
    "a failed append is not cut off": Bug(
        replace(Files, "truncate", _keep_half_appends), "io-errors", EACH
    ),
    "records are not on disk before the decision to commit them": Bug(
        replace(StoreTransactions, "flush", nothing),
        "crash-states", TRANSACTIONS, POWER, every=20,
    ),
    "committed offsets are not on disk before the decision": Bug(
        replace(StoreTransactions, "flush", _flush_without("__consumer_offsets")),
        "crash-states", TRANSACTIONS, POWER, every=20,
    ),
    "a decision is not on disk before its markers": Bug(
        replace(StoreTransactions, "flush_state", nothing),
        "crash-states", TRANSACTIONS, POWER, every=20,
    ),
    "a broker's decision is not on disk before its markers and its answer": Bug(
        replace(TransactionService, "_must_sync", _decision_unsynced),
        "crash-states", BROKERS_TRANSACTIONS, POWER, every=6,
    ),
    "committed offsets are not part of the transaction": Bug(
        replace(EmbeddedCoordinator, "add_partitions", _unjoined("__consumer_offsets")),
        "crash-states", TRANSACTIONS, ("kill",), every=20,
    ),
    "the lock is one that no other process sees": Bug(
        replace(Files, "lock", _lock_unseen), "crash-states", EACH
    ),
}  # fmt: skip


def plant_all(budget: Budget) -> Figures:
    """Every bug, one after another; a bug that is not caught is a violation."""
    figures = Figures()
    for name, bug in BUGS.items():
        if budget.over:
            figures.violated("not tried in the time:", name)
            continue
        found = caught(name, budget.seed)
        figures.counts["planted"] += 1
        figures.counts["caught"] += found.violation_count > 0
        if not found.violation_count:
            figures.violated("not caught:", name, "by", bug.part)
    return figures
