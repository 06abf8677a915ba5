"""What the handover's checks refuse, and where a broker that was handed a topic ends it."""

from interop.node import Node
from kstore.errors import UnknownTopicOrPartitionError
from kstore.handover import HandoverReport
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST
from support.waiting import until


def refusals(report: HandoverReport) -> list[str]:
    """A sentence for each refusal of a report, after what it is about."""
    return [f"{each.where}: {each.sentence}" for each in report.findings if each.level == "refused"]


def end_of(node: Node, topic: str, patience: float = 60) -> int:
    """The log end offset of a topic's first partition, as the broker says it.

    A topic that the cluster has just created may be unknown to this broker for a while.
    """
    with KafkaSource(node.address, topic, patience=patience) as source:
        until(lambda: _knows(source), patience, lambda: f"{topic} stays unknown at {node.address}")
        return source.offsets([0], LATEST)[0]


def _knows(source: KafkaSource) -> bool:
    try:
        source.describe()
    except UnknownTopicOrPartitionError:
        return False
    return True
