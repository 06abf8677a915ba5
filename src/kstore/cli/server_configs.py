"""``kstore configs --bootstrap-server``: Kafka's kafka-configs on a server."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kstore.cli.common import named_topic, open_server

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


class _Kind(NamedTuple):
    """A type of entities: its number and name in the protocol, and the source of its settings."""

    number: int
    word: str
    source: int


_KINDS = {
    "topics": _Kind(2, "topic", 1),
    "brokers": _Kind(4, "broker", 2),
    "groups": _Kind(32, "group", 8),
}


def run(arguments: argparse.Namespace, changes: Mapping[str, str], unset: Sequence[str]) -> int:
    from kstore.remote.topic import alter_settings

    kind = _KINDS[arguments.entity_type or "topics"]
    with open_server(arguments) as store:
        if arguments.describe:
            for name in names(store, kind, arguments.entity_name):
                print_settings(store, kind, name, everything=arguments.all)
            return 0
        name = arguments.entity_name
        if kind.word == "topic":
            named_topic(store, name)
        alter_settings(store, kind.number, name, changes, unset, validate_only=arguments.dry_run)
        done = "would be updated" if arguments.dry_run else None
        print(
            f"The config for {kind.word} {name} {done}."
            if done
            else f"Completed updating config for {kind.word} {name}."
        )
    return 0


def names(store: "RemoteStore", kind: _Kind, name: str | None) -> list[str]:
    """The given entity, or all; a group that does not exist is a message, as in Kafka's tool."""
    if kind.word == "broker":
        return [str(node) for node in store.cluster.nodes] if name is None else [name]
    if kind.word == "topic":
        return list(store) if name is None else [named_topic(store, name).name]
    from kstore.remote.groups import list_all_groups
    from kstore.remote.topic import groups_with_settings

    known = {each.group_id for each in list_all_groups(store.cluster)}
    known.update(groups_with_settings(store))
    if name is None:
        return sorted(known)
    if name not in known:
        print(f"The group '{name}' doesn't exist and doesn't have dynamic config.")
        return []
    return [name]


def print_settings(store: "RemoteStore", kind: _Kind, name: str, *, everything: bool) -> None:
    """Print settings in the format of Kafka's tool."""
    from kstore.remote.topic import describe_settings

    print(f"{'All' if everything else 'Dynamic'} configs for {kind.word} {name} are:")
    for entry in describe_settings(store, kind.number, name):
        if everything or entry.config_source == kind.source:
            print(f"  {line_of(entry)}")


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
