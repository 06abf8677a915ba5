"""Converts Kafka's topic settings to the engine's LogConfig.

The engine does not support all of Kafka's settings, nor all of their values. ``kstore.topics``
keeps those that it supports; :func:`is_kept_by_topics` decides which.
"""

from collections.abc import Mapping
from dataclasses import replace

from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.config import LogConfig, setting_text
from kstore.errors import InvalidConfigError
from kstore.integers import INT64_MAX

# Kafka 3.9 accepts and ignores it; in the engine it sets the format of appended records.
_IGNORED = ("message.format.version",)
KNOWN_TO_ENGINE = tuple(
    name for name in LogConfig() if name in TOPIC_SETTINGS and name not in _IGNORED
)
_BEFORE, _DIFFERENCE = "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"


def to_log_config(values: Mapping[str, str], base: LogConfig) -> LogConfig:
    """Apply Kafka's settings, by name, to ``base``; ignore those that the engine lacks."""
    known = {name: values[name] for name in KNOWN_TO_ENGINE if name in values}
    if int(known.get("retention.bytes", 0)) < 0:
        known["retention.bytes"] = "-1"
    if values.get(_BEFORE, str(INT64_MAX)) == str(INT64_MAX) and _DIFFERENCE in values:
        known[_BEFORE] = values[_DIFFERENCE]
    return base.with_properties(known)


def to_values(config: LogConfig) -> dict[str, str]:
    """A topic's engine settings by Kafka's names, formatted as Kafka does."""
    return {name: setting_text(config[name]) for name in KNOWN_TO_ENGINE}


def is_kept_by_topics(name: str, value: str) -> bool:
    """Whether ``kstore.topics`` can store this setting without changing its value."""
    if name not in KNOWN_TO_ENGINE:
        return False
    try:
        return setting_text(LogConfig.from_properties({name: value})[name]) == value
    except InvalidConfigError:
        return False


def kept_by_topics(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that ``kstore.topics`` keeps."""
    return {name: value for name, value in config.items() if is_kept_by_topics(name, value)}


def kept_beside_topics(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that ``kstore.broker`` keeps."""
    return {name: value for name, value in config.items() if not is_kept_by_topics(name, value)}


def ignoring_message_format(config: LogConfig) -> LogConfig:
    """The config with record batches (v2) as the only message format, as in Kafka 3.9."""
    return replace(config, message_format_version=LogConfig().message_format_version)
