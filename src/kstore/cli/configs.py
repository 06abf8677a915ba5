"""``kstore configs``: Kafka's kafka-configs on a directory, which has only topics as entities.

Of a server, also brokers, their loggers, groups and more: :mod:`kstore.cli.server_configs`; users,
clients and ips: :mod:`kstore.cli.server_quotas`.
"""

import argparse
import re
from typing import TYPE_CHECKING

from kstore.arguments import read_properties
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    exclusive,
    named_topic,
    open_store,
)
from kstore.cli.controller_options import (
    ONLY_OF_BROKERS,
    add_bootstrap_controller,
    open_controller,
    refuse_controller,
)
from kstore.cli.entity_options import EntityOption, add_entity_options, entities_of
from kstore.cli.topic_options import own_properties
from kstore.config import LogConfig, setting_attribute, setting_text
from kstore.errors import InvalidConfigError, KStoreError

if TYPE_CHECKING:
    from kstore.store.store import Store
    from kstore.store.topic import Topic

EPILOG = """\
examples:
  kstore configs --describe --entity-type topics --entity-name orders --log-dir data
  kstore configs --describe --topic orders --all --log-dir data
  kstore configs --alter --topic orders --add-config retention.ms=86400000,segment.bytes=1048576 \\
      --log-dir data
  kstore configs --describe --entity-type brokers --entity-name 0 \\
      --bootstrap-server localhost:9092
  kstore configs --alter --user alice --add-config producer_byte_rate=1048576 \\
      --bootstrap-server localhost:9092
  kstore configs --alter --entity-type groups --entity-name billing \\
      --add-config consumer.session.timeout.ms=50000 --bootstrap-server localhost:9092
  kstore configs --alter --topic accounts --add-config 'cleanup.policy=[compact,delete]' \\
      --delete-config retention.ms --log-dir data

--describe works beside a running broker or writer, and shows the settings that differ from the
defaults; --all shows every setting. --alter must be the only writer of the directory; the settings
that it does not name stay as they are. A broker keeps the settings of its topics elsewhere: those
that are set here apply to kstore only. --dry-run checks a change without making it.
"""
# Broker-level synonyms of topic settings that are not "log." + name.
_OF_BROKER = {
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "producer.id.expiration.ms": "producer.id.expiration.ms",
    "batch.size": "batch.size",
    "batch.compression": "batch.compression",
}
_PAIR = re.compile(r"\s*([^=,\s]+)\s*=\s*(?:\[([^\]]*)\]|([^,]*))\s*(?:,|$)")
_NO_ZOOKEEPER = (
    "kstore does not ask ZooKeeper: name a broker by --bootstrap-server host:port, which keeps the "
    "settings of brokers and users, or a directory by --log-dir"
)
# The entity types of a server that are not quotas, and the ones of Kafka's tool.
SERVER_TYPES = ("topics", "brokers", "broker-loggers", "client-metrics", "groups")
_ALL_TYPES = "topics, clients, users, brokers, ips, broker-loggers, client-metrics"


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir_or_server(parser)
    add_bootstrap_controller(parser)
    parser.hints["--zookeeper"] = _NO_ZOOKEEPER
    parser.hints["--zk-tls-config-file"] = _NO_ZOOKEEPER
    parser.add_argument("--describe", action="store_true", help="show settings")
    parser.add_argument("--alter", action="store_true", help="change settings")
    parser.add_argument("--all", action="store_true", help="--describe: also those at the default")
    parser.add_argument("--entity-type", action=EntityOption, metavar="TYPE",
        help="topics; on a server also brokers, broker-loggers, client-metrics, groups, users, "
        "clients, ips")  # fmt: skip
    parser.add_argument(
        "--entity-name", "--topic", action=EntityOption, metavar="NAME",
        help="the topic (--describe: default all), broker, group, user, client id or address",
    )  # fmt: skip
    add_entity_options(parser)
    parser.add_argument(
        "--add-config",
        metavar="NAME=VALUE[,NAME=VALUE...]",
        help="--alter: settings to change; a value with commas stands in brackets: "
        "'cleanup.policy=[compact,delete]'",
    )
    parser.add_argument(
        "--add-config-file", metavar="FILE", help="--alter: a file with a NAME=VALUE on each line"
    )
    parser.add_argument(
        "--delete-config", metavar="NAME[,NAME...]", help="--alter: settings to reset"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="--alter: check the change and do not make it"
    )
    parser.add_argument(
        "--force", action="store_true", help="without effect: no change is asked about"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.bootstrap_controller is not None:
        return run_at_controller(arguments)
    is_server = check_directory_or_server(
        arguments, "One of the required --bootstrap-server, --log-dir arguments must be specified"
    )
    entities = entities_of(arguments)
    if entities and not is_server:
        raise WrongOptionsError(
            "a directory has topics only; users, clients and ips are those of a server"
        )
    check(
        arguments,
        SERVER_TYPES if is_server else ("topics",),
        is_named=bool(entities),
    )
    if entities:
        from kstore.cli import server_quotas

        return server_quotas.run(arguments, entities, added(arguments), deleted(arguments))
    if is_server:
        from kstore.cli import server_configs

        return server_configs.run(arguments, added(arguments), deleted(arguments))
    if arguments.describe:
        with open_store(arguments) as store:
            name = arguments.entity_name
            for topic in list(store.values()) if name is None else [named_topic(store, name)]:
                print_settings(store, topic, everything=arguments.all)
        return 0
    changes, unset = added(arguments), deleted(arguments)
    LogConfig().merge(changes, unset, LogConfig())  # refused before the directory is opened
    with open_store(arguments, "r" if arguments.dry_run else "a") as store:
        alter(store, named_topic(store, arguments.entity_name), changes, unset, arguments.dry_run)
    return 0


def run_at_controller(arguments: argparse.Namespace) -> int:
    """Refuse --bootstrap-controller: with Kafka's sentences, except for a controller."""
    if arguments.bootstrap_server is not None:
        raise WrongOptionsError(
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be "
            "specified"  # Kafka's spelling
        )
    if arguments.log_dir:
        raise exclusive("log_dir", "bootstrap_controller")
    entities = entities_of(arguments)
    check(arguments, SERVER_TYPES, is_named=bool(entities))
    listed = arguments.entity_name is None and arguments.entity_type in ("topics", "client-metrics")
    if entities or listed:
        raise KStoreError(ONLY_OF_BROKERS)
    if arguments.describe and arguments.entity_name is not None:
        from kstore.cli.server_configs import heading

        print(heading(arguments.entity_type, arguments.entity_name, everything=arguments.all))
    open_controller(arguments)[0].close()
    raise refuse_controller("for settings")


def check(
    arguments: argparse.Namespace, entity_types: tuple[str, ...], *, is_named: bool = False
) -> None:
    """Check the options by the rules of Kafka's ConfigCommand."""
    if arguments.describe == arguments.alter:
        raise WrongOptionsError("Command must include exactly one action: --describe, --alter")
    if arguments.describe:
        for name in ("add_config", "delete_config"):
            if getattr(arguments, name) is not None:
                raise exclusive("describe", name)
        if arguments.dry_run or arguments.add_config_file is not None:
            raise WrongOptionsError("--add-config-file and --dry-run go with --alter")
    if not is_named and arguments.entity_type not in (None, *entity_types):
        raise WrongOptionsError(
            f"Invalid entity type {arguments.entity_type[:40]}, the entity type must be one of "
            + (
                "topics: a directory has no others"
                if entity_types == ("topics",)
                else f"{_ALL_TYPES}, groups with a --bootstrap-server or --bootstrap-controller "
                "argument"
            )
        )
    if not is_named and arguments.entity_type is None and entity_types == SERVER_TYPES:
        raise WrongOptionsError("At least one entity type must be specified")
    check_entity_name(arguments)
    if arguments.describe:
        return
    if arguments.all:
        raise WrongOptionsError("--all goes with --describe")
    if not is_named and arguments.entity_name is None:
        kind = arguments.entity_type or "topics"
        if kind == "brokers":
            raise WrongOptionsError(
                "an entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
        raise WrongOptionsError(f"an entity name must be specified with --alter of {kind}")
    changes = (arguments.add_config, arguments.add_config_file, arguments.delete_config)
    if all(each is None for each in changes):
        raise WrongOptionsError(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )
    if arguments.add_config is not None and arguments.add_config_file is not None:
        raise WrongOptionsError("Only one of --add-config or --add-config-file must be specified")


def check_entity_name(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError for a broker that is no number, and a logger without its broker."""
    kind, name = arguments.entity_type, arguments.entity_name
    if kind in ("brokers", "broker-loggers") and name and not name.lstrip("-").isdecimal():
        raise WrongOptionsError(
            f"The entity name for {kind} must be a valid integer broker id, but it is: {name[:40]}"
        )
    if kind == "broker-loggers" and not name:
        action = "describe" if arguments.describe else "alter"
        raise WrongOptionsError(f"an entity name must be specified with --{action} of {kind}")


def added(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --add-config or --add-config-file."""
    if arguments.add_config_file is not None:
        return read_properties(arguments.add_config_file)
    return {} if arguments.add_config is None else parse_pairs(arguments.add_config)


def parse_pairs(text: str) -> dict[str, str]:
    """Parse ``name=value,name=[a,b]`` as Kafka's tool does."""
    found = {}
    position = 0
    while position < len(text) or not text:
        pair = _PAIR.match(text, position)
        if pair is None:
            raise WrongOptionsError(
                "requirement failed: Invalid entity config: all configs to be added must be in "
                f'the format "key=val".\nIt is {text[position : position + 40]!r}'
            )
        found[pair[1]] = (pair[3] if pair[2] is None else pair[2]).strip()
        position = pair.end()
    return found


def deleted(arguments: argparse.Namespace) -> list[str]:
    names = (arguments.delete_config or "").split(",")
    return [name.strip() for name in names if name.strip()]


def alter(
    store: "Store", topic: "Topic", changes: dict[str, str], unset: list[str], dry_run: bool
) -> None:
    """Change a topic's settings; as in Kafka, a setting to reset must be set."""
    own = own_properties(topic)
    unknown = [name for name in unset if setting_attribute(name).replace("_", ".") not in own]
    if unknown:
        raise InvalidConfigError(f"Invalid config(s): {','.join(unknown)}")
    topic.config.merge(changes, unset, store.config.log)
    if dry_run:
        print(f"The config for topic {topic.name} would be updated.")
        return
    topic.alter(config=changes, unset=unset)
    print(f"Completed updating config for topic {topic.name}.")


def print_settings(store: "Store", topic: "Topic", *, everything: bool) -> None:
    """Print settings in the format of Kafka's tool; the defaults are kstore's."""
    own = own_properties(topic)
    kind = "All" if everything else "Dynamic"
    print(f"{kind} configs for topic {topic.name} are:")
    for attribute in sorted(LogConfig.__dataclass_fields__):
        name = attribute.replace("_", ".")
        if name not in own and not everything:
            continue
        default = f"DEFAULT_CONFIG:{_OF_BROKER.get(name, f'log.{name}')}="
        default += setting_text(getattr(store.config.log, attribute))
        value = setting_text(getattr(topic.config, attribute))
        dynamic = f"DYNAMIC_TOPIC_CONFIG:{name}={value}, " if name in own else ""
        print(f"  {name}={value} sensitive=false synonyms={{{dynamic}{default}}}")
