"""Single flipped bits in segments that were once on disk: one damaged batch costs one batch.

No record is shown that never was, none twice; a reader that skips damage gets every record of
every other batch, in every format; opening for writing changes not a
byte of a segment; ``verify`` sees every flip that a checksum covers. The few bits outside
(offset, size and epoch of a batch) are counted apart.
"""

import os
from contextlib import suppress
from random import Random
from typing import NamedTuple

from kstore import Store
from kstore.errors import KStoreError
from oracle.reader import read_log as oracle_read
from support.recording_disk import Tree
from torture.checks import QUIET, TMPFS, Violation, expect, materialise
from torture.damaged_directories import base_trees
from torture.parts import Budget, Figures, quietly, scratch, share

GOAL = None
RECOVERY_POINTS = "recovery-point-offset-checkpoint"  # a log without an entry may be cut
Row = tuple[int, bytes | None]


class BatchLocation(NamedTuple):
    """A batch in a file of a tree."""

    tree: int
    path: str
    start: int
    end: int
    magic: int
    covered_from: int  # position from which on the checksum counts, but for itself


def batch_locations(trees: tuple[Tree, ...]) -> list[BatchLocation]:
    found = []
    for number, tree in enumerate(trees):
        for path, data in tree.items():
            if data is None or not path.endswith(".log") or path.startswith("__"):
                continue
            for batch in oracle_read(data).batches:
                covered = batch.position + (17 if batch.magic == 2 else 12)
                end = batch.position + batch.size
                found.append(BatchLocation(number, path, batch.position, end, batch.magic, covered))
    return found


def _rows(tree: Tree, folder: str, without: BatchLocation) -> list[Row]:
    """The records of a partition that are not in the damaged batch."""
    rows: list[Row] = []
    for path, data in sorted(tree.items()):
        if data is None or not path.startswith(folder + "/") or not path.endswith(".log"):
            continue
        for batch in oracle_read(data).batches:
            if (path, batch.position) != (without.path, without.start):
                rows += [(r.offset, r.value) for r in batch.records if not batch.control]
    return rows


def flip_all(budget: Budget, *, most: int = 1 << 60) -> Figures:
    """Random bits of all batches in all formats, until the time is over."""
    trees = base_trees()
    found = batch_locations(trees)

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            for turn in range(number, most, budget.jobs):
                if budget.ended(figures):
                    break
                random = budget.random("flip", turn)
                location = random.choice(found)
                position = random.randrange(location.start, location.end)
                where = f"{location.path}, byte {position}"
                try:
                    _one(f"{base}/data", trees[location.tree], location, position, random, figures)
                except Exception as error:  # whatever it is, it is a finding
                    figures.violated(where, type(error).__name__, error)
                figures.counts["flips"] += 1
        return figures

    with quietly():
        return share(budget.jobs, work)


def _one(
    root: str,
    intact: Tree,
    location: BatchLocation,
    position: int,
    random: Random,
    figures: Figures,
) -> None:
    data = bytearray(intact[location.path] or b"")
    data[position] ^= 1 << random.randrange(8)
    tree = {**intact, location.path: bytes(data)}
    folder, _, _ = location.path.partition("/")
    topic, _, number = folder.rpartition("-")
    covered = position >= location.covered_from
    figures.counts["under_a_checksum" if covered else "outside"] += 1
    rows = _rows(intact, folder, location)
    everything = {value for _, value in _rows(intact, folder, location._replace(start=-1))}
    materialise(tree, root)
    with Store(root, mode="r", config=QUIET) as store:
        log = store[topic][int(number)]
        shown: list[Row] = []
        try:
            for record in log.view().records(on_damage="skip"):
                shown.append((record.offset, record.value))
        except KStoreError as error:
            raise Violation(f"skipping failed: {error}") from error
        values = {value for _, value in shown}
        expect(values <= everything, "a record that never was:", values - everything)
        missing = [row for row in rows if row not in shown]
        # Where only its offset is wrong a batch is sound by itself, and may hide later ones.
        by_offset = position - location.start < 8
        expect(not missing or by_offset, "lost with another batch:", missing[:3])
        figures.counts["hidden_by_an_offset"] += bool(missing)
        offsets = [offset for offset, _ in shown]
        expect(sorted(set(offsets)) == offsets, "twice, or out of order:", offsets)
        seen = not log.verify().ok
        expect(seen or not covered, "verify is blind to it")
        figures.counts["outside_unseen"] += not seen
    with suppress(KStoreError), Store(root, config=QUIET, files=TMPFS) as store:
        list(store[topic][int(number)])
    with open(f"{root}/{location.path}", "rb") as file:
        left = file.read()
    flushed = f"{topic} {number} ".encode() in (intact.get(RECOVERY_POINTS) or b"")
    expect(left == data or not covered or not flushed, "opening changed the segment")
    expect(os.path.exists(f"{root}/{location.path}"), "the segment is gone")
