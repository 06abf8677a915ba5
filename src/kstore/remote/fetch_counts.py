"""Counts the records that a consumer fetches, in total and by topic."""

from kstore._native.format import batch_fields
from kstore.remote.client_metrics import ClientMetrics

_GROUP = "fetch-manager-metrics"


class FetchCounts:
    """The counts of a consumer's fetches, as Kafka's FetchMetricsManager takes them."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics

    def fetch(self, milliseconds: float) -> None:
        """Count a request, and how long its response took."""
        self._metrics.count("fetch", group=_GROUP)
        self._metrics.measure("fetch-latency", milliseconds, group=_GROUP)

    def records(self, topic: str, count: int, data: bytes) -> None:
        """Count the records that a response has, and the bytes of its batches' records."""
        size = _record_bytes(data)
        for tags in ({}, {"topic": topic.replace(".", "_")}):
            self._metrics.count("records-consumed", count, group=_GROUP, **tags)
            self._metrics.count("bytes-consumed", size, group=_GROUP, **tags)
            self._metrics.measure("fetch-size", size, group=_GROUP, **tags)
            self._metrics.average("records-per-request", count, group=_GROUP, **tags)


def _record_bytes(data: bytes) -> int:
    """Bytes of the records in the complete batches, without headers; compressed as they are.

    The markers of transactions are no records.
    """
    found = position = 0
    while 0 < (size := batch_fields.declared_size(data, position)) <= len(data) - position:
        if batch_fields.magic(data, position) < 2:
            found += size
        elif not batch_fields.attributes(data, position) & batch_fields.CONTROL_BIT:
            found += size - batch_fields.V2_HEADER_SIZE
        position = batch_fields.next_position(data, position)
    return found
