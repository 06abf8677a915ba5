"""The report of a handover: findings, and the plan of each partition."""

from dataclasses import dataclass, field
from typing import NamedTuple

REFUSED, WARNING, NOTE = "refused", "warning", "note"
KRAFT, ZOOKEEPER = "KRaft", "ZooKeeper"


class Finding(NamedTuple):
    """A finding. ``level``: refused (nothing is done), warning, or note."""

    level: str
    where: str
    sentence: str


class PartitionPlan(NamedTuple):
    """A partition to hand over. Offsets and bytes are those of the source.

    ``is_already_copied``: an earlier handover has copied all of it.
    """

    topic: str
    partition: int
    source: str
    target: str
    topic_id: str | None
    start_offset: int
    end_offset: int
    size: int
    is_already_copied: bool = False


@dataclass(slots=True)
class HandoverReport:
    """A planned or executed handover; ``ok``: no finding refuses it."""

    kind: str = ""
    findings: list[Finding] = field(default_factory=list)
    partitions: list[PartitionPlan] = field(default_factory=list)
    executed: bool = False
    commands: list[str] = field(default_factory=list)  # for Kafka's tools, on the broker
    is_same_directory: bool = False  # kstore and the broker serve it by turns: nothing is copied

    @property
    def ok(self) -> bool:
        return not any(each.level == REFUSED for each in self.findings)

    def refuse(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(REFUSED, where, sentence))

    def warn(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(WARNING, where, sentence))

    def note(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(NOTE, where, sentence))
