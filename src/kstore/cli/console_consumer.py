"""``kstore console-consumer``: Kafka's kafka-console-consumer on a directory or a server."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kstore.arguments import TIME_FORMS, parse_time, read_properties, whole_number
from kstore.cli.client_properties import (
    add_client_options,
    client_properties,
    report_without_effect,
)
from kstore.cli.common import (
    Output,
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    complain,
    flag,
    matching_topics,
    named_topic,
    open_directory_or_server,
    properties,
)
from kstore.cli.deserializers import UnprintableRecordError
from kstore.cli.formatters import (
    FORMATTER_PROPERTIES,
    RecordFormatter,
    make_formatter,
)
from kstore.cli.group_settings import GROUP_SETTINGS, member_options
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.client.consumer import Consumer
    from kstore.client.consumer_batch import ConsumerBatch
    from kstore.record import Record
    from kstore.remote.consumer import RemoteBatch, RemoteConsumer
    from kstore.remote.group_consumer import GroupConsumer
    from kstore.remote.store import RemoteStore
    from kstore.store.store import Store

CONSUMER_PROPERTIES = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.id",
    "isolation.level",
)
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_IDLE = 0.2  # seconds to wait for more records before printing
EPILOG = """\
examples:
  kstore console-consumer --topic orders --from-beginning --log-dir data
  kstore console-consumer --topic orders --partition 0 --offset 1000 --max-messages 10 \\
      --formatter-property print.offset=true --formatter-property print.key=true --log-dir data
  kstore console-consumer --topic orders --from-time 2026-01-31T10:00:00Z --timeout-ms 1000 \\
      --log-dir data | grep paid
  kstore console-consumer --topic numbers --from-beginning --log-dir data \\
      --value-deserializer org.apache.kafka.common.serialization.LongDeserializer

Prints records appended from now on, forever, unless an option says otherwise (Ctrl-C ends it).
Properties of the formatter, with their defaults:
  print.timestamp=false  print.partition=false  print.offset=false  print.epoch=false
  print.headers=false  print.key=false  print.value=true  key.separator=\\t
  line.separator=\\n  headers.separator=,  null.literal=null  key.deserializer=
  value.deserializer=  headers.deserializer= (none: the bytes as they are)
Deserializers are Kafka's, without Java: Short-, Integer-, Long-, Float-, Double-, Boolean-, UUID-,
String- and ByteArrayDeserializer. Formatters: DefaultMessageFormatter, NoOpMessageFormatter,
LoggingMessageFormatter, and for internal topics, as JSON lines, OffsetsMessageFormatter,
GroupMetadataMessageFormatter and TransactionLogMessageFormatter. Properties of the consumer
(--command-property): group.id, auto.offset.reset, enable.auto.commit, isolation.level, of a member
of a server's group also group.instance.id, group.protocol, group.remote.assignor,
heartbeat.interval.ms, max.poll.interval.ms, partition.assignment.strategy, session.timeout.ms.
Others of Kafka's consumers have no effect.
Of a directory, works beside a running broker or writer, and changes nothing but the offsets of
--group. Of a server, --group joins the group (by default with the assignor range). It commits what
was printed every five seconds, at a rebalance and at the end.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir_or_server(parser, has_client_options=True)
    parser.add_argument("--topic", metavar="NAME", help="the topic to read")
    parser.add_argument(
        "--include", "--whitelist", metavar="REGEX", help="or all topics that match"
    )
    parser.add_argument(
        "--partition", type=whole_number(0, INT32_MAX), metavar="N", help="only this partition"
    )
    parser.add_argument(
        "--offset",
        metavar="WHERE",
        help="begin at this offset, at earliest or latest (default: latest); needs --partition",
    )
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help="begin with the oldest record (of a group: where it has no committed offset)",
    )
    parser.add_argument(
        "--from-time",
        metavar="WHEN",
        help=f"begin with the first record at or after a time: {TIME_FORMS}",
    )
    parser.add_argument(
        "--max-messages",
        type=whole_number(-1),
        default=-1,
        metavar="COUNT",
        help="end after this many records (default: -1, never)",
    )
    parser.add_argument(
        "--timeout-ms",
        type=whole_number(-1),
        default=-1,
        metavar="MS",
        help="end after this time without a record (default: -1, never)",
    )
    parser.add_argument(
        "--group", metavar="ID", help="continue at the group's committed offsets, and commit"
    )
    parser.add_argument(
        "--isolation-level",
        choices=ISOLATION_LEVELS,
        help="read_committed skips records of open and aborted transactions (default: "
        "read_uncommitted)",
    )
    describe_output(parser)
    add_client_options(parser, "consumer")
    parser.add_argument(
        "--enable-systest-events",
        action="store_true",
        help="print shutdown_complete as the last line, also after a signal or an error",
    )


def describe_output(parser: ToolParser) -> None:
    """Add the options that control how a record is printed."""
    parser.add_argument(
        "--formatter-property",
        "--property",
        action="append",
        default=[],
        dest="properties",
        metavar="NAME=VALUE",
        help="what is printed of a record; see below",
    )
    parser.add_argument(
        "--formatter-config",
        metavar="FILE",
        help="a file of such properties; options take precedence",
    )
    parser.add_argument(
        "--formatter",
        default="DefaultMessageFormatter",
        metavar="CLASS",
        help="one of the formatters below (default: DefaultMessageFormatter)",
    )
    for what in ("key", "value"):
        parser.add_argument(
            f"--{what}-deserializer", metavar="CLASS", help=f"how the {what} is printed; see below"
        )
    parser.add_argument(
        "--skip-message-on-error",
        action="store_true",
        help="skip a record that the formatter or a deserializer does not take",
    )


def run(arguments: argparse.Namespace) -> int:
    check_directory_or_server(arguments)
    apply_settings(arguments)
    check(arguments)
    render = formatter(arguments).render
    when = arguments.from_time
    begin = None if when is None else parse_time(when, "--from-time")
    printed = [0]
    try:
        with (
            open_directory_or_server(arguments, client_id="console-consumer") as store,
            Output() as output,
            open_consumer(store, arguments) as consumer,
        ):
            seek(consumer, arguments, begin)

            def show(record: "Record", partition: int) -> None:
                try:
                    output.write(render(record, partition))
                except UnprintableRecordError as error:
                    if not arguments.skip_message_on_error:
                        raise UnprintableRecordError(
                            f"{error.reason}; --skip-message-on-error skips such records: "
                            f"partition {partition}",
                            offset=record.offset,
                        ) from error

            consume(consumer, arguments, show, output, printed)
    finally:
        complain(f"Processed a total of {printed[0]} messages")
        if arguments.enable_systest_events:
            print("shutdown_complete", flush=True)
    return 0


def formatter(arguments: argparse.Namespace) -> RecordFormatter:
    """The formatter of the options; as in Kafka, --key-deserializer overrides the property."""
    values = read_properties(arguments.formatter_config)
    given = (*(f"{name}={value}" for name, value in values.items()), *arguments.properties)
    values = properties(given, FORMATTER_PROPERTIES)
    for name, value in (
        ("key.deserializer", arguments.key_deserializer),
        ("value.deserializer", arguments.value_deserializer),
    ):
        if value is not None:
            values[name] = value
    return make_formatter(arguments.formatter, values)


def apply_settings(arguments: argparse.Namespace) -> None:
    """Apply the settings of --command-property and --command-config by Kafka's rules."""
    arguments.connection = None if arguments.bootstrap_server is None else {}
    of_server = () if arguments.bootstrap_server is None else GROUP_SETTINGS
    given = client_properties(
        arguments.consumer,
        arguments.consumer_config,
        (*CONSUMER_PROPERTIES, *of_server),
        arguments.connection,
    )
    group = given.get("group.id")
    if group and arguments.group and group != arguments.group:
        raise WrongOptionsError(
            "The group ids of '--group' and of '--command-property' or '--command-config' do not "
            f"match. Detected group ids: '{arguments.group}', '{group}'"
        )
    arguments.group = arguments.group or group
    arguments.member = member_options(given)
    if not arguments.group and (unused := [name for name in GROUP_SETTINGS if name in given]):
        report_without_effect(unused, "there is no --group")
    arguments.commits = flag(given, "enable.auto.commit", default=True)
    reset = given.get("auto.offset.reset", "latest")
    if reset not in ("earliest", "latest"):
        raise WrongOptionsError(f"auto.offset.reset is earliest or latest, not {reset[:40]!r}")
    if arguments.from_beginning and given.get("auto.offset.reset") == "latest":
        raise WrongOptionsError(
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', "
            "please remove one option"
        )
    arguments.reset = "earliest" if arguments.from_beginning else reset
    isolation = arguments.isolation_level or given.get("isolation.level", ISOLATION_LEVELS[0])
    if isolation not in ISOLATION_LEVELS:
        raise WrongOptionsError(
            f"isolation.level is one of {', '.join(ISOLATION_LEVELS)}, not {isolation[:40]!r}"
        )
    arguments.isolation_level = isolation


def check(arguments: argparse.Namespace) -> None:
    """Check the options by Kafka's rules."""
    if bool(arguments.topic) == bool(arguments.include):
        raise WrongOptionsError("Exactly one of --include/--topic is required. ")
    if arguments.partition is not None and not arguments.topic:
        raise WrongOptionsError("The topic is required when partition is specified.")
    if arguments.from_beginning and arguments.offset is not None:
        raise WrongOptionsError("Options from-beginning and offset cannot be specified together.")
    if arguments.offset is not None and arguments.partition is None:
        raise WrongOptionsError("The partition is required when offset is specified.")
    if arguments.group and arguments.partition is not None:
        raise WrongOptionsError("Options group and partition cannot be specified together.")
    if arguments.group and arguments.bootstrap_server and arguments.from_time:
        raise WrongOptionsError(
            "--from-time does not go with --group and --bootstrap-server; 'kstore consumer-groups "
            "--reset-offsets --to-datetime' moves a group"
        )
    if arguments.from_time and (arguments.offset is not None or arguments.from_beginning):
        raise WrongOptionsError("Option from-time determines the start; omit the other option.")
    where = arguments.offset
    if where not in (None, "earliest", "latest"):
        try:
            parse_whole_number(where)
        except InvalidConfigError:
            raise WrongOptionsError(
                f"The provided offset value '{where[:40]}' is incorrect. Valid values are "
                "'earliest', 'latest', or a non-negative long."
            ) from None


def open_consumer(
    store: "Store | RemoteStore", arguments: argparse.Namespace
) -> "Consumer | RemoteConsumer | GroupConsumer":
    if arguments.group and arguments.bootstrap_server:
        return open_member(cast("RemoteStore", store), arguments)
    if arguments.topic:
        topic = named_topic(store, arguments.topic)
        partitions = topic.partitions
        if arguments.partition is not None:
            partitions = (arguments.partition,)
        assignment = [(arguments.topic, partition) for partition in partitions]
    else:
        names = matching_topics(store, arguments.include)
        assignment = [(name, partition) for name in names for partition in store[name].partitions]
    group = {"group": arguments.group} if arguments.group else {}
    return store.consumer(
        **group,
        assignment=assignment,
        auto_offset_reset=arguments.reset,
        isolation_level=arguments.isolation_level,
    )


def open_member(store: "RemoteStore", arguments: argparse.Namespace) -> "GroupConsumer":
    """A member of --group on a server, which also subscribes to matching topics created later."""
    name = named_topic(store, arguments.topic).name if arguments.topic else None

    def topics() -> list[str]:
        if name is None:
            return matching_topics(store, arguments.include, internal=False)
        return [name]

    return store.group_consumer(
        arguments.group,
        topics,
        auto_offset_reset=arguments.reset,
        isolation_level=arguments.isolation_level,
        **arguments.member,
    )


def seek(
    consumer: "Consumer | RemoteConsumer | GroupConsumer",
    arguments: argparse.Namespace,
    begin: int | None,
) -> None:
    """Seek to the start given by --from-time or --offset; not for a member of a server's group."""
    if begin is None and arguments.offset is None:
        return
    consumer = cast("Consumer | RemoteConsumer", consumer)
    if begin is not None:
        consumer.seek_to_time(begin)
    elif arguments.offset == "earliest":
        consumer.seek_to_beginning()
    elif arguments.offset is not None and arguments.offset != "latest":
        for partition in consumer.assignment:
            consumer.seek(partition, int(arguments.offset))


def consume(
    consumer: "Consumer | RemoteConsumer | GroupConsumer",
    arguments: argparse.Namespace,
    show: "Callable[[Record, int], None]",
    output: Output,
    printed: list[int],
) -> None:
    """Print records until --max-messages or --timeout-ms."""
    limit = None if arguments.max_messages < 0 else arguments.max_messages
    patience = None if arguments.timeout_ms < 0 else arguments.timeout_ms / 1000
    last = time.monotonic()
    while limit is None or printed[0] < limit:
        wait = _IDLE if patience is None else min(_IDLE, patience)
        batch: ConsumerBatch | RemoteBatch
        for batch in consumer.batches(timeout=wait):
            for record in batch:
                show(record, batch.partition)
                printed[0] += 1
                if printed[0] == limit:
                    break
            else:
                commit(consumer, output, arguments, batch, batch.stop_offset)
                last = time.monotonic()
                continue
            commit(consumer, output, arguments, batch, record.offset + 1)
            return
        output.flush()
        output.check_reader()
        if patience is not None and time.monotonic() - last >= patience:
            return


def commit(
    consumer: "Consumer | RemoteConsumer | GroupConsumer",
    output: Output,
    arguments: argparse.Namespace,
    batch: "ConsumerBatch | RemoteBatch",
    offset: int,
) -> None:
    """Commit the printed records for --group; records printed but not committed are printed
    again."""
    if arguments.group and arguments.commits:
        output.flush()
        cast("Consumer | GroupConsumer", consumer).commit({(batch.topic, batch.partition): offset})
