"""What a look at directories found: findings, and what would be copied where."""

from dataclasses import dataclass, field
from typing import NamedTuple

REFUSED, WARNING, NOTE = "refused", "warning", "note"
KRAFT, ZOOKEEPER = "KRaft", "ZooKeeper"


class Finding(NamedTuple):
    """Something that was seen. ``level``: refused (nothing is done), warning, or note."""

    level: str
    where: str
    sentence: str


class PartitionPlan(NamedTuple):
    """A partition that is to be handed over. Offsets and bytes as they are in the source.

    ``is_there``: an earlier handover, interrupted perhaps, has brought all of it over.
    """

    topic: str
    partition: int
    source: str
    target: str
    topic_id: str | None
    start_offset: int
    end_offset: int
    size: int
    is_there: bool = False


@dataclass(slots=True)
class HandoverReport:
    """What would be done, or was; ``ok``: nothing speaks against it."""

    kind: str = ""
    findings: list[Finding] = field(default_factory=list)
    partitions: list[PartitionPlan] = field(default_factory=list)
    executed: bool = False

    @property
    def ok(self) -> bool:
        return not any(each.level == REFUSED for each in self.findings)

    def refuse(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(REFUSED, where, sentence))

    def warn(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(WARNING, where, sentence))

    def note(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(NOTE, where, sentence))
