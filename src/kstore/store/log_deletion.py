"""Closes the logs of a topic or partition that is deleted, and renames its directories."""

from typing import TYPE_CHECKING

from kstore.errors import InconsistentTopicIdError

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager


def delete_topic(manager: "LogManager", topic: str, *, foreign: bool) -> None:
    """Delete a topic: its directories are renamed, and left to ``deleted_folders``.

    The deletion is on disk before a log is closed, so nothing of the logs has to be flushed.
    """
    catalog = manager.catalog
    manager.recoveries.wait(*((topic, each) for each in catalog.topics.get(topic, {})))
    with manager.lock:
        catalog.check_deletable(topic, foreign=foreign)
        _check_unused(manager, topic, None)
        catalog.begin_delete(topic)
    retire(manager, topic)


def retire(manager: "LogManager", topic: str) -> None:
    """Close the logs of a topic that is being deleted, and rename its directories.

    Does nothing if that is done.
    """
    # Without the lock, because a thread that holds a log's lock may wait for it.
    for log in manager.logs.of_topic(topic):
        manager.writers[topic, log.partition].discard()
        manager.forget(log)
    with manager.lock:
        _forget_failures(manager, topic, None)
        manager.catalog.retire(topic)
    manager.cleaner.forget_topic(topic, None)
    manager.background.forget_topic(topic)


def delete_partition(
    manager: "LogManager", topic: str, partition: int, *, foreign: bool, topic_id: str | None
) -> None:
    """Close a partition's log, then delete its directory."""
    changes = manager.catalog.partition_changes
    manager.recoveries.wait((topic, partition))
    with manager.lock:
        changes.check_deletable(topic, partition, foreign=foreign)
        if topic_id is not None:
            _check_id_of_deleted(manager, topic, partition, topic_id)
        _check_unused(manager, topic, partition)
    try:
        for log in manager.logs.of_topic(topic, partition):
            log.close()
            manager.forget(log)
    except BaseException:  # the partition is left, and loads its log again
        for log in manager.logs.of_topic(topic, partition):
            if log.closed:
                manager.forget(log)
        raise
    with manager.lock:
        for log in manager.logs.of_topic(topic, partition):  # opened since
            manager.logs.remove(log)
            log.close()
        _forget_failures(manager, topic, partition)
        changes.delete(topic, partition)
    manager.cleaner.forget_topic(topic, partition)
    manager.background.forget_topic(topic, partition)


def _check_unused(manager: "LogManager", topic: str, partition: int | None) -> None:
    manager.moves.check_not_moving(topic, partition)
    for (name, number), writer in manager.writers.items():
        if name == topic and partition in (None, number):
            writer.state.check_lock_order()


def _forget_failures(manager: "LogManager", topic: str, partition: int | None) -> None:
    for key in [key for key in manager.recoveries.failed if key[0] == topic]:
        if partition in (None, key[1]):
            del manager.recoveries.failed[key]


def _check_id_of_deleted(manager: "LogManager", topic: str, partition: int, topic_id: str) -> None:
    """Raise InconsistentTopicIdError; the id of a lost partition is the topic's."""
    if partition in manager.catalog.topics.get(topic, ()):
        manager.identities.check_topic_id(topic, partition, topic_id)
        return
    known_id = manager.catalog.settings.topic_id(topic)
    if known_id not in (None, topic_id):
        raise InconsistentTopicIdError(
            f"topic {topic!r} has the id {known_id} here, not {topic_id}",
            path=manager.catalog._dirs[0].path,
        )
