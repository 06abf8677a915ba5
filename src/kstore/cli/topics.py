"""``kstore topics``: Kafka's kafka-topics on a directory."""

import argparse
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.common import (
    INTERNAL,
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    matching_topics,
    open_store,
)
from kstore.errors import KStoreError, UnknownTopicOrPartitionError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.store.store import Store
    from kstore.store.topic import Topic

ACTIONS = ("list", "describe", "create", "delete")
EPILOG = """\
examples:
  kstore topics --create --topic orders --partitions 4 --config segment.bytes=104857600 \\
      --log-dir data
  kstore topics --describe --log-dir /var/kafka-logs
  kstore topics --list --exclude-internal --log-dir /disk1/kafka,/disk2/kafka

--list and --describe work beside a running broker or writer. --create and --delete must
be the only writer of the directory. A topic that Kafka created is deleted only with --foreign,
because its broker still knows it.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir(parser)
    parser.add_argument("--list", action="store_true", help="names of all topics, sorted")
    parser.add_argument(
        "--describe", action="store_true", help="partitions and settings of the topics"
    )
    parser.add_argument("--create", action="store_true", help="create a topic")
    parser.add_argument("--delete", action="store_true", help="delete topics and their records")
    parser.add_argument(
        "--topic",
        metavar="NAME",
        help="the topic; but for --create a regular expression, `,` meaning `or`",
    )
    parser.add_argument(
        "--partitions",
        type=whole_number(1, INT32_MAX),
        metavar="COUNT",
        help="of the topic to create (default: 1)",
    )
    parser.add_argument(
        "--replication-factor",
        type=whole_number(-1, 32767),
        metavar="COUNT",
        help="1: a directory has one replica",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the topic to create, such as segment.bytes=104857600; repeatable",
    )
    parser.add_argument(
        "--topic-id",
        metavar="ID",
        help="Kafka's id in 22 characters, for a topic that a broker will take over",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="no error if it exists")
    parser.add_argument("--if-exists", action="store_true", help="no error if none exists")
    parser.add_argument("--exclude-internal", action="store_true", help="omit Kafka's own")
    parser.add_argument(
        "--topics-with-overrides", action="store_true", help="only topics with own settings"
    )
    parser.add_argument(
        "--foreign", action="store_true", help="--delete also topics that Kafka created"
    )


def run(arguments: argparse.Namespace) -> int:
    chosen = [action for action in ACTIONS if getattr(arguments, action)]
    if len(chosen) != 1:
        raise WrongOptionsError(
            "Command must include exactly one action: --list, --describe, --create or --delete"
        )
    action = {"list": list_topics, "describe": describe_topics, "create": create, "delete": delete}
    mode = "a" if chosen[0] in ("create", "delete") else "r"
    if mode == "a" and not arguments.topic:
        raise WrongOptionsError('Missing required argument "[topic]"')
    try:
        with open_store(arguments, mode, create=arguments.create) as store:
            action[chosen[0]](store, arguments)
    except WrongOptionsError:
        raise
    except KStoreError as error:
        print(f"Error while executing topic command : {error}")
        return 1
    return 0


def selected(store: "Store", arguments: argparse.Namespace) -> list[str]:
    names = matching_topics(store, arguments.topic, internal=not arguments.exclude_internal)
    if arguments.topic and not names and not arguments.if_exists:
        raise UnknownTopicOrPartitionError(f"Topic '{arguments.topic}' does not exist as expected")
    return names


def list_topics(store: "Store", arguments: argparse.Namespace) -> None:
    names = matching_topics(store, arguments.topic, internal=not arguments.exclude_internal)
    print("".join(f"{name}\n" for name in names), end="")


def describe_topics(store: "Store", arguments: argparse.Namespace) -> None:
    node = node_id(store)
    for name in selected(store, arguments):
        topic = store[name]
        settings = own_settings(topic)
        if arguments.topics_with_overrides:
            if settings:
                print(header(topic, settings))
            continue
        print(header(topic, settings))
        for partition in topic.partitions:
            print(
                f"\tTopic: {name}\tPartition: {partition}\tLeader: {node}\tReplicas: {node}"
                f"\tIsr: {node}\tElr: N/A\tLastKnownElr: N/A"
            )


def header(topic: "Topic", settings: str) -> str:
    identity = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
    return (
        f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: 1\tConfigs: {settings}"
    )


def own_settings(topic: "Topic") -> str:
    return ",".join(f"{name}={value}" for name, value in topic.config.to_properties().items())


def node_id(store: "Store") -> int:
    """The broker that the directory belongs to; 0 where none does."""
    from kstore.partition_files import DISK, read_meta_properties

    for path in store.paths:
        meta = read_meta_properties(DISK, path)
        number = None if meta is None else meta.node_id
        if number is not None and number >= 0:
            return number
    return 0


def create(store: "Store", arguments: argparse.Namespace) -> None:
    from kstore.config import LogConfig

    name = arguments.topic
    if arguments.replication_factor not in (None, 1, -1):
        raise WrongOptionsError(
            f"--replication-factor {arguments.replication_factor}: a directory holds one replica "
            "of a partition; leave the option out"
        )
    if arguments.if_not_exists and name in store:
        return
    settings = {}
    for text in arguments.config:
        key, equals, value = text.partition("=")
        if not equals:
            raise WrongOptionsError(f"--config takes name=value, not {text!r}")
        settings[key.strip()] = value
    partitions = 1 if arguments.partitions is None else arguments.partitions
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or "
            "underscore ('_') could collide. To avoid issues it is best to use either, but not "
            "both."
        )
    store.create_topic(
        name,
        partitions,
        config=LogConfig.from_properties(settings) if settings else None,
        topic_id=arguments.topic_id,
    )
    print(f"Created topic {name}.")


def delete(store: "Store", arguments: argparse.Namespace) -> None:
    for name in selected(store, arguments):
        if name in INTERNAL and name != arguments.topic:
            continue  # a pattern never takes Kafka's own topics along
        store.delete_topic(name, foreign=arguments.foreign)
