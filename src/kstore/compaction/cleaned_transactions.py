"""Which batches and markers of transactions a compaction removes.

Rules: Kafka's CleanedTransactionMetadata.
"""

import heapq
from collections.abc import Iterable
from dataclasses import field

from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment.transaction_index import AbortedTransaction

ABORT, COMMIT = 0, 1  # of a control batch


@lazy_dataclass()
class CleanedTransactions:
    """Which batches belong to an aborted transaction, while a pass reads a log in order.

    ``written`` collects the entries of the new segment's transaction index: the aborted
    transactions of which the pass has met a batch, even if it removes that batch.
    """

    written: list[AbortedTransaction] = field(default_factory=list)
    _waiting: list[tuple[int, int, AbortedTransaction]] = field(default_factory=list)
    _aborted: dict[int, AbortedTransaction] = field(default_factory=dict)
    _met: set[int] = field(default_factory=set)  # producers with a met batch of an aborted one
    _committed: set[int] = field(default_factory=set)
    _count: int = 0

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions of the next segments; the same one may be added twice."""
        for transaction in aborted:
            self._count += 1
            heapq.heappush(self._waiting, (transaction.first_offset, self._count, transaction))

    def is_aborted(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """Whether a batch of records belongs to an aborted transaction (onBatchRead)."""
        self._begin_up_to(last_offset)
        if not transactional:
            return False
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_removable_marker(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Whether no batch of a marker's transaction is left (Kafka's onControlBatchRead).

        ``kind`` is None for a control batch without records.
        """
        self._begin_up_to(last_offset)
        if kind is None and producer_id in self._committed:
            # Another cleaner emptied the marker before the records were replicated to this log:
            # this batch is the only evidence that they were not committed, so it stays until the
            # records are removed.
            self._committed.discard(producer_id)
            return False
        if kind is None and producer_id not in self._aborted:  # cleaned before
            return True
        if kind is None or kind == ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._met:
                return True
            self._met.discard(producer_id)
            self.written.append(transaction)
            return False
        if kind == COMMIT:
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
