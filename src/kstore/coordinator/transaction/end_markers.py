"""Appends the control record that ends a transaction, COMMIT or ABORT, to the log of a partition.

For embedded producers, and for a broker (:mod:`kstore.broker.transaction_markers`).
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from kstore.clock import now_ms
from kstore.coordinator.transaction.transaction_state_records import TransactionMetadata
from kstore.errors import TransactionCoordinatorFencedError
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.read_committed import began_after

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.writer import LogWriter
    from kstore.producer_state.snapshot import ProducerEntry

_LOGGER = logging.getLogger("kstore")
END_MARKER_SIZE = 78  # of its batch


@lazy_dataclass()
class AppendedMarker:
    """An appended marker, with the coordinator epoch that the log required."""

    log: "Log"
    end_offset: int
    coordinator_epoch: int


def append_marker(
    log: "Log",
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp: int,
) -> AppendedMarker:
    """Append a marker with a coordinator epoch that the log accepts.

    An earlier broker may have ended this producer's transactions with a higher epoch. The process
    that holds the directory's lock is the only coordinator, so no other needs to be fenced. Raises
    InvalidProducerEpochError if the log has a later epoch of the producer.
    """
    append = partial(
        log.append_end_marker, producer_id, producer_epoch, commit=is_commit, timestamp=timestamp
    )
    try:
        append(coordinator_epoch=coordinator_epoch)
    except TransactionCoordinatorFencedError:
        seen = [e.coordinator_epoch for e in log.producers() if e.producer_id == producer_id]
        coordinator_epoch = max(coordinator_epoch, *seen)
        append(coordinator_epoch=coordinator_epoch)
    return AppendedMarker(log, log.end_offset, coordinator_epoch)


def open_transactions(log: "Log") -> "list[ProducerEntry]":
    """The producers that have an open transaction in a log."""
    if log.last_stable_offset == log.end_offset:
        return []
    return [each for each in log.producers() if each.current_transaction_first_offset >= 0]


def restore_removed_ends(log: "Log", writer: "LogWriter") -> None:
    """End the transactions that a truncation has opened again, as they had ended.

    Otherwise the producer's next transaction would decide for their records, too: those of an
    aborted transaction could be committed.
    """
    removed = writer.state.removed_ends
    if removed is None:
        return
    for entry in open_transactions(log):
        is_commit = removed.is_commit(entry)
        if is_commit is not None:
            _restore_end(log, entry, is_commit)
    log.flush()
    writer.truncator.forget_removed_ends(removed)


def _restore_end(log: "Log", entry: "ProducerEntry", is_commit: bool) -> None:
    _LOGGER.warning(
        "%s-%d: the truncation removed the %s marker of a transaction; writing it again (producer "
        "id %d, from offset %d)", log.topic, log.partition, "commit" if is_commit else "abort",
        entry.producer_id, entry.current_transaction_first_offset,
    )  # fmt: skip
    append_marker(
        log,
        entry.producer_id,
        entry.producer_epoch,
        is_commit=is_commit,
        coordinator_epoch=0,
        timestamp=now_ms(),
    )


def end_unknown_transaction(
    log: "Log", entry: "ProducerEntry", commits: list[TransactionMetadata], coordinator_epoch: int
) -> AppendedMarker | None:
    """End an open transaction without a state, unless it has changed meanwhile.

    A power failure may lose the state and keep the records. They were never committed, unless the
    power failure lost the marker of the last commit (one of ``commits``, of the same producer and
    partition), which is then written again.
    """
    if entry not in open_transactions(log):
        return None
    for decided in commits:
        if not began_after(log, entry, decided.last_update_ms):
            return append_marker(
                log,
                entry.producer_id,
                entry.producer_epoch,
                is_commit=True,
                coordinator_epoch=coordinator_epoch,
                timestamp=decided.last_update_ms,
            )
    return append_marker(
        log,
        entry.producer_id,
        entry.producer_epoch,
        is_commit=False,
        coordinator_epoch=coordinator_epoch,
        timestamp=now_ms(),
    )
