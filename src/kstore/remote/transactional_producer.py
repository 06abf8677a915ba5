"""A producer that sends records of one topic of a cluster in transactions."""

from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Self

from kstore.client.block_errors import close_block
from kstore.errors import (
    ClosedError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KStoreError,
    ProducerFencedError,
)

if TYPE_CHECKING:
    from kstore.client.delivery import Delivery
    from kstore.client.producer import Producer
    from kstore.remote.client_metrics import ClientMetrics
    from kstore.remote.transactional_id import TransactionalId


class RemoteTransactionalProducer:
    """Sends records in one transaction after the other. For one thread.

    Consumers with ``read_committed`` get the records of a transaction after its commit. Created by
    :meth:`kstore.remote.store.RemoteStore.transactional_producer`, which fences earlier producers
    of the same transactional id, and aborts their transaction.
    """

    def __init__(
        self, producer: "Producer", transactions: "TransactionalId", metrics: "ClientMetrics"
    ) -> None:
        self._producer = producer  # its thread asks the cluster only while records are in flight
        self._transactions = transactions
        self._metrics = metrics
        self._is_open = self._is_closed = False

    @property
    def in_transaction(self) -> bool:
        return self._is_open

    def begin_transaction(self) -> None:
        """Begin a transaction; raises InvalidTxnStateError if one is open."""
        began = perf_counter_ns()
        if self._is_closed:
            raise ClosedError("the producer is closed")
        if self._is_open:
            raise InvalidTxnStateError("the producer already has an open transaction")
        self._is_open = True
        self._metrics.add("txn-begin-time-ns", perf_counter_ns() - began)

    def send(self, value: bytes | None, *, key: bytes | None = None) -> "Delivery":
        """Add a record to the transaction, as :meth:`kstore.Producer.send`."""
        self._check_open()
        return self._producer.send(value, key=key)

    def commit_transaction(self) -> None:
        """Deliver all records and commit. After an error the transaction can only be aborted.

        Raises the first error of a record, ProducerFencedError, and InvalidTxnStateError without
        a transaction, or if a record was lost whose error the caller has seen.
        """
        self._check_open()
        began = perf_counter_ns()
        self._producer.flush()
        self._transactions.commit()
        self._is_open = False
        self._metrics.add("txn-commit-time-ns", perf_counter_ns() - began)

    def abort_transaction(self) -> None:
        """Abort. Records that were not sent yet are sent first, and no one reads them."""
        self._check_open()
        began = perf_counter_ns()
        with suppress(KStoreError):  # their transaction does not count
            self._producer.flush()
        self._transactions.abort()
        self._is_open = False
        self._metrics.add("txn-abort-time-ns", perf_counter_ns() - began)

    def close(self) -> None:
        """Abort an open transaction, and end the producer's thread. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._is_open:
                with suppress(ProducerFencedError, InvalidProducerIdMappingError):
                    self.abort_transaction()
        finally:
            self._producer.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidTxnStateError("no transaction is open: begin_transaction()")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        close_block(error, self.close)
