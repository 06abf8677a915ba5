"""Directories that were mutilated at random: reading, verifying, repairing, recovering them.

Whatever a directory contains:

- nothing but kstore's own errors comes out, of the library and of its tools, in bounded time and
  memory, and no descriptor stays open;
- no record is shown that never was, and none twice or out of order;
- readers, plans and repairs change nothing, writers nothing outside of the directory;
- every complete batch that was in a segment before is still in some file afterwards;
- what damage did not touch a reader that skips damage shows, and a repair saves;
- what a writer showed and closed, the next one shows.
"""

import io
import os
import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import lru_cache
from random import Random
from typing import NamedTuple

from kstore import Log, Store, StoreConfig
from kstore.cli import main as tool
from kstore.errors import KStoreError
from kstore.maintenance.repair import plan_repair, repair
from kstore.record.timestamp import LAST_RECORD_TIMESTAMP
from oracle.reader import CorruptError
from oracle.reader import read_log as oracle_read
from support.recording_disk import Tree
from torture.bounds import TookTooLongError, in_memory, in_time, nothing_left_open, stamps
from torture.checks import TMPFS, expect
from torture.damaged_directories import (
    CANARY,
    Mutilated,
    Odd,
    base_trees,
    known_values,
    lay_out,
    mutilate,
)
from torture.parts import Budget, Figures, doing, quietly, scratch, share
from torture.world import QUIET

GOAL = ("directories", 100_000)
KAFKA = StoreConfig(background=False, recovery="kafka")
LEFTOVERS = (".deleted", ".cleaned", ".swap")
OTHERS = 1  # partitions that are used though nothing in their folders was mutilated
_MOST_READ = 1 << 22  # bytes of one file that are searched for batches
TopicPartition = tuple[str, int]
Row = tuple[int, bytes | None]
Shown = dict[TopicPartition, list[Row]]  # only of logs that were read to their end


class Case(NamedTuple):
    """One mutilated directory. ``values`` is None where a checksum was made to fit."""

    root: str
    base: Tree
    mutilated: Mutilated
    values: frozenset[bytes | None] | None
    random: Random


@lru_cache(maxsize=2048)
def _complete_batches(data: bytes) -> tuple[int, frozenset[bytes]]:
    """Every batch that the oracle can still read in a segment, and where the last one ends."""
    try:
        plain = oracle_read(data)
    except (CorruptError, ValueError, EOFError, OverflowError, MemoryError):
        return 0, frozenset()  # nothing is asked of what even the slow reader cannot read
    except Exception:  # a decompressor's own
        return 0, frozenset()
    sound = [batch for batch in plain.batches if batch.crc_ok]
    found = frozenset(data[each.position : each.position + each.size] for each in sound)
    return max((each.position + each.size for each in sound), default=0), found


def try_directory(case: Case, figures: Figures) -> None:
    """Read, verify, repair and write the directory."""
    counts = figures.counts
    untouched = _untouched(case)
    counts["asked_of_neighbours"] += bool(untouched)
    before = stamps(case.root)
    counts["refusals"] += _use(case, "r", QUIET, {}, untouched)
    if case.random.random() < 0.25:
        counts["repairs"] += _repair(case, untouched)
    if case.random.random() < 0.15:
        counts["tools"] += _tools(case)
    expect(stamps(case.root) == before, "a reader changed the directory")
    shown: Shown = {}
    refused = _use(case, "a", QUIET, shown, {})
    counts["refusals"] += refused
    asked = not any(path.endswith(LEFTOVERS) for path in case.mutilated)
    if asked:
        _all_kept(case)
    if shown and case.random.random() < 0.5:
        counts["opened_again"] += _open_again(case, shown)
    if refused or case.random.random() < 0.2:  # of what opened, Kafka's way has nothing to cut
        counts["as_kafka"] += 1
        counts["refusals"] += _use(case, "a", KAFKA, {}, {})
        if asked:  # what Kafka would have cut off, or deleted, is kept aside
            _all_kept(case)
    with open(f"{case.root}.canary", "rb") as file:
        expect(file.read() == CANARY, "a file outside was written to")


# --- what must not be lost --------------------------------------------------------------------


def _all_kept(case: Case) -> None:
    """Every complete batch of a segment is still in some file."""
    sought: set[bytes] = set()
    for path, data in case.mutilated.items():
        if isinstance(data, bytes) and path.endswith(".log"):
            end, batches = _complete_batches(data)
            if batches and not _read(f"{case.root}/{path}").startswith(data[:end]):
                sought |= batches
    if not sought:
        return
    kept = b"|".join(
        _read(f"{directory}/{name}") for directory, _, names in os.walk(case.root) for name in names
    )
    for batch in sought:
        # A writer stamps neither offset nor epoch of existing batches: all bytes stay.
        expect(batch in kept, "a complete batch is gone:", batch[:40].hex())


def _read(path: str) -> bytes:
    if not os.path.isfile(path) or os.path.islink(path):
        return b""
    with open(path, "rb") as file:
        return file.read(_MOST_READ)


def _untouched(case: Case) -> dict[TopicPartition, list[Row]]:
    """Of partitions where bytes under a checksum changed, and nothing else: all other records."""
    base, mutilated = case.base, case.mutilated
    if any(
        base.get(path) != mutilated.get(path) for path in {*base, *mutilated} if "/" not in path
    ):
        return {}  # where the log begins, and what of it may be a torn end
    found: dict[TopicPartition, list[Row]] = {}
    for folder in [path for path, data in base.items() if data is None and "/" not in path]:
        name, _, number = folder.rpartition("-")
        if not number.isdigit() or name.startswith("__"):
            continue
        logs = {path for path in base if path.startswith(f"{folder}/") and path.endswith(".log")}
        now = {
            p: d for p, d in mutilated.items() if p.startswith(f"{folder}/") and d != base.get(p)
        }
        if not now or not now.keys() <= logs or not logs <= mutilated.keys():
            continue
        rows: list[Row] | None = []
        for path in sorted(logs):
            rows = _sound(base[path], mutilated[path], rows)
        if rows is not None:
            found[name, int(number)] = rows
    return found


def _sound(was: bytes | None, now: bytes | Odd | None, rows: list[Row] | None) -> list[Row] | None:
    """The rows, and those of the batches that are as they were; None: nothing may be asked."""
    if was is None or rows is None or not isinstance(now, bytes) or len(now) != len(was):
        return None
    more: list[list[Row]] = []
    ruined = []  # indexes of batches
    batches = oracle_read(was).batches
    begins = {batch.position: index for index, batch in enumerate(batches)}
    begins[len(was)] = len(batches)
    for index, batch in enumerate(batches):
        end = batch.position + batch.size
        covered = batch.position + (17 if batch.magic == 2 else 12)
        more.append([])
        if was[batch.position : end] == now[batch.position : end]:
            more[-1] = [(r.offset, r.value) for r in batch.records if not batch.control]
        elif was[covered:end] == now[covered:end]:
            return None  # no checksum shows it, and the batch may hide others
        elif any(_fits(now[at:]) for at in range(batch.position, end)):
            return None  # a message that was shifted by bytes, so that its offset is another
        elif was[batch.position : covered] != now[batch.position : covered]:
            ruined.append(index)
            # By chance its size may be that of several: its seeming contents are not checked.
            claimed = batch.position + 12 + int.from_bytes(now[batch.position + 8 :][:4], "big")
            ruined += range(index + 1, begins.get(claimed, 0))
    if len(ruined) > 1:
        # Only an index distinguishes batches between them from bytes of a value.
        more[min(ruined) : max(ruined) + 1] = []
    return [*rows, *(row for each in more for row in each)]


def _fits(data: bytes) -> bool:
    """Whether a batch begins here whose checksum is right, whatever its size and records are."""
    size = 12 + int.from_bytes(data[8:12], "big", signed=True)
    try:
        return 17 < size <= len(data) and oracle_read(data[:size], decode=False).batches[0].crc_ok
    except (CorruptError, IndexError):
        return False


# --- reading and writing ------------------------------------------------------------------------


def _use(
    case: Case,
    mode: str,
    config: StoreConfig,
    shown: Shown,
    untouched: dict[TopicPartition, list[Row]],
) -> int:
    """Everything that a store can be asked; returns how many kstore errors came."""
    refused = 0
    try:
        store = Store(case.root, mode, config=config, files=TMPFS)
    except KStoreError:
        return 1
    try:
        for tp in _chosen(case, store):
            refused += _use_log(case, store, tp, mode, shown)
        for tp, rows in untouched.items():
            if tp[0] in store and tp[1] in _partitions(store, tp[0]):
                refused += _skip_damage(case, store, tp, rows)
    finally:
        try:
            store.close()
        except KStoreError:
            refused += 1
            shown.clear()
    return refused


def _chosen(case: Case, store: Store) -> list[TopicPartition]:
    """Partitions in whose folders something is other than it was, and some more."""
    folders = {path.partition("/")[0] for path in {*case.base, *case.mutilated}
               if case.base.get(path) != case.mutilated.get(path)}  # fmt: skip
    topic_partitions = [
        (name, partition) for name in store for partition in _partitions(store, name)
    ]
    touched = [tp for tp in topic_partitions if f"{tp[0]}-{tp[1]}" in folders]
    others = [tp for tp in topic_partitions if tp not in touched]
    return touched + case.random.sample(others, min(OTHERS, len(others)))


def _partitions(store: Store, name: str) -> list[int]:
    with suppress(KStoreError):  # a disk that fails takes its directory offline
        return list(store[name].partitions)
    return []


def _use_log(case: Case, store: Store, tp: TopicPartition, mode: str, shown: Shown) -> int:
    uses = [_records, _columns, *((_append,) if mode == "a" else (_verify, _lookups))]
    rows: list[Row] = []
    refused = 0
    for use in uses:
        try:
            use(case, store[tp[0]][tp[1]], rows)
        except KStoreError:
            refused += 1
    if not refused:
        shown[tp] = rows
    return refused


def _records(case: Case, log: Log, rows: list[Row]) -> None:
    following = -1
    for record in log:
        known = case.values is None or record.value in case.values
        expect(known or log.topic.startswith("__"), log.topic, "shows", record.value)
        expect(record.offset >= following, log.topic, "offset", record.offset, "again")
        following = record.offset + 1
        rows.append((record.offset, record.value))


def _columns(case: Case, log: Log, rows: list[Row]) -> None:
    found = [
        (int(offset), value)
        for part in log.view().scan()
        for offset, value in zip(part.offsets, part.values, strict=True)
    ]
    expect(not rows or found == rows, "columns are others than records", len(found), len(rows))


def _verify(case: Case, log: Log, rows: list[Row]) -> None:
    str(log.verify())


def _lookups(case: Case, log: Log, rows: list[Row]) -> None:
    for when in (0, 1003, 1_700_000_000_000, LAST_RECORD_TIMESTAMP):
        found = log.offset_at(when)
        expect(0 <= found <= log.end_offset, "offset_at", when, "is", found)
    for offset, value in rows[:: max(1, len(rows) // 3)]:
        expect(log[offset].value == value, "another record at", offset)
    # An aborted batch that is damaged stops a reader of all records, and no reader of the others.
    seen = rows[-1][0] if rows else -1
    committed = [r.offset for r in log.view(isolation="read_committed") if r.offset <= seen]
    expect(len(committed) <= len(rows), "more is committed than there is")


def _append(case: Case, log: Log, rows: list[Row]) -> None:
    rows.append((log.append(b"on", key=b"on"), b"on"))


def _skip_damage(case: Case, store: Store, tp: TopicPartition, rows: list[Row]) -> int:
    found = [
        (record.offset, record.value)
        for record in store[tp[0]][tp[1]].view().records(on_damage="skip")
    ]
    missing = [row for row in rows if row not in found]
    expect(not missing, tp, "skipping damage lost sound records:", missing[:3])
    return 0


def _open_again(case: Case, shown: Shown) -> int:
    with Store(case.root, config=QUIET, files=TMPFS) as store:
        for tp, rows in shown.items():
            found = [(record.offset, record.value) for record in store[tp[0]][tp[1]]]
            expect(found == rows, tp, "a second opening shows", found[-2:], "not", rows[-2:])
    return 1


# --- repairs and tools --------------------------------------------------------------------------


def _repair(case: Case, untouched: dict[TopicPartition, list[Row]]) -> int:
    output = f"{case.root}.repaired"
    shutil.rmtree(output, ignore_errors=True)
    try:
        plan = plan_repair(case.root, files=TMPFS)
        done = repair(case.root, output, files=TMPFS)
    except KStoreError:
        expect(not untouched, "repair refused a directory with damaged batches only")
        return 0
    expect(
        [each.batches for each in plan.partitions] == [each.batches for each in done.partitions],
        "a plan that was not kept to",
    )
    with suppress(KStoreError), Store(output, config=QUIET, files=TMPFS) as store:
        for name in list(store):
            for partition in store[name].partitions:
                rows: list[Row] = []
                _records(case, store[name][partition], rows)
                missing = [row for row in untouched.get((name, partition), ()) if row not in rows]
                expect(not missing, name, "a repair lost sound records:", missing[:3])
    return 1


def _tools(case: Case) -> int:
    files = [
        f"{directory}/{name}"
        for directory, _, names in os.walk(case.root)
        for name in sorted(names)
        if name.endswith((".log", "index", ".snapshot"))
    ]
    calls = [["verify", "--path", case.root], ["repair", "--path", case.root]]
    if files:
        some = ",".join(case.random.sample(files, min(3, len(files))))
        calls.append(["dump-log", "--deep-iteration", "--files", some])
    for call in calls:
        out = io.TextIOWrapper(io.BytesIO(), errors="surrogateescape")
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            status = tool(call)
        # 3: the checkpoints name partitions whose folders are not in this copy
        allowed = (0, 1, 2) if call[0] == "dump-log" else (0, 1, 2, 3)
        expect(status in allowed, *call, "ends with", status)
    return len(calls)


# --- all of it -----------------------------------------------------------------------------------


def mutate_all(budget: Budget, *, most: int = 1 << 60) -> Figures:
    trees, values = base_trees(), known_values()

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            root = f"{base}/data"
            with open(f"{root}.canary", "wb") as file:
                file.write(CANARY)
            for turn in range(number, most, budget.jobs):
                if budget.ended(figures):
                    break
                random = budget.random("mutation", turn)
                tree = random.choice(trees)
                mutilated, done = mutilate(tree, random)
                forged = any(each.startswith("number") for each in done)
                case = Case(root, tree, mutilated, None if forged else values, random)
                doing(f"number {turn}: {', '.join(done)}")
                if not _one(case, f"number {turn}: {', '.join(done)}", figures):
                    break
        return figures

    with quietly():
        return share(budget.jobs, work)


def _one(case: Case, what: str, figures: Figures) -> bool:
    """Whether this process can continue: what hangs may continue in another thread."""
    try:
        lay_out(case.mutilated, case.root)
        with in_time(), in_memory(), nothing_left_open():
            try_directory(case, figures)
    except (Exception, TookTooLongError) as error:  # whatever it is, it is a finding
        kept = tempfile.mkdtemp(prefix="kstore-mutation-")
        lay_out(case.mutilated, f"{kept}/data")
        figures.violated(what, type(error).__name__, error, f"kept in {kept}")
        if isinstance(error, TookTooLongError):
            return False
    figures.counts["directories"] += 1
    return True
