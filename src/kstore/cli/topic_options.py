"""Evaluates the options of ``kstore topics``, for a directory or a server."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.cli.common import matching_topics
from kstore.errors import InvalidConfigError, UnknownTopicOrPartitionError
from kstore.partition_files import filenames, uuid_from_text

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore
    from kstore.store.store import Store
    from kstore.store.topic import Topic

    Topics = Store | RemoteStore

_NO_ID = "A" * 22  # Kafka's Uuid.ZERO_UUID


def selected(store: "Topics", arguments: argparse.Namespace) -> list[str]:
    """The topics of --topic, or for --describe that of --topic-id, which takes precedence."""
    if arguments.describe and arguments.topic_id not in (None, _NO_ID):
        return _with_id(store, arguments)
    names = matching_topics(store, arguments.topic, internal=not arguments.exclude_internal)
    if arguments.topic is not None and not names and not arguments.if_exists:
        lost = lost_sentence(store, arguments.topic)
        raise UnknownTopicOrPartitionError(
            f"Topic '{arguments.topic}' does not exist as expected" + (f": {lost}" if lost else "")
        )
    return names


def _with_id(store: "Topics", arguments: argparse.Namespace) -> list[str]:
    wanted = arguments.topic_id
    try:
        uuid_from_text(wanted)
    except ValueError as error:
        raise InvalidConfigError(str(error)) from None
    every = matching_topics(store, None, internal=not arguments.exclude_internal)
    names = [name for name in every if store[name].topic_id == wanted]
    if not names and not arguments.if_exists:
        raise UnknownTopicOrPartitionError(f"TopicId '{wanted}' does not exist as expected")
    return names


def lost_sentence(store: object, topic: str) -> str:
    """What is known of a topic of which only ``kstore.topics`` is left; else nothing."""
    catalog = getattr(store, "_catalog", None)  # a server's store has none
    return "" if catalog is None or topic in catalog.topics else catalog.lost.sentence(topic)


def list_topics(store: Iterable[str], arguments: argparse.Namespace) -> None:
    names = matching_topics(store, arguments.topic, internal=not arguments.exclude_internal)
    print("".join(f"{name}\n" for name in names), end="")


def warn_of_collisions(name: str) -> None:
    """Print Kafka's warning of a name with a period or an underscore."""
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or "
            "underscore ('_') could collide. To avoid issues it is best to use either, but not "
            "both."
        )


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --config, by name."""
    settings = {}
    for text in arguments.config:
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidConfigError(
                "requirement failed: Invalid topic config: all configs to be added must be in the "
                'format "key=val".'
            )
        settings[key.strip()] = value
    return settings


def own_properties(topic: "Topic") -> dict[str, str]:
    """The settings that a topic has of its own, also those that equal a default, as Kafka's tools
    show them."""
    was_set = topic._store._catalog.set_properties(topic.name)
    return {**topic.config.to_properties(), **was_set}


def changed(store: "Topics", arguments: argparse.Namespace) -> list[str]:
    """The topics to change; a pattern never matches Kafka's internal topics."""
    return [
        name
        for name in selected(store, arguments)
        if name not in filenames.INTERNAL_TOPICS or name == arguments.topic
    ]
