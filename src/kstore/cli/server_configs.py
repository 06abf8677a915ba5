"""``kstore configs --bootstrap-server``: Kafka's kafka-configs on a server."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kstore.cli.common import named_topic, open_server
from kstore.cli.entity_options import DEFAULTS
from kstore.errors import InvalidConfigError, KStoreError
from kstore.integers import parse_integer
from kstore.remote.answer_errors import kafka_text
from kstore.remote.topic import resources_with_settings

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore
    from kstore.remote.topic import SettingEntry

# Kafka's ConfigEntry.ConfigSource by number, as its tool prints it.
_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


_DYNAMIC_DEFAULT = 3  # the source of the settings of all brokers


class _Kind(NamedTuple):
    """A type of entities: its number and name in the protocol, and the source of its settings."""

    number: int
    word: str
    source: int


_KINDS = {
    "topics": _Kind(2, "topic", 1),
    "brokers": _Kind(4, "broker", 2),
    "broker-loggers": _Kind(8, "broker-logger", 6),
    "client-metrics": _Kind(16, "client-metric", 7),
    "groups": _Kind(32, "group", 8),
}


def run(arguments: argparse.Namespace, changes: Mapping[str, str], unset: Sequence[str]) -> int:
    from kstore.remote.topic import alter_settings

    entity_type = arguments.entity_type or "topics"
    kind = _KINDS[entity_type]
    with open_server(arguments) as store:
        if arguments.describe:
            for name in names(store, kind, arguments.entity_name):
                print(heading(entity_type, name, everything=arguments.all))
                print_settings(store, kind, name, everything=arguments.all)
            return 0
        name = arguments.entity_name
        if kind.word == "topic":
            named_topic(store, name)
        check_present(store, kind, name, changes, unset)
        try:
            alter_settings(
                store, kind.number, name, changes, unset, validate_only=arguments.dry_run
            )
        except KStoreError as error:
            raise KStoreError(kafka_text(error)) from error
        print(done_line(kind, name, is_dry_run=arguments.dry_run))
    return 0


def done_line(kind: _Kind, name: str, *, is_dry_run: bool) -> str:
    if is_dry_run:
        return f"The config for {kind.word} {name} would be updated."
    if name:
        return f"Completed updating config for {kind.word} {name}."
    return f"Completed updating default config for {kind.word}s in the cluster."


def check_present(
    store: "RemoteStore", kind: _Kind, name: str, changes: Mapping[str, str], unset: Sequence[str]
) -> None:
    """As in Kafka, a setting to reset must be set, and a logger must exist."""
    is_logger = kind.word == "broker-logger"
    wanted = [*unset, *changes] if is_logger else unset
    if not wanted:
        return
    known = {entry.name for entry in own_settings(store, kind, name)}
    unknown = ",".join(each for each in wanted if each not in known)
    if unknown:
        raise InvalidConfigError(
            f"Invalid broker logger(s): {unknown}" if is_logger else f"Invalid config(s): {unknown}"
        )


def names(store: "RemoteStore", kind: _Kind, name: str | None) -> list[str]:
    """The given entity, or all; a group that does not exist is a message, as in Kafka's tool."""
    if kind.word.startswith("broker"):
        nodes = store.cluster.nodes
        if name and parse_integer(name) not in nodes:
            raise KStoreError(f"the cluster has no broker {name}")
        return [*map(str, nodes), DEFAULTS] if name is None else [name]
    if kind.word == "topic":
        return list(store) if name is None else [named_topic(store, name).name]
    if kind.word == "client-metric":
        return [name] if name else resources_with_settings(store, kind.number)
    from kstore.remote.groups import list_all_groups

    known = {each.group_id for each in list_all_groups(store.cluster)}
    known.update(resources_with_settings(store, kind.number))
    if name is None:
        return sorted(known)
    if name not in known:
        print(f"The group '{name}' doesn't exist and doesn't have dynamic config.")
        return []
    return [name]


def heading(entity_type: str, name: str, *, everything: bool) -> str:
    """The line that Kafka's tool prints before the settings of an entity."""
    word = _KINDS[entity_type].word
    if not name:
        return f"Default configs for {word}s in the cluster are:"
    return f"{'All' if everything else 'Dynamic'} configs for {word} {name} are:"


def print_settings(store: "RemoteStore", kind: _Kind, name: str, *, everything: bool) -> None:
    """Print settings in the format of Kafka's tool."""
    for entry in own_settings(store, kind, name, everything=everything):
        print(f"  {line_of(entry)}")


def own_settings(
    store: "RemoteStore", kind: _Kind, name: str, *, everything: bool = False
) -> "list[SettingEntry]":
    """The settings that an entity itself has, or all. A logger's are all its own."""
    from kstore.remote.topic import describe_settings

    source = kind.source if name else _DYNAMIC_DEFAULT
    is_complete = everything or kind.word == "broker-logger"
    return [
        entry
        for entry in describe_settings(store, kind.number, name)
        if is_complete or entry.config_source == source
    ]


def line_of(entry: "SettingEntry") -> str:
    """One setting with the source of each of its values."""
    synonyms = ", ".join(
        f"{_SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={shown(each.value)}"
        for each in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"{entry.name}={shown(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def shown(value: str | None) -> str:
    """A value as Java prints it."""
    return "null" if value is None else value
