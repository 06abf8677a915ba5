"""Counts the records that a producer sends, in total and by topic."""

from kstore._native.format import batch_fields
from kstore.log.append_split import is_split_after
from kstore.remote.client_metrics import ClientMetrics

_OF_TOPIC = "topic-metrics"


def prepare_counts(metrics: ClientMetrics, topic: str) -> None:
    """Begin the counts of a producer that may stay at 0."""
    for name in ("record-error", "record-retry"):
        metrics.count(name, 0)
        metrics.count(name, 0, group=_OF_TOPIC, topic=topic)


class ProduceCounts:
    """The counts of one batch, as Kafka's SenderMetrics takes them: once, however often it is
    sent."""

    def __init__(self, metrics: ClientMetrics, topic: str, batch: bytes) -> None:
        self._metrics = metrics
        self._topic = topic
        self._records = batch_fields.record_count(batch)
        self._attempts = 0
        self._count("record-send")
        metrics.count("byte", len(batch), group=_OF_TOPIC, topic=topic)
        metrics.measure("batch-size", len(batch))
        metrics.average("records-per-request", self._records)

    def attempt(self) -> None:
        """Count the records as sent again, from the second attempt on."""
        self._attempts += 1
        if self._attempts > 1:
            self._count("record-retry")

    def fail(self, error: Exception) -> None:
        """Count the records as failed, unless they are sent again in smaller batches."""
        if not is_split_after(error, self._records):
            self._count("record-error")

    def _count(self, name: str) -> None:
        self._metrics.count(name, self._records)
        self._metrics.count(name, self._records, group=_OF_TOPIC, topic=self._topic)
