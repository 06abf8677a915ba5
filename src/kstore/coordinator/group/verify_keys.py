"""Extends the audit of ``__consumer_offsets``: decodes the keys of its records."""

from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC, find_undecodable_keys
from kstore.log.log import Log
from kstore.verify.partition import Finding, VerifyReport


def warn_of_undecodable_keys(
    report: VerifyReport, log: Log, start: int | None = None, stop: int | None = None
) -> None:
    """Add a warning to the report for each record in [start, stop) whose key does not decode.

    None: the log's start, or its end. Does nothing for other topics, nor for a log with findings,
    whose records may not be readable. Raises KStoreError for a failed read.
    """
    if log.topic != OFFSETS_TOPIC or not report.ok:
        return
    low = max(start or 0, log.start_offset)
    if stop is not None and stop <= low:
        return
    for offset, reason in find_undecodable_keys(log.view(low, stop)):
        sentence = f"the key does not decode, so the record is skipped: {reason}"
        report.warn(Finding("record", log.path, None, offset, sentence))
