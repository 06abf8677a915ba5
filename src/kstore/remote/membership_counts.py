"""Counts the requests of a member of a group, by either protocol, and how long they took."""

import time

from kstore.remote.client_metrics import ClientMetrics

_GROUP = "coordinator-metrics"


class MembershipCounts:
    """Kafka's ConsumerCoordinatorMetrics and AbstractCoordinator's. ``began``: by monotonic()."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics
        metrics.count("heartbeat", 0, group=_GROUP)  # a short membership sends none

    def heartbeat(self, began: float) -> None:
        """Count a heartbeat that was answered."""
        self._metrics.count("heartbeat", group=_GROUP)
        self._metrics.largest("heartbeat-response-time", _ms_since(began), group=_GROUP)

    def succeeded(self, name: str, duration: str, began: float) -> None:
        """Count a request that succeeded."""
        self._metrics.count(name, group=_GROUP)
        self._metrics.measure(duration, _ms_since(began), group=_GROUP)


def _ms_since(began: float) -> float:
    return (time.monotonic() - began) * 1000
