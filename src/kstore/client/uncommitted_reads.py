"""Warns where a consumer of a group has read records and committed nothing."""

import sys
import warnings
from typing import TYPE_CHECKING
from weakref import WeakSet

from kstore.errors import UncommittedReadsWarning
from kstore.files.process_lifetime import is_exiting

if TYPE_CHECKING:
    from kstore.store.store import Store


class UncommittedReads:
    """Whether a group's consumer has read records, and whether its program handles the commits.

    Kafka's clients commit in the background by default. A consumer here commits only what it is
    asked to, so that a program that relies on the default reads everything again at its next start.
    """

    __slots__ = ("__weakref__", "_group", "_has_read", "_is_handled", "_store")

    def __init__(self, store: "Store", group: str | None, *, is_handled: bool) -> None:
        self._store = store
        self._group = group
        self._has_read = False
        self._is_handled = group is None or is_handled
        if not self._is_handled:
            _UNHANDLED.add(self)

    def note_read(self) -> None:
        self._has_read = True

    def note_commit(self) -> None:
        """A commit, a ``with batch:`` block, or a question for positions to commit elsewhere."""
        self._is_handled = True

    def warn(self) -> None:
        """Called at the close; silent while an error is handled, and at the exit of the process."""
        is_silent = self._is_handled or is_exiting() or sys.exc_info()[1] is not None
        self._is_handled = True  # a store closes its consumers once more
        if is_silent or not self._has_read:
            return
        from kstore.caller import level_of_caller  # loaded to warn only

        warnings.warn(
            f"the consumer of group {self._group!r} has read records and committed none: the group "
            "reads them again. `with batch:` or consumer.commit() commits; without a group, or "
            "with enable_auto_commit=False, nothing is expected to be committed",
            UncommittedReadsWarning,
            stacklevel=level_of_caller(),  # that closes the consumer, its store or its block
        )


_UNHANDLED: "WeakSet[UncommittedReads]" = WeakSet()


def note_commit_of_group(store: "Store", group: str) -> None:
    """A program has committed offsets of a group by other means than its consumer."""
    for reads in list(_UNHANDLED):
        if reads._store is store and reads._group == group:
            reads.note_commit()
