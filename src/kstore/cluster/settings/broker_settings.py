"""All broker settings that Kafka 3.9's DescribeConfigs lists, with this broker's defaults, and
kstore's own settings."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kstore.cluster.settings.broker_table import BROKER_TABLE
from kstore.cluster.settings.definition import Setting, parse_settings
from kstore.cluster.settings.topic_settings import BROKER_SYNONYMS, TOPIC_SETTINGS
from kstore.cluster.settings.unused_table import UNUSED_TABLE

_UNUSED = "Belongs to a function of Kafka that this broker does not have, and has no effect."
_LISTED = "A setting of Kafka's broker, listed for tools that expect it."
_DYNAMIC = "*"

# Defaults that differ from Kafka's.
KSTORE_DEFAULTS = MappingProxyType(
    {
        "group.coordinator.rebalance.protocols": "classic,consumer",  # as Kafka 4
        # disk workers; the event loop's thread serves what is in the page cache
        "num.io.threads": "4",
        "queued.max.request.bytes": "268435456",  # of all connections together
        "socket.listen.backlog.size": "2147483647",  # the system limits it to its somaxconn
        "socket.receive.buffer.bytes": "-1",  # the system's, which adapts by itself
        "socket.send.buffer.bytes": "-1",
    }
)


def _documentation(name: str) -> str:
    """A setting's documentation: that of the topic setting whose default it is."""
    for topic_setting, chain in BROKER_SYNONYMS.items():
        if any(name == each for each, _ in chain):
            text = TOPIC_SETTINGS[topic_setting].documentation
            return f"The default of the topic setting {topic_setting}. {text}"
    return _LISTED


def _settings() -> tuple[Mapping[str, Setting], frozenset[str]]:
    listed = parse_settings(BROKER_TABLE)
    dynamic = {name.removeprefix(_DYNAMIC) for name in listed if name.startswith(_DYNAMIC)}
    own = [
        replace(
            each,
            name=name.removeprefix(_DYNAMIC),
            documentation=each.documentation or _documentation(name.removeprefix(_DYNAMIC)),
        )
        for name, each in listed.items()
    ]
    unused = [
        replace(each, documentation=_UNUSED) for each in parse_settings(UNUSED_TABLE).values()
    ]
    by_name = {
        each.name: replace(each, default=KSTORE_DEFAULTS.get(each.name, each.default))
        for each in sorted((*own, *unused), key=lambda each: each.name)
    }
    return MappingProxyType(by_name), frozenset(dynamic)


BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS = _settings()

_CHAINS = {
    name: tuple(each for each, _ in chain)
    for chain in BROKER_SYNONYMS.values()
    for name, _ in chain
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker settings that are synonyms of one; the first that is set is effective.

    ``log.retention.ms`` comes before ``log.retention.minutes`` and ``log.retention.hours``
    (DynamicBrokerConfig.brokerConfigSynonyms).
    """
    return _CHAINS.get(name, (name,))
