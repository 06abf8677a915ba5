"""The settings of one consumer group (KIP-848), as Kafka's GroupConfig has and checks them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kstore.cluster.metadata import ConfigEntry, ConfigSource, ConfigSynonym
from kstore.cluster.settings.definition import Setting, parse_settings
from kstore.errors import InvalidConfigError, InvalidRequestError

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
_TABLE = f"""\
{HEARTBEAT_INTERVAL} INT 5000 [1,...]
    The heartbeat interval given to the members of a consumer group.
{SESSION_TIMEOUT} INT 45000 [1,...]
    The timeout to detect client failures when using the consumer group protocol.
"""
GROUP_SETTINGS: Mapping[str, Setting] = MappingProxyType(parse_settings(_TABLE))

OfBroker = Callable[[str], str]  # the value of a broker's setting
OfSynonyms = Callable[[str], list[ConfigSynonym]]  # its values, the one that counts first


def group_value(own: Mapping[str, str], name: str, of_broker: OfBroker) -> int:
    """The value of a group's setting: its own, or the broker's."""
    return int(own.get(name) or of_broker(f"group.{name}"))


def check_group_config(config: Mapping[str, str], of_broker: OfBroker) -> dict[str, str]:
    """A group's settings, checked; InvalidConfigError with Kafka's message names a bad one."""
    for name in config:
        if name not in GROUP_SETTINGS:
            raise InvalidConfigError(f"Unknown group config name: {name}")
    checked = {name: GROUP_SETTINGS[name].normal(value) for name, value in config.items()}
    for name in (HEARTBEAT_INTERVAL, SESSION_TIMEOUT):
        value = group_value(checked, name, of_broker)
        kind = name.removeprefix("consumer.")
        least, most = f"group.consumer.min.{kind}", f"group.consumer.max.{kind}"
        if value < int(of_broker(least)):
            raise InvalidConfigError(f"{name} must be greater than or equal to {least}")
        if value > int(of_broker(most)):
            raise InvalidConfigError(f"{name} must be less than or equal to {most}")
    interval = group_value(checked, HEARTBEAT_INTERVAL, of_broker)
    if group_value(checked, SESSION_TIMEOUT, of_broker) <= interval:
        raise InvalidConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")
    return checked


def describe_group(name: str, own: Mapping[str, str], synonyms: OfSynonyms) -> list[ConfigEntry]:
    """All settings of a group with the values that count, sorted by name.

    ``synonyms`` are those of the broker's settings. Raises InvalidRequestError for a group without
    a name.
    """
    if not name:
        raise InvalidRequestError("Group name must not be empty")
    entries = []
    for setting_name, setting in sorted(GROUP_SETTINGS.items()):
        found = synonyms(f"group.{setting_name}")
        if setting_name in own:
            found.insert(0, ConfigSynonym(setting_name, own[setting_name], ConfigSource.GROUP))
        entries.append(
            ConfigEntry(
                name=setting_name,
                value=found[0].value,
                source=found[0].source,
                is_read_only=False,
                is_sensitive=False,
                type=setting.type,
                documentation=setting.documentation,
                synonyms=tuple(found),
            )
        )
    return entries
