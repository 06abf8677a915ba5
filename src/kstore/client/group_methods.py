"""Methods of a store that show and change consumer groups.

A store without groups does not load the coordinator's modules: each method loads them when it is
first called.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kstore.hints.keyword_names import explain_keywords

if TYPE_CHECKING:
    from kstore.coordinator.group.alter_groups import PartitionLike
    from kstore.coordinator.group.list_groups import ConsumerGroup
    from kstore.store.store import Store


@explain_keywords("groups() has all of them: use group('billing')")
def groups(self: "Store") -> "dict[str, ConsumerGroup]":
    """The consumer groups by name, sorted: offsets, lag, metadata, claimed partitions.

    Reads ``__consumer_offsets``, also one that a broker wrote (with groups that have members but
    no offsets, as ``kafka-consumer-groups --list`` shows them), the files of commits by other
    processes, and locks. A group whose commits do not decode has an ``error``. Takes one pass
    over ``__consumer_offsets``, the first time. Raises the errors of reading a log. Thread-safe.
    """
    from kstore.coordinator.group.list_groups import read_groups

    return read_groups(self)


def group(self: "Store", name: str) -> "ConsumerGroup":
    """One consumer group: offsets, lag, metadata, claimed partitions, like :func:`groups`.

    Raises GroupIdNotFoundError, which suggests close names, for a group without committed
    offsets, open consumers and members. Thread-safe.
    """
    from kstore.coordinator.group.list_groups import read_group

    return read_group(self, name)


@explain_keywords(
    **dict.fromkeys(
        ("partition", "partitions", "topic", "topics"),
        "name each partition: {('orders', 0): 42}; start_offsets(), end_offsets() and "
        "offsets_at(when) of a topic have offsets by number",
    )
)
def alter_group_offsets(
    self: "Store",
    group: str,
    offsets: "Mapping[PartitionLike, int] | str | datetime",
    *,
    metadata: str = "",
) -> None:
    """Commit offsets for a group that has no open consumer (Kafka's alterConsumerGroupOffsets).

    ``offsets`` are the next ones to read, by partition; for an offset outside the log, consumers
    apply ``auto_offset_reset``. Creates the group if it does not exist. ``"earliest"``,
    ``"latest"`` and an aware datetime move every partition of the topics that the group has
    committed offsets of, to the start, to the end, or to the first record at or after that time
    (GroupIdNotFoundError without a group). On return they are on disk,
    or, with ``mode="r"``, in the group's file (see :meth:`Consumer.commit`). Thread-safe.

    Waits up to 10 s while another call alters the group, then raises GroupConflictError. Raises
    NonEmptyGroupError while a consumer of the group is open in any process, or while the group has
    members in a broker of this process; UnknownTopicOrPartitionError; InvalidConfigError. Changes
    nothing if it raises.
    """
    from kstore.coordinator.group import alter_groups

    self._check()
    alter_groups.alter_group_offsets(self, group, offsets, metadata=metadata)


def delete_group_offsets(self: "Store", group: str, partitions: "Iterable[PartitionLike]") -> None:
    """Delete a group's committed offsets of some partitions (Kafka's deleteConsumerGroupOffsets).

    As in Kafka, partitions without a committed offset are ignored, as are topics that do not exist.
    On return the deletion is on disk. Thread-safe. Raises GroupIdNotFoundError, NonEmptyGroupError
    while a consumer of the group is open, ReadOnlyError.
    """
    from kstore.coordinator.group import alter_groups

    self._check_writable()
    alter_groups.delete_group_offsets(self, group, partitions)


def delete_group(self: "Store", group: str) -> None:
    """Delete a group: its committed offsets, and Kafka's records of it (Kafka's deleteGroups).

    On return the deletion is on disk. After a crash the group is deleted, or has its newest
    offsets. Thread-safe. Raises GroupIdNotFoundError, NonEmptyGroupError while a consumer of the
    group is open, in any process; ReadOnlyError; CorruptFileError for a file of the group's
    commits that does not parse (nothing is deleted).
    """
    from kstore.coordinator.group import alter_groups

    self._check_writable()
    alter_groups.delete_group(self, group)
