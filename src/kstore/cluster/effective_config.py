"""Kafka's settings of a topic as the engine's LogConfig.

The engine does not know all of Kafka's settings, nor all of their values. ``kstore.topics`` keeps
those that it knows; :func:`is_kept_by_topics` says which.
"""

from collections.abc import Mapping
from dataclasses import replace

from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.config import LogConfig, setting_text
from kstore.errors import InvalidConfigError
from kstore.integers import INT64_MAX

_NO_CLEANING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
# Kafka 3.9 accepts and ignores it; to the engine it is the format of what is appended.
_IGNORED = ("message.format.version",)
KNOWN_TO_ENGINE = tuple(
    name for name in LogConfig() if name in TOPIC_SETTINGS and name not in _IGNORED
)
_BEFORE, _DIFFERENCE = "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"


def to_log_config(values: Mapping[str, str], base: LogConfig) -> LogConfig:
    """``base`` with some of Kafka's settings, by name; ignores those that the engine lacks."""
    known = {name: values[name] for name in KNOWN_TO_ENGINE if name in values}
    if "cleanup.policy" in known:
        policies = dict.fromkeys(each.strip() for each in known["cleanup.policy"].split(","))
        if any(policies):
            known["cleanup.policy"] = ",".join(policies)
        else:  # neither of both: nothing is ever removed
            known.update(_NO_CLEANING)
    if int(known.get("retention.bytes", 0)) < 0:
        known["retention.bytes"] = "-1"
    if values.get(_BEFORE, str(INT64_MAX)) == str(INT64_MAX) and _DIFFERENCE in values:
        known[_BEFORE] = values[_DIFFERENCE]
    return base.with_properties(known)


def to_values(config: LogConfig) -> dict[str, str]:
    """The engine's settings of a topic by Kafka's names, as Kafka prints them."""
    return {name: setting_text(config[name]) for name in KNOWN_TO_ENGINE}


def is_kept_by_topics(name: str, value: str) -> bool:
    """Whether ``kstore.topics`` keeps this setting and gives it back as it was set."""
    if name not in KNOWN_TO_ENGINE:
        return False
    try:
        return LogConfig.from_properties({name: value}).to_properties().get(name) == value
    except InvalidConfigError:
        return False


def kept_by_topics(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that ``kstore.topics`` keeps."""
    return {name: value for name, value in config.items() if is_kept_by_topics(name, value)}


def kept_beside_topics(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that ``kstore.broker`` keeps."""
    return {name: value for name, value in config.items() if not is_kept_by_topics(name, value)}


def ignoring_message_format(config: LogConfig) -> LogConfig:
    """The settings of a topic that follows the broker: record batches only, as in Kafka 3.9."""
    return replace(config, message_format_version=LogConfig().message_format_version)
