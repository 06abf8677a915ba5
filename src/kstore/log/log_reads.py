"""Reads of a complete log that its view does: records by level, batches by their headers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from kstore.log.batch_headers import RecordBatchInfo, batches_of
from kstore.log.read_committed import Isolation

if TYPE_CHECKING:
    from kstore.record import Record


class _LogReads:
    """Methods of :class:`kstore.Log` that read through a view. Thread safe."""

    __slots__ = ()

    def records(
        self: Any,  # a Log
        *,
        check_crc: bool = True,
        on_damage: str = "raise",
        skipped: list[Any] | None = None,
        **isolation: Unpack[Isolation],
    ) -> "Iterator[Record]":
        """All records: ``log.records(isolation_level="read_committed")``.

        As iterating the log, with a level, and options that are :meth:`LogView.records`'s.
        """
        found: Iterator[Record] = self.view(**isolation).records(
            check_crc=check_crc, on_damage=on_damage, skipped=skipped
        )
        return found

    def batches(self: Any) -> Iterator[RecordBatchInfo]:
        """The record batches by their headers, in order; see :meth:`LogView.batches`."""
        return batches_of(self.view())
