"""``kstore topics``: Kafka's kafka-topics on a directory or a server."""

import argparse
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    node_id,
    open_store,
)
from kstore.cli.empty_partitions import EmptyPartitions
from kstore.cli.partition_reports import REPORTS, check_options, is_report, is_reported
from kstore.cli.topic_options import (
    changed,
    list_topics,
    lost_sentence,
    own_properties,
    selected,
    settings_of,
    warn_of_collisions,
)
from kstore.errors import InvalidConfigError, KStoreError
from kstore.integers import INT32_MAX
from kstore.partition_files import count_of, filenames

if TYPE_CHECKING:
    from kstore.store.store import Store
    from kstore.store.topic import Topic

ACTIONS = ("list", "describe", "create", "alter", "delete")
EPILOG = """\
examples:
  kstore topics --create --topic orders --partitions 4 --config segment.bytes=104857600 \\
      --log-dir data
  kstore topics --alter --topic orders --partitions 8 --log-dir data
  kstore topics --alter --topic orders --config retention.ms=86400000 \\
      --delete-config segment.bytes --log-dir data
  kstore topics --describe --log-dir /var/kafka-logs
  kstore topics --create --topic orders --partitions 4 --bootstrap-server localhost:9092
  kstore topics --list --exclude-internal --log-dir /disk1/kafka,/disk2/kafka

With --log-dir, --list and --describe work beside a running broker or writer; --create, --alter and
--delete must be the only writer of the directory. Adding partitions changes the partition of some
keys; existing records are not moved. A topic that Kafka created is deleted only with --foreign, and
gets no more partitions, because its broker still knows it; its settings may change here.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir_or_server(parser)
    parser.add_argument("--list", action="store_true", help="names of all topics, sorted")
    parser.add_argument(
        "--describe", action="store_true", help="partitions and settings of the topics"
    )
    parser.add_argument("--create", action="store_true", help="create a topic")
    parser.add_argument("--alter", action="store_true", help="change settings, or add partitions")
    parser.add_argument("--delete", action="store_true", help="delete topics and their records")
    parser.add_argument(
        "--topic",
        metavar="NAME",
        help="--create: the topic's name; otherwise a regular expression, `,` meaning `or`",
    )
    parser.add_argument(
        "--partitions",
        type=whole_number(-INT32_MAX, INT32_MAX),
        metavar="COUNT",
        help="--create: how many (default: 1); --alter: how many it has afterwards",
    )
    parser.add_argument(
        "--replication-factor",
        type=whole_number(-INT32_MAX, INT32_MAX),
        metavar="COUNT",
        help="--create: how many; a directory has 1",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="--create, --alter: a setting, such as segment.bytes=104857600; repeatable",
    )
    parser.add_argument(
        "--delete-config",
        action="append",
        default=[],
        metavar="NAME",
        help="--alter: a setting to reset to its default; repeatable",
    )
    parser.add_argument(
        "--topic-id",
        metavar="ID",
        help="Kafka's id in 22 characters. --describe: of the topic, instead of --topic; --create, "
        "in a directory: for a topic that a broker will take over",
    )
    parser.add_argument("--partition-size-limit-per-response", type=whole_number(1, INT32_MAX),
        metavar="N", help="accepted as by Kafka's tool: the output does not depend on it",
    )  # fmt: skip
    parser.add_argument("--if-not-exists", action="store_true", help="no error if it exists")
    parser.add_argument("--if-exists", action="store_true", help="no error if none exists")
    parser.add_argument("--exclude-internal", action="store_true", help="omit Kafka's own")
    parser.add_argument(
        "--topics-with-overrides", action="store_true", help="only topics with own settings"
    )
    parser.add_argument(
        "--foreign", action="store_true", help="--delete also topics that Kafka created"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="--alter, --delete: show which topics, change none"
    )
    for name, text in REPORTS.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    parser.add_argument(
        "--replica-assignment",
        metavar="ID:ID,...",
        help="of a server: the brokers of each partition that is made, as 1:2,2:1",
    )


def run(arguments: argparse.Namespace) -> int:
    chosen = [action for action in ACTIONS if getattr(arguments, action)]
    if len(chosen) != 1:
        raise WrongOptionsError(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    action = {
        "list": list_topics,
        "describe": describe_topics,
        "create": create,
        "alter": alter,
        "delete": delete,
    }
    is_server = check_directory_or_server(arguments, "--bootstrap-server must be specified")
    check(arguments)
    check_options(chosen[0], arguments)
    try:
        check_numbers(arguments)
        if is_server:
            from kstore.cli import server_topics

            return server_topics.run(chosen[0], arguments)
        mode = "r" if arguments.list or arguments.describe or arguments.dry_run else "a"
        with open_store(arguments, mode, create=arguments.create) as store:
            action[chosen[0]](store, arguments)
    except WrongOptionsError:
        raise
    except KStoreError as error:
        print(f"Error while executing topic command : {error}")
        return 1
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check the combination of options before a directory is opened."""
    changes = arguments.create or arguments.alter or arguments.delete
    if changes and not arguments.topic:
        raise WrongOptionsError('Missing required argument "[topic]"')
    if arguments.dry_run and not (arguments.alter or arguments.delete):
        raise WrongOptionsError("--dry-run goes with --alter or --delete; leave it out")
    asked = arguments.partitions is not None or arguments.config or arguments.delete_config
    if arguments.alter and not asked:
        raise WrongOptionsError(
            'Missing required argument "[partitions]"\n'
            "--alter changes --partitions, --config or --delete-config"
        )
    has_name = arguments.topic or arguments.topic_id
    if arguments.describe and arguments.if_exists and not has_name:
        raise WrongOptionsError("--topic or --topic-id is required to describe a topic")


def check_numbers(arguments: argparse.Namespace) -> None:
    """Raise KStoreError for numbers that no topic has."""
    if arguments.create and arguments.partitions is not None and arguments.partitions < 1:
        raise InvalidConfigError("The partitions must be greater than 0")
    replicas = arguments.replication_factor
    if replicas is not None and replicas != -1 and not 1 <= replicas <= 32_767:
        raise InvalidConfigError("The replication factor must be between 1 and 32767 inclusive")


def describe_topics(store: "Store", arguments: argparse.Namespace) -> None:
    node = node_id(store)
    for name in selected(store, arguments):
        topic = store[name]
        settings = own_settings(topic)
        if arguments.topics_with_overrides:
            if settings:
                print(header(topic, settings))
            continue
        if not is_report(arguments):
            print(header(topic, settings))
        elif not is_reported(arguments, replicas=1, in_sync=1, has_leader=True, min_in_sync=1):
            continue
        empty = EmptyPartitions()
        ends = (
            topic.end_offsets()
            if name in filenames.INTERNAL_TOPICS
            and name != arguments.topic
            and not is_report(arguments)  # which lists its partitions one by one
            else {}
        )
        for partition in topic.partitions:
            if empty.omit(name, is_empty=ends.get(partition) == 0):
                continue
            print(
                f"\tTopic: {name}\tPartition: {partition}\tLeader: {node}\tReplicas: {node}"
                f"\tIsr: {node}\tElr: \tLastKnownElr: "
            )
        for line in empty.lines(f"shown with --topic {name}"):
            print(f"\t{line}")


def header(topic: "Topic", settings: str) -> str:
    identity = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
    return (
        f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: 1\tConfigs: {settings}"
    )


def own_settings(topic: "Topic") -> str:
    return ",".join(f"{name}={value}" for name, value in own_properties(topic).items())


def create(store: "Store", arguments: argparse.Namespace) -> None:
    from kstore.config import LogConfig

    name = arguments.topic
    if arguments.replica_assignment is not None:
        raise WrongOptionsError(
            "--replica-assignment: a directory holds one replica of a partition"
        )
    if arguments.replication_factor not in (None, 1, -1):
        raise WrongOptionsError(
            f"--replication-factor {arguments.replication_factor}: a directory holds one replica "
            "of a partition; leave the option out"
        )
    if arguments.if_not_exists and name in store:
        return
    settings = settings_of(arguments)
    partitions = 1 if arguments.partitions is None else arguments.partitions
    warn_of_collisions(name)
    store.create_topic(
        name,
        partitions,
        config=LogConfig.from_properties(settings) if settings else None,
        topic_id=arguments.topic_id,
    )
    print(f"Created topic {name}.")


def alter(store: "Store", arguments: argparse.Namespace) -> None:
    """Change topics; check all changes first, so that an invalid one leaves all topics
    unchanged."""
    if arguments.replica_assignment is not None:
        raise WrongOptionsError(
            "--replica-assignment: a directory holds one replica of a partition"
        )
    settings = settings_of(arguments)
    unset = [name.strip() for text in arguments.delete_config for name in text.split(",")]
    names = changed(store, arguments)
    for name in names:
        topic = store[name]
        topic.config.merge(settings, unset, store.config.log)
        if arguments.partitions is not None and arguments.partitions <= len(topic):
            raise InvalidConfigError(
                f"The topic {name} currently has {len(topic)} partition(s); "
                f"{arguments.partitions} would not be an increase."
            )
    for name in names:
        if arguments.dry_run:
            print(f"Topic {name} would be altered.")
            continue
        if arguments.partitions is not None:  # first, because only this can still fail
            store.add_partitions(name, arguments.partitions)
        if settings or unset:
            store.alter_topic(name, config=settings, unset=unset)


def delete(store: "Store", arguments: argparse.Namespace) -> None:
    is_lost = arguments.topic is not None and lost_sentence(store, arguments.topic) != ""
    for name in [arguments.topic] if is_lost else changed(store, arguments):
        if arguments.dry_run:
            count = 0 if is_lost else len(store[name])
            print(f"Topic {name} would be deleted ({count_of(count, 'partition')}).")
            continue
        store.delete_topic(name, foreign=arguments.foreign)
