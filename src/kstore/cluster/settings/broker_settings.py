"""All broker settings that Kafka 3.9's DescribeConfigs lists, with this broker's defaults, and
kstore's own settings."""

from collections.abc import Mapping
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
        "num.recovery.threads.per.data.dir": "2",  # as Kafka 4
        "queued.max.request.bytes": "268435456",  # of all connections together
        "socket.listen.backlog.size": "2147483647",  # the system limits it to its somaxconn
        "socket.receive.buffer.bytes": "-1",  # the system's, which adapts by itself
    }
)


_DEFAULT_OF = {
    name: topic_setting
    for topic_setting, chain in reversed(list(BROKER_SYNONYMS.items()))
    for name, _ in chain
}


def _documentation(name: str) -> str:
    """A setting's documentation: that of the topic setting whose default it is."""
    topic_setting = _DEFAULT_OF.get(name)
    if topic_setting is None:
        return _LISTED
    text = TOPIC_SETTINGS[topic_setting].documentation
    return f"The default of the topic setting {topic_setting}. {text}"


def _settings() -> tuple[Mapping[str, Setting], frozenset[str]]:
    dynamic: set[str] = set()
    found: dict[str, Setting] = {}
    for table, unused in ((BROKER_TABLE, None), (UNUSED_TABLE, _UNUSED)):
        for listed, each in parse_settings(table).items():
            name = listed.removeprefix(_DYNAMIC)
            if name is not listed:
                dynamic.add(name)
            found[name] = Setting(
                name,
                each.type,
                KSTORE_DEFAULTS.get(name, each.default),
                each.valid,
                unused or each.documentation or _documentation(name),
            )
    return MappingProxyType(dict(sorted(found.items()))), frozenset(dynamic)


# Set while a broker runs, and no other way (Kafka's QuotaConfig.brokerQuotaConfigs): descriptions
# of a broker list them only where they are set.
REPLICATION_QUOTAS = MappingProxyType(
    parse_settings(
        """
follower.replication.throttled.rate LONG 9223372036854775807 [0,...]
 Bytes a second between brokers, of the replicas in follower.replication.throttled.replicas. \
Without effect: this broker has no other to replicate from.
leader.replication.throttled.rate LONG 9223372036854775807 [0,...]
 Bytes a second between brokers, of the replicas in leader.replication.throttled.replicas. \
Without effect: this broker has no other to replicate to.
replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 [0,...]
 Bytes a second that all moves of replicas between log directories copy.
"""
    )
)
BROKER_SETTINGS, _LISTED_DYNAMIC = _settings()
DYNAMIC_BROKER_SETTINGS = _LISTED_DYNAMIC | REPLICATION_QUOTAS.keys()


def find_broker_setting(name: str) -> Setting | None:
    """A setting of a broker that is in its file, or that is set while it runs."""
    return BROKER_SETTINGS.get(name) or REPLICATION_QUOTAS.get(name)


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
