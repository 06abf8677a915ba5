"""What the handover's checks refuse, and where a broker that was handed a topic ends it."""

from interop.node import Node
from kstore.handover import HandoverReport
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST


def refusals(report: HandoverReport) -> list[str]:
    """A sentence for each refusal of a report, after what it is about."""
    return [f"{each.where}: {each.sentence}" for each in report.findings if each.level == "refused"]


def end_of(node: Node, topic: str, patience: float = 60) -> int:
    """The log end offset of a topic's first partition, as the broker says it."""
    with KafkaSource(node.address, topic, patience=patience) as source:
        source.describe()
        return source.offsets([0], LATEST)[0]
