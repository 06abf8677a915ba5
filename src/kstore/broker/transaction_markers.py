"""Writes the markers of the transactions that a broker ends, with retries.

The append of one marker is :func:`kstore.coordinator.transaction.end_markers.append_marker`.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.partitions import HostedPartition, append_at_once
from kstore.coordinator.transaction.end_markers import (
    END_MARKER_SIZE,
    AppendedMarker,
    append_marker,
)
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    TransactionState,
)
from kstore.errors import InvalidProducerEpochError, UnknownTopicOrPartitionError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.durable_commits import DurableCommits
    from kstore.broker.services import Services
    from kstore.log.log import Log

_LOGGER = logging.getLogger("kstore.broker")
# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_RETRY_SECONDS = 0.5  # delay before a failed marker is retried
_FEW = 16  # markers of one transaction that the event loop's thread appends itself
_A_TURN = 64  # and of all transactions in one turn: after a start, many may have to end
_REPORTS_AFTER = 20  # attempts between two warnings about a marker


class MarkerWriter:
    """Appends markers and retries until they succeed. Loop's thread only; disk workers append where
    that may block, and the markers of many partitions."""

    def __init__(self, services: "Services", commits: "DurableCommits") -> None:
        self._services = services
        self._commits = commits
        self._left_of_turn = _A_TURN

    def write(
        self,
        metadata: TransactionMetadata,
        coordinator_epoch: int,
        on_epoch: Callable[[int], object],
        done: Callable[[], object],
        *,
        is_durable: bool,
    ) -> None:
        """Write a transaction's markers; call ``done`` once all are written, or, if ``is_durable``,
        on disk. ``on_epoch(epoch)`` reports a higher coordinator epoch found in a log."""
        _Marking(self, metadata, coordinator_epoch, on_epoch, done, is_durable).start()

    def may_append(self) -> bool:
        """Whether the loop's thread appends one more marker in this turn."""
        if self._left_of_turn == _A_TURN:
            self._services.loop.call_soon(self._begin_turn)
        self._left_of_turn -= 1
        return self._left_of_turn >= 0

    def _begin_turn(self) -> None:
        self._left_of_turn = _A_TURN


class _Marking:
    """The markers of one transaction."""

    def __init__(
        self,
        writer: MarkerWriter,
        metadata: TransactionMetadata,
        coordinator_epoch: int,
        on_epoch: Callable[[int], object],
        done: Callable[[], object],
        is_durable: bool,
    ) -> None:
        self._writer = writer
        self._is_durable = is_durable
        self._services = writer._services
        self._metadata = metadata
        self._epoch = coordinator_epoch
        self._on_epoch = on_epoch
        self._done = done
        self._left = set(metadata.partitions)
        self._has_few = len(metadata.partitions) <= _FEW
        self._tries = 0

    def start(self) -> None:
        if not self._left:
            self._done()
        for key in sorted(self._left):
            self._write(key)

    def _finish(self, key: PartitionKey) -> None:
        self._left.discard(key)
        if not self._left:
            self._done()

    def _write(self, key: PartitionKey) -> None:
        services = self._services
        hosted = services.partitions.get(*key)
        is_gone = hosted.image is None or not hosted.image.replicas
        if is_gone and not _is_any_offline(services):
            self._finish(key)  # the topic or partition was deleted, as in Kafka
        elif self._has_few and self._write_at_once(key, hosted):
            return
        elif hosted.error == _NONE or hosted.needs_opening:
            services.workers.submit(
                hosted.key, partial(self._append, hosted), partial(self._appended, key, hosted)
            )
        else:
            self._write_later(key, hosted.error.message)

    def _write_at_once(self, key: PartitionKey, hosted: HostedPartition) -> bool:
        """Append a marker without a worker, whose turn would cost more than the append; False,
        without any effect, if the append may block or has to wait for others of its partition."""
        log = hosted.log
        if log is None or hosted.error != _NONE:
            return False
        if self._services.workers.is_busy(hosted.key) or not self._writer.may_append():
            return False
        try:
            appended = append_at_once(log, END_MARKER_SIZE, partial(self._append_to, log))
        except Exception as error:
            self._appended(key, hosted, None, error)
            return True
        if appended is not None:
            self._appended(key, hosted, appended, None)
        return appended is not None

    def _write_later(self, key: PartitionKey, reason: object) -> None:
        if self._tries % _REPORTS_AFTER == 0:
            _LOGGER.warning(
                "the transaction of %r waits for its end marker in %s-%d, and so do read_committed "
                "consumers: %s", self._metadata.transactional_id, *key, reason,
            )  # fmt: skip
        self._tries += 1
        self._services.loop.call_later(_RETRY_SECONDS, self._write, key)

    def _append(self, hosted: HostedPartition) -> AppendedMarker:
        """On a disk worker."""
        return self._append_to(self._services.partitions.open_log(hosted))

    def _append_to(self, log: "Log") -> AppendedMarker:
        return append_marker(
            log,
            self._metadata.producer_id,
            self._metadata.producer_epoch,
            is_commit=self._metadata.state is _PREPARE_COMMIT,
            coordinator_epoch=self._epoch,
            timestamp=self._metadata.last_update_ms,
        )

    def _appended(
        self,
        key: PartitionKey,
        hosted: HostedPartition,
        appended: AppendedMarker | None,
        error: BaseException | None,
    ) -> None:
        if appended is None:
            self._failed(key, hosted, error)
            return
        self._services.partitions.opened(hosted, appended.log, None)
        if appended.coordinator_epoch > self._epoch:
            self._epoch = appended.coordinator_epoch
            self._on_epoch(self._epoch)
        if not self._is_durable:
            self._finish(key)
            return
        self._writer._commits.wait(appended.log, appended.end_offset, partial(self._synced, key))

    def _failed(
        self, key: PartitionKey, hosted: HostedPartition, error: BaseException | None
    ) -> None:
        if isinstance(error, InvalidProducerEpochError):
            _LOGGER.warning(
                "%s-%d: the producer of %r has a later epoch than its transaction, which has "
                    "therefore ended in this partition: %s",
                *key, self._metadata.transactional_id, error,
            )  # fmt: skip
            self._finish(key)
            return
        if hosted.log is None or isinstance(error, UnknownTopicOrPartitionError):
            self._services.partitions.opened(hosted, None, error)
        self._write_later(key, error)

    def _synced(self, key: PartitionKey, error: BaseException | None) -> None:
        if error is None:
            self._finish(key)
        else:
            self._write_later(key, error)


def _is_any_offline(services: "Services") -> bool:
    """Whether a log directory is offline, which may contain the missing partition."""
    return any(each.offline is not None for each in services.store.log_dirs)
