"""``kstore configs --bootstrap-server``: Kafka's kafka-configs on a server."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
_SET_FOR_TOPIC, _SET_FOR_BROKER = 1, 2


def run(arguments: argparse.Namespace, changes: Mapping[str, str], unset: Sequence[str]) -> int:
    from kstore.remote.topic import BROKER, TOPIC, alter_settings

    kind = BROKER if arguments.entity_type == "brokers" else TOPIC
    word = "broker" if kind == BROKER else "topic"
    with open_server(arguments) as store:
        if arguments.describe:
            for name in names(store, kind == BROKER, arguments.entity_name):
                print_settings(store, kind, word, name, everything=arguments.all)
            return 0
        name = arguments.entity_name
        if kind == TOPIC:
            named_topic(store, name)
        alter_settings(store, kind, name, changes, unset, validate_only=arguments.dry_run)
        done = "would be updated" if arguments.dry_run else None
        print(
            f"The config for {word} {name} {done}."
            if done
            else f"Completed updating config for {word} {name}."
        )
    return 0


def names(store: "RemoteStore", is_broker: bool, name: str | None) -> list[str]:
    """The given entity, or all."""
    if is_broker:
        return [str(node) for node in store.cluster.nodes] if name is None else [name]
    return list(store) if name is None else [named_topic(store, name).name]


def print_settings(
    store: "RemoteStore", kind: int, word: str, name: str, *, everything: bool
) -> None:
    """Print settings in the format of Kafka's tool."""
    from kstore.remote.topic import describe_settings

    source = _SET_FOR_TOPIC if word == "topic" else _SET_FOR_BROKER
    print(f"{'All' if everything else 'Dynamic'} configs for {word} {name} are:")
    for entry in describe_settings(store, kind, name):
        if everything or entry.config_source == source:
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
