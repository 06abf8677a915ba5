"""What a run of the mirror knows of one partition."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore.mirror.report import PartitionReport
from kstore.mirror.transaction_ends import Endings

if TYPE_CHECKING:
    from kstore.log.log import Log


@dataclass(slots=True)
class PartitionCopy:
    """The state of a partition during a run."""

    log: "Log"
    report: PartitionReport
    endings: Endings
    room: int  # bytes to request; more if a batch is larger
    target: int = 0  # the source's end, as it was asked last
    source_start: int = 0
    epoch: int = -1  # leader epoch of the last batch
    epochs_fit: bool = True  # whether the leader's epochs reach back as far as the local ones
    empty_answers: int = 0  # answers in a row without a byte
    troubled_since: float | None = None  # since when it has had no useful answer
    problem: str = ""  # why
    is_begun: bool = False  # whether this run or an earlier one knows where it continues
    told_until: int = 0  # offsets below it that are missing are in the notes
    committed: bool = True  # whether to ask for what is stable, with the aborted transactions
