"""Transactions written batch by batch, as a partition leader would have stored them."""

from kstore.log.log import Log
from oracle.plain import ABORT, COMMIT, PlainRecord
from oracle.transactions import Batch
from oracle.writer import batch, emptied, marker

WHEN = 1_700_000_000_000


class TransactionWriter:
    """Appends to a log as a follower, and remembers the batches for the oracle."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.batches: list[Batch] = []
        self._sequences: dict[int, int] = {}

    def data(self, producer_id: int, count: int = 1, *, codec: int = 0) -> None:
        """Append a transactional batch, or a plain one for producer id -1."""
        base = self.log.end_offset
        inside = producer_id >= 0
        sequence = self._sequences.get(producer_id, 0)
        records = [
            PlainRecord(base + n, WHEN + base + n, b"k%d" % n, b"v%d" % (base + n))
            for n in range(count)
        ]
        self.log.append_as_follower(
            batch(
                records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=0 if inside else -1,
                base_sequence=sequence if inside else -1,
                transactional=inside,
            )
        )
        self._sequences[producer_id] = sequence + count
        kind = "data" if inside else "plain"
        self.batches.append(Batch(base, base + count - 1, producer_id, kind))

    def end(self, producer_id: int, *, commit: bool) -> None:
        base = self.log.end_offset
        self.log.append_as_follower(
            marker(
                base,
                COMMIT if commit else ABORT,
                timestamp=WHEN + base,
                producer_id=producer_id,
                producer_epoch=0,
            )
        )
        kind = "commit" if commit else "abort"
        self.batches.append(Batch(base, base, producer_id, kind))

    def empty(self, producer_id: int) -> None:
        """Append a control batch without records, which Kafka's cleaner leaves for a
        transaction."""
        base = self.log.end_offset
        self.log.append_as_follower(
            emptied(base, timestamp=WHEN + base, producer_id=producer_id, producer_epoch=0)
        )
        self.batches.append(Batch(base, base, producer_id, "emptied"))
