"""Ends of transactions that the source's cleaner removed before the copy got them.

Kafka's cleaner removes the records of a transaction first (all of an aborted one, the superseded
ones of a committed one) and its marker later: it empties the marker's batch, or removes it. A
copy that took the records while the transaction was open would then never see it end. The mirror
writes its end: the only kind of batch that the source did not send.

Its outcome is the one that Kafka's consumer would have seen: the list of aborted transactions in
the leader's answer to a read_committed fetch, requested while the leader still has the records.
Later the outcome is unknown, and the mirror writes the transaction as aborted: the source has none
of its records either.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kstore.mirror.source_types import OFFSET_OUT_OF_RANGE, Fetched, Position
from kstore.partition_files import batch_scan

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import ProducerEntry

Ask = Callable[[Position, int], Fetched | None]

_CONTROL = 0x20
_SMALL, _LARGE = 1, 1 << 20  # bytes to ask for: one batch, many


class Undecided(NamedTuple):
    """A transaction whose outcome is unknown; it counts as aborted here."""

    producer_id: int
    first_offset: int
    end_offset: int
    """Of the marker that the mirror wrote."""


class End(NamedTuple):
    """A marker to write: before the batch at ``position``, or instead of it."""

    position: int
    replaced: int
    """Bytes of the batch that it replaces; 0: it goes into the gap before the batch."""
    producer: "ProducerEntry"
    committed: bool | None
    """None: unknown."""


class Endings:
    """The open transactions of one partition's copy, and their outcomes in the source.

    ``ask`` fetches from a position, so many bytes; it returns None if the leader does not
    answer. Used by one thread.
    """

    def __init__(self, log: "Log", ask: Ask) -> None:
        self._log = log
        self._ask = ask
        self._committed: dict[tuple[int, int], bool] = {}  # by producer id and first offset

    def opened(self) -> "list[ProducerEntry]":
        """The producers with a transaction open at the end of the copy."""
        if self._log.last_stable_offset == self._log.end_offset:
            return []
        return [e for e in self._log.producers() if e.current_transaction_first_offset >= 0]

    def learn(self, answer: Fetched, *, committed: bool) -> None:
        """Record the outcome of transactions open here and decided in the source.

        ``answer`` was appended; ``committed``: it lists the aborted ones.
        """
        opened = self.opened() if answer.last_stable_offset > 0 else []
        self._committed = {
            (e.producer_id, e.current_transaction_first_offset): self._committed[known]
            for e in opened
            if (known := (e.producer_id, e.current_transaction_first_offset)) in self._committed
        }
        for entry in opened:
            first = entry.current_transaction_first_offset
            known = (entry.producer_id, first)
            if known in self._committed or first >= answer.last_stable_offset:
                continue
            if committed and _holds(answer.records, entry):
                self._committed[known] = not _is_listed(answer, entry)
                continue
            found = self._ask(Position(first, committed=True), _SMALL)
            if found is not None and not found.error and _holds(found.records, entry):
                self._committed[known] = not _is_listed(found, entry)

    def missing(self, records: bytes | memoryview) -> list[End] | None:
        """The ends that the source's batches no longer contain, by position.

        None if the leader has to be asked and does not answer.
        """
        opened = self.opened()
        if not opened:
            return []
        table = batch_scan.scan(
            records, check_crc=False
        )  # up to a corrupt batch: the append reports it
        gaps = _gaps(table, self._log.end_offset)
        found: list[End] = []
        for entry in sorted(opened, key=lambda e: _end_row(table, e.producer_id)):
            row = _end_row(table, entry.producer_id)
            emptied = row < len(table) and table.count[row] == 0
            slots = [at for at, free in gaps.items() if at <= row and free]
            if not slots and not emptied:
                continue
            gone = self._is_gone(entry)
            if gone is None:
                return None
            if not gone[0]:
                continue  # a marker goes after every record of its transaction
            if slots:
                gaps[slots[0]] -= 1
                found.append(End(table.position[slots[0]], 0, entry, gone[1]))
            else:
                found.append(End(table.position[row], table.size[row], entry, gone[1]))
        return sorted(found, key=lambda end: (end.position, end.replaced))

    def write(self, end: End) -> Undecided | None:
        """Append an end; returns the transaction if its outcome is unknown."""
        entry = end.producer
        info = self._log.append_end_marker(
            entry.producer_id,
            entry.producer_epoch,
            commit=end.committed is True,
            coordinator_epoch=max(entry.coordinator_epoch, 0),
            timestamp=max(entry.timestamp, 0),
        )
        first = entry.current_transaction_first_offset
        if end.committed is not None:
            return None
        return Undecided(entry.producer_id, first, info.first_offset)

    def _is_gone(self, entry: "ProducerEntry") -> tuple[bool, bool | None] | None:
        """Whether the source has no batch of the transaction left, and whether it committed it.

        While it has one, it has the marker too; if it has none, the transaction ended: what
        is open is not compacted.
        """
        first = entry.current_transaction_first_offset
        committed = self._committed.get((entry.producer_id, first))
        at, room = first, _SMALL
        while at < self._log.end_offset:
            answer = self._ask(Position(at, committed=True), room)
            if answer is None or answer.error not in (0, OFFSET_OUT_OF_RANGE):
                return None
            if _is_listed(answer, entry):
                committed = False
            table = batch_scan.scan(answer.records, check_crc=False)
            if _holds(answer.records, entry, self._log.end_offset):
                return False, committed
            if len(table) == 0:
                if room >= _LARGE or answer.error:
                    break
                room *= 2
                continue
            if table.last_offset[-1] < at:  # it repeats what is before: no answer
                return None
            at, room = table.last_offset[-1] + 1, _LARGE
        return True, committed


def _end_row(table: batch_scan.BatchTable, producer_id: int) -> int:
    """The first control batch of a producer; the number of batches if there is none."""
    for row in range(len(table)):
        if table.producer_id[row] == producer_id and table.attributes[row] & _CONTROL:
            return row
    return len(table)


def _gaps(table: batch_scan.BatchTable, end: int) -> dict[int, int]:
    """How many offsets are missing before a batch, by its row."""
    found = {}
    for row in range(len(table)):
        if table.base_offset[row] > end:
            found[row] = table.base_offset[row] - end
        end = max(end, table.last_offset[row] + 1)
    return found


def _holds(records: bytes | memoryview, entry: "ProducerEntry", stop: int = 2**63 - 1) -> bool:
    """Whether a batch of records of the open transaction is among these."""
    table = batch_scan.scan(records, check_crc=False)
    first = entry.current_transaction_first_offset
    return any(
        table.producer_id[row] == entry.producer_id
        and not table.attributes[row] & _CONTROL
        and first <= table.last_offset[row] < stop
        for row in range(len(table))
    )


def _is_listed(answer: Fetched, entry: "ProducerEntry") -> bool:
    """Whether the answer names the transaction among the aborted ones."""
    first = entry.current_transaction_first_offset
    table = batch_scan.scan(answer.records, check_crc=False)
    ends = [
        table.base_offset[row]
        for row in range(len(table))
        if table.producer_id[row] == entry.producer_id and table.attributes[row] & _CONTROL
    ]
    return any(
        producer_id == entry.producer_id
        and begin <= first
        and not any(begin < end < first for end in ends)  # that was an earlier one's
        for producer_id, begin in answer.aborted
    )
