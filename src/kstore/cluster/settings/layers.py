"""Finds the effective value of a setting: the topic's, the broker's, or Kafka's default.

The precedence is: the topic's own value, the dynamic value of this broker, the dynamic value of all
brokers, the static value that the broker was started with, and the default (Kafka's ConfigHelper
and KafkaConfig).
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from kstore.cluster.metadata import ConfigEntry, ConfigSource, ConfigSynonym, ConfigType
from kstore.cluster.settings.broker_settings import (
    BROKER_SETTINGS,
    DYNAMIC_BROKER_SETTINGS,
    REPLICATION_QUOTAS,
    broker_synonyms,
    find_broker_setting,
)
from kstore.cluster.settings.definition import Setting
from kstore.cluster.settings.topic_settings import BROKER_SYNONYMS, TOPIC_SETTINGS
from kstore.integers import parse_integer
from kstore.lazy_dataclass import lazy_dataclass


@lazy_dataclass(frozen=True)
class BrokerConfig:
    """The broker's explicitly set values by layer, as validated text."""

    static: Mapping[str, str] = field(default_factory=dict)  # from the start of the broker
    dynamic_default: Mapping[str, str] = field(default_factory=dict)  # of all brokers
    dynamic: Mapping[str, str] = field(default_factory=dict)  # of this broker

    def get(self, name: str) -> str | None:
        """The effective value, ignoring synonyms; None if none is set."""
        for layer in (self.dynamic, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        setting = find_broker_setting(name)
        return None if setting is None else setting.default

    def set_values(self) -> dict[str, str]:
        """The effective values of all layers, by name."""
        return {**self.static, **self.dynamic_default, **self.dynamic}

    def synonyms(self, name: str) -> list[ConfigSynonym]:
        """The values of a setting and its synonyms, the effective one first.

        Like Kafka, it omits entries before the first value under the setting's own name.
        """
        names = broker_synonyms(name)
        is_sensitive = name in BROKER_SETTINGS and BROKER_SETTINGS[name].is_sensitive
        found: list[ConfigSynonym] = []
        for layer, source in (
            (self.dynamic, ConfigSource.DYNAMIC_BROKER),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.static, ConfigSource.STATIC_BROKER),
            (_Defaults(), ConfigSource.DEFAULT),
        ):
            for each in names:
                value = layer.get(each)
                if value is not None:
                    found.append(ConfigSynonym(each, None if is_sensitive else value, source))
        first = next((n for n, each in enumerate(found) if each.name == name), len(found))
        return found[first:]

    def topic_default(self, name: str) -> str:
        """The broker's default for a topic setting."""
        chain = BROKER_SYNONYMS.get(name, ())
        for broker_name, units in chain:
            value = self.get(broker_name)
            if value is not None:
                return value if units == 1 else _scaled(value, units)
        return TOPIC_SETTINGS[name].default or ""

    def describe(self) -> list[ConfigEntry]:
        """All settings of the broker, sorted by name."""
        listed = dict(BROKER_SETTINGS)
        for name, setting in REPLICATION_QUOTAS.items():  # as in Kafka, where they are set
            if name in self.dynamic or name in self.dynamic_default:
                listed[name] = setting
        return [self._entry(setting) for _, setting in sorted(listed.items())]

    def describe_default(self) -> list[ConfigEntry]:
        """The dynamic settings of all brokers."""
        entries = []
        for name, value in sorted(self.dynamic_default.items()):
            synonyms = tuple(
                each
                for each in self.synonyms(name)
                if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER
            )
            setting = find_broker_setting(name)
            if setting is not None:
                entries.append(_entry(setting, value, synonyms))
        return entries

    def _entry(self, setting: Setting) -> ConfigEntry:
        return _entry(
            setting,
            self.get(setting.name),
            self.synonyms(setting.name),
            is_read_only=setting.name not in DYNAMIC_BROKER_SETTINGS,
        )


class _Defaults:
    def get(self, name: str) -> str | None:
        setting = BROKER_SETTINGS.get(name)
        return None if setting is None else setting.default


def _scaled(value: str, units: int) -> str:
    """Convert hours or minutes to milliseconds; a negative value means no limit."""
    number = parse_integer(value)
    return str(number * units if number >= 0 else -1)


def _entry(
    setting: Setting,
    value: str | None,
    synonyms: Iterable[ConfigSynonym],
    *,
    is_read_only: bool = False,
) -> ConfigEntry:
    synonyms = tuple(synonyms)
    return ConfigEntry(
        name=setting.name,
        value=None if setting.is_sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=setting.is_sensitive,
        type=ConfigType(setting.type),
        documentation=setting.documentation,
        synonyms=synonyms,
    )


def describe_topic(
    own: Mapping[str, str], broker: BrokerConfig, kept: Mapping[str, str] | None = None
) -> list[ConfigEntry]:
    """All settings of a topic with their effective values, sorted by name.

    Parameters
    ----------
    own
        The topic's own settings.
    kept
        The defaults of a topic that does not follow the broker. They are shown as defaults without
        synonyms, so that tools do not regard them as settings that can be reset.
    """
    entries = []
    for name, setting in sorted(TOPIC_SETTINGS.items()):
        if kept is not None and name not in own and name in kept:
            entries.append(_entry(setting, kept[name], ()))
            continue
        chain = BROKER_SYNONYMS.get(name)
        synonyms = [] if chain is None else broker.synonyms(chain[0][0])
        if name in own:
            value = setting.normal(own[name])
            synonyms.insert(0, ConfigSynonym(name, value, ConfigSource.TOPIC))
        else:
            value = setting.normal(broker.topic_default(name))
        entries.append(_entry(setting, value, synonyms))
    return entries
