"""Hands partitions over to a Kafka broker, and checks a broker's directory for use by kstore.

A broker serves only partitions that it knows: a KRaft broker compares the topic id in its metadata
with ``partition.metadata``, renames unknown folders to ``-stray`` and starts an empty partition
instead. Therefore the user first creates the topic on the broker and stops the broker; the segments
are then copied into the folders that the broker created, which keep their ids.
docs/guide/handover.md lists all checks and their reasons; each was tested with brokers.

Neither the broker nor another writer may run during a handover, which locks the directories of
both.
"""

from kstore.handover.copy_partitions import Progress, hand_over
from kstore.handover.folder_checks import check_broker
from kstore.handover.plan import plan_handover
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
