"""The leader epoch that follows a loss of acknowledged records.

A leader that lost its end reuses the offsets after it. Consumers notice that by the leader
epoch alone (KIP-320), so it has to rise. An incomplete batch at the end was never acknowledged:
its append was interrupted.
"""

from os.path import join

from kstore.checkpoint.leader_epochs import EpochEntry, LeaderEpochs
from kstore.errors import CorruptFileError
from kstore.files.filenames import LEADER_EPOCHS
from kstore.files.files import Files
from kstore.recovery.report import Recovered

_NONE = EpochEntry(-1, 0)


def latest_epoch(files: Files, directory: str) -> EpochEntry:
    """The latest epoch of ``leader-epoch-checkpoint``, as the last writer left it; epoch -1 where
    the file has none, or cannot be read."""
    try:
        return LeaderEpochs.load(files, join(directory, LEADER_EPOCHS)).latest or _NONE
    except CorruptFileError:
        return _NONE


def epoch_after_loss(
    recovered: Recovered, before: EpochEntry, known_end: int, end_offset: int
) -> int | None:
    """The next leader epoch, or None where no acknowledged record is known to be lost.

    Parameters
    ----------
    recovered
        ``has_cut_batches``: a complete batch was cut, which may have been acknowledged.
    before
        The latest epoch before the recovery. Its start was the log end once.
    known_end
        An offset that the log end had reached: the recovery point, the high watermark.
    """
    if not recovered.has_cut_batches and end_offset >= max(known_end, before.start_offset):
        return None
    latest = recovered.epochs.latest
    return max(0, before.epoch, -1 if latest is None else latest.epoch) + 1
