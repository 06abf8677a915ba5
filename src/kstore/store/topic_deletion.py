"""Deletes a topic's committed offsets and aborts its open transactions with the topic."""

import logging
from os.path import dirname
from typing import TYPE_CHECKING

from kstore.coordinator.group.embedded_offsets import EmbeddedOffsets
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.coordinator.group.reader_offsets_file import group_files, read_group_file
from kstore.coordinator.group.store_group import find_table
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import CorruptFileError, KStoreError, NewerFormatError, StoreLockedError
from kstore.store import log_deletion

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


def delete_topic(store: "Store", topic: str, *, foreign: bool) -> None:
    """Delete a topic, but leave its renamed folders to the caller.

    Raises UnknownTopicOrPartitionError; the caller holds the store's deletion lock.
    """
    if topic in store or not store._catalog.is_being_deleted(topic):
        try:
            log_deletion.delete_topic(store._manager, topic, foreign=foreign)
        finally:
            store._topics.follow_change(topic)
    finish_delete(store, topic)


def delete_topic_soon(store: "Store", topic: str) -> None:
    """Delete any topic, also one that Kafka created; a thread removes its folders, as in Kafka."""
    store._check_writable()
    with store._deletion_lock:
        with store._lock:
            store._catalog.partition_changes.end_emptied(topic)
        delete_topic(store, topic, foreign=True)
    store._manager.deleted_folders.start()


def finish_delete(store: "Store", topic: str) -> None:
    """Delete the traces of a deleted topic, so that a later topic of its name inherits none.

    The partitions are renamed already, unless an error kept them. The topic's entry has the state
    of a deletion: after a crash or an error, the next writer repeats this step. Does nothing where
    another thread has finished it: the topic may exist again. The folders are left.
    """
    with store._deletion_lock:
        if not store._catalog.is_being_deleted(topic):
            return
        if not store._catalog.offline:
            log_deletion.retire(store._manager, topic)
        drop_from_transactions(store, topic)
        forget_topic(store, topic)
        with store._lock:
            store._catalog.finish_delete(topic)


def finish_deletions(store: "Store") -> None:
    """Finish the deletions that an earlier writer began, at opening.

    After a failure, which is logged, only the topic's name stays reserved: the next opening, or
    ``create_topic`` with that name, tries again.
    """
    for topic in store._catalog.being_deleted():
        try:
            finish_delete(store, topic)
        except KStoreError as error:
            _LOGGER.warning(
                "the deletion of topic %s is not finished, and its name cannot be used: "
                "%s. The next opening tries again",
                topic, error,
            )  # fmt: skip


def drop_from_transactions(store: "Store", topic: str, partition: int | None = None) -> None:
    """Doom the open transactions that use the topic, or the partition: they can only be aborted."""
    from kstore.client.transactional_producer import TransactionalProducer

    users = [
        producer.transactional_id
        for producer in list(store._dependants)
        if isinstance(producer, TransactionalProducer) and producer._topics.has(topic, partition)
    ]
    if store._transaction_owner is not None:
        store._transaction_owner.drop_topic(topic, users, partition)
    elif store._known_transactions is not None:  # perhaps retired by a broker that has stopped
        store._transactions().coordinator.drop_topic(topic, users, partition)


def forget_topic(store: "Store", topic: str) -> None:
    """Delete the committed offsets of a topic that is being deleted, in log and files.

    On return the tombstones are on disk. The lock keeps commits away meanwhile.
    """
    if topic == OFFSETS_TOPIC:
        return
    with store._offsets_lock:
        forgotten = 0
        for log in filled_partitions(store, OFFSETS_TOPIC):
            if (table := find_table(store, log.partition)) is not None:
                forgotten += table.forget_topic(topic)
        for path in group_files(store._files, store._catalog.live_paths):
            forgotten += _forget_in_file(store, path, topic)
        _LOGGER.info("topic %s: %d committed offsets deleted with it", topic, forgotten)


def _forget_in_file(store: "Store", path: str, topic: str) -> int:
    """Remove the topic's commits from one group's file; returns how many.

    A file that cannot be read or locked is left, with a warning. Its commits do not apply to a
    later topic of the same name, whose id differs; only a file of format 1 has no ids, so its
    commits apply to any topic of that name.
    """
    try:
        filed = read_group_file(store._files, path)
        if filed is None:
            return 0
        is_same = store._manager.identities.is_same
        offsets = EmbeddedOffsets(store._files, lambda: [dirname(path)], filed.group, is_same)
        return offsets.forget_topic(topic)
    except (CorruptFileError, NewerFormatError, StoreLockedError) as error:
        _LOGGER.warning("committed offsets of topic %s were left in a file: %s", topic, error)
        return 0
