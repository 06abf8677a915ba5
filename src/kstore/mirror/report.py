"""What a run of the mirror did."""

from dataclasses import dataclass, field

from kstore.mirror.transaction_ends import Undecided


@dataclass(slots=True)
class PartitionReport:
    """The result for one partition; offsets as they are in the local log now."""

    partition: int
    start_offset: int = 0
    end_offset: int = 0
    first_offset: int = 0
    """Where this run continued."""
    bytes: int = 0
    """Of the batches that this run appended."""
    notes: list[str] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    """Transactions whose outcome the source's cleaner removed; they count as aborted here."""


@dataclass(slots=True)
class MirrorReport:
    """The result of a run. ``created``: the topic did not exist locally before."""

    topic: str
    topic_id: str | None
    created: bool
    partitions: list[PartitionReport]
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)

    @property
    def ok(self) -> bool:
        """Whether the outcome of every transaction is known."""
        return not any(each.undecided for each in self.partitions)
