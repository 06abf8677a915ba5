"""Changes the settings of topics and applies them to the open logs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kstore.config import LogConfig

if TYPE_CHECKING:
    from kstore.store.manager import LogManager


class TopicSettings:
    """Changes settings of topics. Thread safe."""

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager

    def configure(self, topic: str, config: LogConfig) -> Mapping[str, str]:
        """Replace a topic's settings; returns the settings that this removed."""
        with self._manager.lock:
            if topic not in self._manager.catalog.topics:
                raise self._manager.catalog.unknown(topic)
            before, now = self._manager.catalog.own_properties(topic), config.to_properties()
            self._manager.catalog.configure(topic, config)
        self._configure_logs(topic)
        return {name: value for name, value in before.items() if name not in now}

    def alter(self, topic: str, changes: Mapping[str, object], unset: Sequence[str]) -> None:
        """Change some of a topic's settings."""
        with self._manager.lock:
            if topic not in self._manager.catalog.topics:
                raise self._manager.catalog.unknown(topic)
            self._manager.catalog.configure(
                topic, self._manager.catalog.merged_config(topic, changes, unset)
            )
        self._configure_logs(topic)

    def _configure_logs(self, topic: str) -> None:
        """Apply a topic's latest settings to its open logs, also if several threads change them."""
        config = None
        while config != (latest := self._manager.catalog.config(topic)):
            config = latest
            for log in self._manager.logs.of_topic(topic):
                log.configure(config)
            self._manager.start_background(config.flush_ms)
