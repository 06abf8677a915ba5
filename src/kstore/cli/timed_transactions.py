"""The transactions of producer-perf, each of which ends after a time."""

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.remote.transactional_producer import RemoteTransactionalProducer


class TimedTransactions:
    """Begins a transaction before a record, and commits it after the first one beyond its time."""

    def __init__(self, producer: "RemoteTransactionalProducer", seconds: float) -> None:
        self._producer = producer
        self._seconds = seconds
        self._began = 0.0

    def before_record(self) -> None:
        """Begin a transaction if none is open."""
        if not self._producer.in_transaction:
            self._producer.begin_transaction()
            self._began = monotonic()

    def after_record(self) -> None:
        """Commit the transaction if its time is over."""
        if monotonic() - self._began >= self._seconds:
            self._producer.commit_transaction()

    def end(self) -> None:
        """Commit the last transaction."""
        if self._producer.in_transaction:
            self._producer.commit_transaction()
