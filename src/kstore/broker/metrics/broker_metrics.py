"""The metrics of one broker: its counters and its port, and their lifecycle."""

import time
from typing import TYPE_CHECKING

from kstore.broker.metrics.counters import BrokerCounters
from kstore.broker.metrics.health import Health
from kstore.broker.metrics.http_server import MetricsServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstore.broker.listener_set import ListenerSet
    from kstore.broker.services import Services


class BrokerMetrics:
    """Exposes a broker's metrics at a separate port (``kstore.metrics.port``)."""

    def __init__(self, host: str, port: int) -> None:
        """Open the port. Raises AddressError, and ImportError without prometheus-client."""
        try:
            import prometheus_client.exposition
        except ImportError as error:
            raise ImportError(
                f"metrics need prometheus-client ({error}): pip install 'kstore[metrics]'"
            ) from error
        self._library = prometheus_client
        self.counters = BrokerCounters()
        self._server = MetricsServer(host, port)

    @property
    def address(self) -> str:
        """``host:port`` of the server."""
        return self._server.address

    def start(
        self,
        services: "Services",
        listeners: "ListenerSet",
        *,
        loop_thread: int | None,
        is_stopping: "Callable[[], bool]",
    ) -> None:
        """Start serving. ``loop_thread``: the ident of the event loop's thread."""
        from kstore.broker.metrics.kafka_metrics import BrokerFamilies
        from kstore.broker.metrics.partition_lines import PartitionLines

        manager = services.store._manager
        manager.watch_syncs(self.counters.synced)
        clock = None if loop_thread is None else time.pthread_getcpuclockid(loop_thread)
        registry = self._library.CollectorRegistry(auto_describe=False)
        registry.register(BrokerFamilies(services, self.counters, listeners, clock))
        self._library.ProcessCollector(registry=registry)
        partitions = PartitionLines(services)
        self._server.show_metrics(
            lambda: self._library.generate_latest(registry) + partitions.render().encode()
        )
        self._server.show_health(Health(services.loop, manager, is_stopping))
        self._server.start()

    def close(self, services: "Services | None" = None) -> None:
        """Close the port. Call it after the broker's thread has ended."""
        self._server.close()
        if services is not None:
            services.store._manager.watch_syncs(None)

    def abandon(self) -> None:
        """In a forked child: close its copy of the port."""
        self._server.abandon()
