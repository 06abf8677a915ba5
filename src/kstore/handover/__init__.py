"""Handing partitions over to a Kafka broker, and taking a broker's directory over.

A broker serves only partitions that it knows: a KRaft broker compares the topic id in its metadata
with ``partition.metadata``, renames unknown folders to ``-stray`` and starts an empty partition
instead. So the topic is created on the broker first, the broker is stopped, and the segments are
copied into the folders that it created, which keep their ids. docs/guide/handover.md lists all
checks and their reasons; each was tested with brokers.

Neither side may run meanwhile: both directories are locked during writes.
"""

from kstore.handover.copy_partitions import Progress, hand_over
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
from kstore.partition_files import filenames

HANDOVER = filenames.HANDOVER

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
