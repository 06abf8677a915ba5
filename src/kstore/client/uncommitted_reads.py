"""Warns where a consumer of a group has read records and committed nothing."""

import sys
import warnings

from kstore.errors import UncommittedReadsWarning
from kstore.files.process_lifetime import is_exiting


class UncommittedReads:
    """Whether a group's consumer has read records, and whether its program handles the commits.

    Kafka's clients commit in the background by default. A consumer here commits only what it is
    asked to, so that a program that relies on the default reads everything again at its next start.
    """

    __slots__ = ("_group", "_has_read", "_is_handled")

    def __init__(self, group: str | None, *, is_handled: bool) -> None:
        self._group = group
        self._has_read = False
        self._is_handled = group is None or is_handled

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
        warnings.warn(
            f"the consumer of group {self._group!r} has read records and committed none: the group "
            "reads them again. `with batch:` or consumer.commit() commits; without a group, or "
            "with enable_auto_commit=False, nothing is expected to be committed",
            UncommittedReadsWarning,
            stacklevel=3,
        )
