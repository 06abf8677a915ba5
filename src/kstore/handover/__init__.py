"""Handing partitions over to a Kafka broker, and taking a broker's directory over.

A broker serves a partition only if it knows it: a KRaft one by the topic's id, which it keeps in
its metadata and compares with ``partition.metadata``; what it does not know it renames to
``-stray``, and an empty partition takes its place. So the topic is made on the broker first, the
broker stopped, and the segments go into the folders that it made, which keep their ids. What is
checked here, and why, is a table in docs/guide/handover.md; each line of it was tried with brokers.

Neither side may run meanwhile: both directories are locked while anything is written.
"""

from kstore.files.filenames import HANDOVER
from kstore.handover.copying import Progress, hand_over
from kstore.handover.plan import check_broker, plan_handover
from kstore.handover.report import (
    KRAFT,
    NOTE,
    REFUSED,
    WARNING,
    ZOOKEEPER,
    Finding,
    HandoverReport,
    PartitionPlan,
)

__all__ = [
    "HANDOVER",
    "KRAFT",
    "NOTE",
    "REFUSED",
    "WARNING",
    "ZOOKEEPER",
    "Finding",
    "HandoverReport",
    "PartitionPlan",
    "Progress",
    "check_broker",
    "hand_over",
    "plan_handover",
]
