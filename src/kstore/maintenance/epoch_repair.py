"""Leader epochs of salvaged batches that cannot be right, and what they were.

The epoch of a batch v2 lies outside its checksum. It never falls from one batch to the next, so
of a log's epochs those that contradict the most others are wrong. One that is wrong and left
there would do harm: who opens the log takes the highest for the current one.
"""

from bisect import bisect_right
from dataclasses import dataclass

from kstore._native.format import batch_fields
from kstore._native.recovery.salvage import epoch_runs
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.segment.salvage import Source, ValidRange


@dataclass(frozen=True, slots=True)
class EpochFix:
    """A batch v2, and the epoch that it had."""

    source: Source
    position: int  # of the batch
    found: int
    right: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Batches in a row with one leader epoch."""

    piece: ValidRange
    position: int
    end: int
    batches: int
    epoch: int
    first_offset: int


def find_fixes(pieces: list[ValidRange], known: LeaderEpochs | None) -> list[EpochFix]:
    """The batches whose epoch is wrong; pieces are by offset.

    Wrong is what is not in the heaviest chain of epochs that never fall, counted in batches, or
    one batch alone that the checkpoint contradicts: its epoch is beyond those of the file, which
    is written before the first batch of an epoch. What it was is told by the checkpoint, or by
    the batches in front of it, or behind. A file that lacks the epochs of several batches is old;
    then one batch with the epoch that would come next is believed.
    """
    runs = [run for piece in pieces for run in _runs(piece)]
    if known is not None and not len(known):
        known = None
    latest = None if known is None else known.latest
    chain = _heaviest(runs)
    if latest is not None:
        beyond = [run for run in chain if run.epoch > latest.epoch]
        most = latest.epoch + (sum(run.batches for run in beyond) > 1)
        chain = [run for run in chain if run.batches > 1 or run.epoch <= most]
    if len(chain) == len(runs):
        return []
    kept = {(id(run.piece.source), run.position) for run in chain}
    offsets = [run.first_offset for run in chain]
    fixes = []
    for run in runs:
        if (id(run.piece.source), run.position) in kept:
            continue
        slot = bisect_right(offsets, run.first_offset)
        low = chain[slot - 1].epoch if slot else None
        high = chain[slot].epoch if slot < len(chain) else None
        right = known.epoch_for(run.first_offset) if known is not None else None
        if right is None or (low or 0) > right or (high is not None and right > high):
            right = low if low is not None else high if high is not None else -1
        fixes += [EpochFix(run.piece.source, at, run.epoch, right) for at in _positions(run)]
    return fixes


def _runs(piece: ValidRange) -> list[_Run]:
    data = piece.source.data
    found = epoch_runs(data, piece.position, piece.end)
    ends = [position for position, _, _ in found[1:]] + [piece.end] * bool(found)
    return [
        _Run(piece, position, end, batches, epoch, batch_fields.base_offset(data, position))
        for (position, batches, epoch), end in zip(found, ends, strict=True)
    ]


def _positions(run: _Run) -> list[int]:
    """Where each batch v2 of a run begins."""
    data, position, found = run.piece.source.data, run.position, []
    while position < run.end:
        if batch_fields.magic(data, position) == 2:
            found.append(position)
        position = batch_fields.next_position(data, position)
    return found


def _heaviest(runs: list[_Run]) -> list[_Run]:
    """The chain of epochs that never fall with the most batches in it."""
    epochs = sorted({run.epoch for run in runs if run.epoch >= -1})
    # best[n]: weight and last run of the heaviest chain that ends with one of the first n epochs
    # or a lower one; a Fenwick tree of maxima.
    best: list[tuple[int, int]] = [(0, -1)] * (len(epochs) + 1)
    before = [-1] * len(runs)
    for number, run in enumerate(runs):
        if run.epoch < -1:
            continue
        place = bisect_right(epochs, run.epoch)
        weight, before[number] = _most(best, place)
        entry = (weight + run.batches, number)
        while place < len(best):
            best[place] = max(best[place], entry, key=lambda each: each[0])
            place += place & -place
    chain = []
    number = _most(best, len(epochs))[1]
    while number >= 0:
        chain.append(runs[number])
        number = before[number]
    return chain[::-1]


def _most(best: list[tuple[int, int]], place: int) -> tuple[int, int]:
    found = (0, -1)
    while place > 0:
        found = max(found, best[place], key=lambda each: each[0])
        place -= place & -place
    return found
