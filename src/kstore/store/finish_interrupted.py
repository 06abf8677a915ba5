"""Finishes, where a store is opened for writing, what a crash of its last writer interrupted."""

import os
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kstore.files.filenames import PUBLISHING_PREFIX

if TYPE_CHECKING:
    from kstore.store.parallel_recovery import Progress
    from kstore.store.store import Store


def finish_interrupted(store: "Store") -> None:
    """Undo unfinished publications, fold offsets of groups, end transactions and deletions.

    The store has recovered its logs; no other thread uses it yet.
    """
    catalog, manager = store._catalog, store._manager
    if _has_unfinished_publication(catalog.loose_files):
        from kstore.store.atomic_publish import undo_unfinished

        undo_unfinished(store._files, catalog.loose_files, store._log, catalog.live_paths)
    if files_of_groups := manager.reader_offset_files:
        from kstore.coordinator.group.store_group import fold_files

        fold_files(store, files_of_groups)
    if "__transaction_state" in catalog.topics:
        store._transactions()  # finishes what a crash interrupted
    if catalog.being_deleted():
        from kstore.store.topic_deletion import finish_deletions

        finish_deletions(store)
    if catalog.folders_to_remove():
        manager.deleted_folders.start()


def recover_first(store: "Store", *, progress: "Progress | None" = None) -> None:
    """Recover the store before anyone uses it, and finish what was interrupted."""
    store._manager.recover(progress)
    finish_interrupted(store)


def recover_while_in_use(store: "Store", *, on_recovered: "Callable[[Store], object]") -> None:
    """Recover the store in a thread, then call ``on_recovered``; transactions are left to a broker.

    Before it returns, where a crash interrupted something that has to be finished first.
    """
    catalog = store._catalog
    if (
        _has_unfinished_publication(catalog.loose_files)
        or store._manager.reader_offset_files
        or catalog.being_deleted()
    ):
        recover_first(store)
        on_recovered(store)
        return
    if catalog.folders_to_remove():
        store._manager.deleted_folders.start()
    reference = weakref.ref(store)

    def finish() -> None:
        alive = reference()
        if alive is None or alive.closed:
            return
        on_recovered(alive)

    store._manager.recoveries.start(finish)


def _has_unfinished_publication(loose: Iterable[str]) -> bool:
    """Whether a crash interrupted a publication; ``loose`` are files of the log directories."""
    return any(os.path.basename(path).startswith(PUBLISHING_PREFIX) for path in loose)
