"""Requests of kafka-python's protocol classes, sent to one broker as they are."""

from typing import Any

from kafka.net import KafkaConnectionManager, NetworkSelector

_PATIENCE = 30.0  # seconds


class KafkaPythonRequests:
    """A connection of kafka-python to a broker; ``close`` it."""

    def __init__(self, address: str) -> None:
        defaults = NetworkSelector.DEFAULT_CONFIG | KafkaConnectionManager.DEFAULT_CONFIG
        self._network = NetworkSelector(**defaults)
        options = defaults | {"bootstrap_servers": [address]}
        self._manager = KafkaConnectionManager(self._network, **options)
        self._network.start()
        self._manager.bootstrap(timeout_ms=_PATIENCE * 1000)

    def ask(self, request: Any) -> Any:
        """The answer. Raises kafka-python's errors if the request fails."""

        async def send() -> Any:
            return await self._manager.send(request, node_id=self._manager.least_loaded_node())

        return self._network.run(send)

    def close(self) -> None:
        self._manager.close()
        self._network.stop(timeout_ms=5000)
        self._network.close()
