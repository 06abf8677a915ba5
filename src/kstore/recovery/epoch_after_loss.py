"""The leader epoch that follows a loss of acknowledged records.

A leader that lost its end reuses the offsets after it. Consumers notice that by the leader
epoch alone (KIP-320), so it has to rise. An incomplete batch at the end was never acknowledged:
its append was interrupted.
"""

from kstore.checkpoint.leader_epochs import EpochEntry
from kstore.recovery.report import Recovered

_NONE = EpochEntry(-1, 0)


def epoch_after_loss(
    recovered: Recovered, before: EpochEntry | None, known_end: int, end_offset: int
) -> int | None:
    """The next leader epoch, or None where no acknowledged record is known to be lost.

    Parameters
    ----------
    recovered
        ``has_cut_batches``: a complete batch was cut, which may have been acknowledged.
    before
        The latest epoch before the recovery, None without one. Its start was the log end once.
    known_end
        An offset that the log end had reached: the recovery point, the high watermark.
    """
    before = before or _NONE
    if not recovered.has_cut_batches and end_offset >= max(known_end, before.start_offset):
        return None
    latest = recovered.epochs.latest
    return max(0, before.epoch, -1 if latest is None else latest.epoch) + 1
