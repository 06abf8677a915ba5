"""Changes the settings of topics and applies them to the open logs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kstore.config import LogConfig, setting_attribute

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager


# What a LogConfig that replaces all settings says about deletion counts also where a broker that
# serves the directory has other defaults.
_LIMITS = ("retention.ms", "retention.bytes", "cleanup.policy")


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
            self._manager.catalog.configure(topic, config, _LIMITS)
        self.apply(topic)
        return {name: value for name, value in before.items() if name not in now}

    def alter(self, topic: str, changes: Mapping[str, object], unset: Sequence[str]) -> None:
        """Change some of a topic's settings."""
        with self._manager.lock:
            if topic not in self._manager.catalog.topics:
                raise self._manager.catalog.unknown(topic)
            catalog = self._manager.catalog
            config = catalog.merged_config(topic, changes, unset)
            catalog.configure(topic, config, self._set_names(topic, changes, unset))
        self.apply(topic)

    def _set_names(self, topic: str, changed: Iterable[str], unset: Iterable[str]) -> list[str]:
        """The settings that are set for a topic after a change."""
        entry = self._manager.catalog.settings.get(topic)
        before = () if entry is None else entry.properties
        removed = {setting_attribute(name) for name in unset}
        names = {setting_attribute(name): name for name in [*before, *changed]}
        return [name for attribute, name in names.items() if attribute not in removed]

    def apply(self, topic: str) -> None:
        """Apply a topic's latest settings to its open logs, also if several threads change them."""
        config = None
        while config != (latest := self._manager.catalog.config(topic)):
            config = latest
            for log in self._manager.logs.of_topic(topic):
                log.configure(config)
            self._manager.start_background(config.flush_ms)
