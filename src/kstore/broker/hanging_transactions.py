"""Finds transactions open for longer than the maximum timeout, which never end by themselves.

Like Kafka (KIP-664), it counts the partitions in which the producer's last record is older than
``transaction.max.timeout.ms`` plus five minutes. Record timestamps may come from producers'
clocks, so a transaction that this broker has seen open for that long counts, too.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from kstore.clock import now_ms
from kstore.coordinator.transaction.end_markers import open_transactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_BUFFER_MS = 300_000  # Kafka's LateTransactionBufferMs
_KEY = "hanging transactions"  # of the disk workers


class _Opened(NamedTuple):
    topic: str
    partition: int
    producer_id: int
    first_offset: int


class HangingTransactions:
    """Looks for hanging transactions in the open logs.

    Loop's thread only, except ``partition_count``, which any thread may read.
    """

    def __init__(self, services: "Services", clock: "Callable[[], int]" = now_ms) -> None:
        self._services = services
        self._clock = clock
        self._seen: dict[_Opened, int] = {}  # when this broker first saw it, in Unix ms
        self._warned: set[_Opened] = set()
        self._is_looking = False
        self.partition_count = 0

    def look(self) -> None:
        """Read the producer states on a disk worker."""
        if not self._is_looking:
            self._is_looking = True
            self._services.workers.submit(_KEY, self._find_open, self._found)

    def _find_open(self) -> dict[_Opened, int]:
        """Return the open transactions, each with the time of its producer's last record."""
        found = {}
        for log in tuple(self._services.store._logs):
            if not log.closed:
                for each in open_transactions(log):
                    opened = _Opened(
                        log.topic, log.partition, each.producer_id,
                        each.current_transaction_first_offset,
                    )  # fmt: skip
                    found[opened] = each.timestamp
        return found

    def _found(self, found: dict[_Opened, int] | None, error: BaseException | None) -> None:
        self._is_looking = False
        if found is None:
            _LOGGER.debug("open transactions cannot be read: %s", error)
            return
        now = self._clock()
        limit = self._services.settings.transaction_max_timeout_ms + _BUFFER_MS
        self._seen = {each: self._seen.get(each, now) for each in found}
        hanging = {each for each in found if min(found[each], self._seen[each]) < now - limit}
        self.partition_count = len({each[:2] for each in hanging})
        for each in sorted(hanging - self._warned):
            _LOGGER.warning(
                "%s-%d: a transaction hangs: producer id %d has it open from offset %d on, for "
                "longer than transaction.max.timeout.ms, and read_committed consumers stop there. "
                "`kstore transactions --bootstrap-server HOST:PORT abort --topic %s --partition %d "
                "--start-offset %d` ends it",
                *each, each.topic, each.partition, each.first_offset,
            )  # fmt: skip
        self._warned = hanging
