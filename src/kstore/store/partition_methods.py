"""Methods of a store that create, open and delete single partitions, by topic id.

For members of a cluster, which hold some partitions of a topic: what Kafka's ReplicaManager asks
of its LogManager.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstore.config import LogConfig
from kstore.errors import UnknownTopicOrPartitionError
from kstore.files.filenames import check_topic_name
from kstore.hints.keyword_names import explain_keywords
from kstore.store.partition_changes import PartitionToCreate
from kstore.store.topic_arguments import check_partition, check_topic_id

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store


@explain_keywords(
    "create_topic() creates a topic with all its partitions",
    partitions="one partition is created by its number: create_topic() creates several",
    missing_ok="use exist_ok=True",
)
def create_partition(
    self: "Store",
    topic: str,
    partition: int,
    *,
    topic_id: str | None = None,
    config: LogConfig | Mapping[str, object] | None = None,
    exist_ok: bool = False,
    is_new: bool = False,
) -> "Log":
    """Create one partition of a topic, and return its log (Kafka's ``getOrCreateLog``).

    The store then has single partitions of the topic, such as 1, 4 and 7: the others are
    elsewhere, not lost. On return the partition is on disk with its id; after a crash it exists
    completely or not at all. Thread-safe.

    Raises InconsistentTopicIdError, a TopicExistsError, if the topic of that name has another id;
    TopicExistsError; InvalidTopicError, InvalidPartitionsError, InvalidConfigError,
    ReadOnlyError; StorageError, with the partition in the store only if opening its log failed.
    UnknownPartitionError if the store has lost the partition (:func:`delete_partition` gives it
    up), LogDirOfflineError if it may be in a directory that is offline.

    Parameters
    ----------
    partition
        Its number, 0 to 999,999. It goes to the log directory with the fewest partitions.
    topic_id
        Kafka's id in 22 characters. The topic's own by default; random for a topic without
        partitions in the store. A topic without an id gets this one.
    config
        The settings of a topic without partitions in the store, as for :meth:`create_topic`.
    exist_ok
        Return the log of an existing partition of this topic.
    is_new
        No directory has the partition, not even one that is offline: it is new in its cluster
        (Kafka's ``isNew``).
    """
    self._check_writable()
    check_topic_name(topic)
    partition = check_partition(partition)
    if topic_id is not None:
        check_topic_id(topic_id)
    wanted = PartitionToCreate(topic, partition, topic_id, config, is_new)
    changes = self._catalog.partition_changes
    while True:
        with self._lock:
            if topic_id is not None:
                changes.end_emptied(topic, but=topic_id)
            if self._catalog.offline or not self._catalog.is_being_deleted(topic):
                try:
                    self._manager.create_partition(wanted, exist_ok=exist_ok)
                finally:
                    self._topics.follow_change(topic)
                is_blocked = False
            else:
                is_blocked = True
        if is_blocked:
            self._finish_delete(topic)  # waits for another thread's, repeats one that failed
            continue
        try:
            return self._log(topic, partition)
        except UnknownTopicOrPartitionError:  # another thread has deleted it just now
            continue


def partition(self: "Store", topic: str, partition: int, *, topic_id: str | None = None) -> "Log":
    """Open one partition: its log, if it belongs to the topic with this id.

    Without ``topic_id`` it is ``store[topic][partition]``. A partition without an id, which
    Kafka before 2.8 created, matches any. Thread-safe; also with ``mode="r"``.

    Raises UnknownTopicOrPartitionError (UnknownPartitionError names those that exist),
    InconsistentTopicIdError, and the errors of opening a log.
    """
    self._follow_writer()
    partition = check_partition(partition)
    if topic_id is not None:
        check_topic_id(topic_id)
        with self._lock:
            self._manager.identities.check_topic_id(topic, partition, topic_id)
    return self._log(topic, partition)


@explain_keywords(exist_ok="use missing_ok=True", if_exists="use missing_ok=True")
def delete_partition(
    self: "Store",
    topic: str,
    partition: int,
    *,
    topic_id: str | None = None,
    foreign: bool = False,
    missing_ok: bool = False,
) -> None:
    """Delete one partition alone (Kafka's StopReplica with ``deletePartition``).

    Its folder is renamed as Kafka does, then removed; after a crash it exists completely or
    is gone. One that is lost is given up: it is not missed any more. Its log must not be used after
    that; open views stay readable. An open transaction of an embedded producer that uses the
    partition can only be aborted. Offsets that groups have committed stay: the topic exists, if
    elsewhere. So do its settings when the last partition is deleted: a partition with the same id
    continues with them, and a topic with another id with none of it.
    Thread-safe.

    Raises UnknownTopicOrPartitionError; InconsistentTopicIdError; PolicyViolationError while the
    partition is being moved; LogDirOfflineError, ReadOnlyError, StorageError.

    Parameters
    ----------
    topic_id
        Delete only a partition of the topic with this id, or one without an id.
    foreign
        Also of a topic that Kafka created, without an entry in ``kstore.topics``
        (PolicyViolationError otherwise).
    missing_ok
        Do nothing where the store does not have the partition.
    """
    from kstore.store.log_deletion import delete_partition as delete_partition_of
    from kstore.store.topic_deletion import drop_from_transactions

    self._check_writable()
    check_topic_name(topic)
    partition = check_partition(partition)
    if topic_id is not None:
        check_topic_id(topic_id)
    with self._deletion_lock:
        if self._catalog.is_being_deleted(topic):  # its deletion failed
            self._finish_delete(topic)
        try:
            if missing_ok and not self._catalog.partition_changes.knows(topic, partition):
                return
            delete_partition_of(self._manager, topic, partition, foreign=foreign, topic_id=topic_id)
            drop_from_transactions(self, topic, partition)
        finally:
            self._topics.follow_change(topic)
