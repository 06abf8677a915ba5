"""Finishes, where a store is opened for writing, what a crash of its last writer interrupted."""

from typing import TYPE_CHECKING

from kstore.store.atomic_publish import undo_unfinished

if TYPE_CHECKING:
    from kstore.store.store import Store


def finish_interrupted(store: "Store") -> None:
    """Undo unfinished publications, fold offsets of groups, end transactions and deletions.

    The store has recovered its logs; no other thread uses it yet.
    """
    catalog, manager = store._catalog, store._manager
    undo_unfinished(store._files, catalog.loose_files, store._log, catalog.live_paths)
    if files_of_groups := manager.reader_offset_files:
        from kstore.coordinator.group.store_group import fold_files

        fold_files(store, files_of_groups)
    if "__transaction_state" in catalog.topics:
        store._transactions()  # finishes what a crash interrupted
    if catalog.being_deleted():
        from kstore.store.topic_deletion import finish_deletions

        finish_deletions(store)
