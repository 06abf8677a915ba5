"""Corrects leader epochs of salvaged batches that contradict the other batches.

The checksum of a batch v2 does not cover its leader epoch. Epochs never decrease along a log, so
the epochs that contradict the most others are corrupt. A corrupt epoch must not stay: the next
process that opens the log takes the highest epoch for the current one.
"""

from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter

from kstore._native.format import batch_fields
from kstore._native.recovery.find_valid_batches import epoch_runs
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.segment.salvage import Source, ValidRange


@dataclass(frozen=True, slots=True)
class EpochFix:
    """A batch v2 with a corrupt leader epoch, and the epoch that replaces it."""

    source: Source
    position: int  # of the batch
    found: int
    corrected: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive batches with the same leader epoch."""

    range: ValidRange
    position: int
    end: int
    batches: int
    epoch: int
    first_offset: int


def find_fixes(ranges: list[ValidRange], known: LeaderEpochs | None) -> list[EpochFix]:
    """The batches with a corrupt leader epoch; the ranges are sorted by offset.

    A batch's epoch is corrupt if the batch is not in the longest chain of epochs that never
    decrease (counted in batches), or if it is a single batch with an epoch above the latest one
    of the checkpoint, which is written before the first batch of an epoch. The correct epoch
    comes from the checkpoint, else from the batch before, else from the batch after. A checkpoint
    that lacks the epochs of several batches is out of date; then a single batch with the
    checkpoint's next epoch is valid.
    """
    runs = [run for valid in ranges for run in _runs(valid)]
    if known is not None and not len(known):
        known = None
    latest = None if known is None else known.latest
    chain = _longest_chain(runs)
    if latest is not None:
        beyond = [run for run in chain if run.epoch > latest.epoch]
        highest = latest.epoch + (sum(run.batches for run in beyond) > 1)
        chain = [run for run in chain if run.batches > 1 or run.epoch <= highest]
    if len(chain) == len(runs):
        return []
    in_chain = {(id(run.range.source), run.position) for run in chain}
    offsets = [run.first_offset for run in chain]
    fixes = []
    for run in runs:
        if (id(run.range.source), run.position) in in_chain:
            continue
        slot = bisect_right(offsets, run.first_offset)
        low = chain[slot - 1].epoch if slot else None
        high = chain[slot].epoch if slot < len(chain) else None
        epoch = known.epoch_for(run.first_offset) if known is not None else None
        if epoch is None or (low or 0) > epoch or (high is not None and epoch > high):
            epoch = low if low is not None else high if high is not None else -1
        fixes += [
            EpochFix(run.range.source, position, run.epoch, epoch) for position in _positions(run)
        ]
    return fixes


def _runs(valid: ValidRange) -> list[_Run]:
    data = valid.source.data
    found = epoch_runs(data, valid.position, valid.end)
    ends = [position for position, _, _ in found[1:]] + [valid.end] * bool(found)
    return [
        _Run(valid, position, end, batches, epoch, batch_fields.base_offset(data, position))
        for (position, batches, epoch), end in zip(found, ends, strict=True)
    ]


def _positions(run: _Run) -> list[int]:
    """The positions of the batches v2 of a run."""
    data, position, positions = run.range.source.data, run.position, []
    while position < run.end:
        if batch_fields.magic(data, position) == 2:
            positions.append(position)
        position = batch_fields.next_position(data, position)
    return positions


def _longest_chain(runs: list[_Run]) -> list[_Run]:
    """The chain of runs with the most batches in which the epoch never decreases."""
    epochs = sorted({run.epoch for run in runs if run.epoch >= -1})
    # A Fenwick tree of maxima over the sorted epochs: the number of batches and the last run of
    # the longest chain that ends with an epoch up to a slot's.
    tree: list[tuple[int, int]] = [(0, -1)] * (len(epochs) + 1)
    previous = [-1] * len(runs)
    for number, run in enumerate(runs):
        if run.epoch < -1:
            continue
        slot = bisect_right(epochs, run.epoch)
        batches, previous[number] = _longest_up_to(tree, slot)
        entry = (batches + run.batches, number)
        while slot < len(tree):
            tree[slot] = max(tree[slot], entry, key=itemgetter(0))
            slot += slot & -slot
    chain = []
    number = _longest_up_to(tree, len(epochs))[1]
    while number >= 0:
        chain.append(runs[number])
        number = previous[number]
    return chain[::-1]


def _longest_up_to(tree: list[tuple[int, int]], slot: int) -> tuple[int, int]:
    longest = (0, -1)
    while slot > 0:
        longest = max(longest, tree[slot], key=itemgetter(0))
        slot -= slot & -slot
    return longest
