"""``kstore console-consumer``: Kafka's kafka-console-consumer on a directory."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.arguments import TIME_FORMS, parse_time, whole_number
from kstore.cli.common import (
    Output,
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    complain,
    flag,
    matching_topics,
    named_topic,
    open_store,
    properties,
    unescape,
)
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.client.consumer import Consumer, ConsumerBatch
    from kstore.record import Record
    from kstore.store.store import Store

FORMATTER_PROPERTIES = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
)
_IDLE = 0.2  # seconds to wait for more records before printing
EPILOG = """\
examples:
  kstore console-consumer --topic orders --from-beginning --log-dir data
  kstore console-consumer --topic orders --partition 0 --offset 1000 --max-messages 10 \\
      --formatter-property print.offset=true --formatter-property print.key=true --log-dir data
  kstore console-consumer --topic orders --from-time 2026-01-31T10:00:00Z --timeout-ms 1000 \\
      --log-dir data | grep paid

Prints records appended from now on, forever, unless an option says otherwise (Ctrl-C ends it).
Properties of the formatter, with their defaults:
  print.timestamp=false  print.partition=false  print.offset=false  print.epoch=false
  print.headers=false  print.key=false  print.value=true  key.separator=\\t
  line.separator=\\n  headers.separator=,  null.literal=null
Works beside a running broker or writer, and changes nothing but the offsets of --group.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir(parser)
    parser.add_argument("--topic", metavar="NAME", help="the topic to read")
    parser.add_argument("--include", metavar="REGEX", help="or all topics that match")
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
        choices=["read_uncommitted", "read_committed"],
        default="read_uncommitted",
        help="read_committed skips records of open and aborted transactions",
    )
    parser.add_argument(
        "--formatter-property",
        "--property",
        action="append",
        default=[],
        dest="formatter",
        metavar="NAME=VALUE",
        help="what is printed of a record; see below",
    )


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    render = Formatter(properties(arguments.formatter, FORMATTER_PROPERTIES)).render
    when = arguments.from_time
    begin = None if when is None else parse_time(when, "--from-time")
    printed = [0]
    try:
        with (
            open_store(arguments) as store,
            Output() as output,
            open_consumer(store, arguments) as consumer,
        ):
            seek(consumer, arguments, begin)

            def show(record: "Record", partition: int) -> None:
                output.write(render(record, partition))

            consume(consumer, arguments, show, output, printed)
    finally:
        complain(f"Processed a total of {printed[0]} messages")
    return 0


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
    if arguments.from_time and (arguments.offset is not None or arguments.from_beginning):
        raise WrongOptionsError("Option from-time says where to begin; leave the other one out.")
    where = arguments.offset
    if where not in (None, "earliest", "latest"):
        try:
            parse_whole_number(where)
        except InvalidConfigError:
            raise WrongOptionsError(
                f"The provided offset value '{where[:40]}' is incorrect. Valid values are "
                "'earliest', 'latest', or a non-negative long."
            ) from None


def open_consumer(store: "Store", arguments: argparse.Namespace) -> "Consumer":
    reset = "earliest" if arguments.from_beginning else "latest"
    if arguments.topic:
        topic = named_topic(store, arguments.topic)
        partitions = topic.partitions
        if arguments.partition is not None:
            partitions = (arguments.partition,)
        assignment = [(arguments.topic, partition) for partition in partitions]
    else:
        names = matching_topics(store, arguments.include)
        assignment = [(name, partition) for name in names for partition in store[name].partitions]
    return store.consumer(
        arguments.group,
        assignment=assignment,
        auto_offset_reset=reset,
        isolation_level=arguments.isolation_level,
    )


def seek(consumer: "Consumer", arguments: argparse.Namespace, begin: int | None) -> None:
    if begin is not None:
        consumer.seek_to_time(begin)
    elif arguments.offset == "earliest":
        consumer.seek_to_beginning()
    elif arguments.offset is not None and arguments.offset != "latest":
        for partition in consumer.assignment:
            consumer.seek(partition, int(arguments.offset))


def consume(
    consumer: "Consumer",
    arguments: argparse.Namespace,
    show: "Callable[[Record, int], None]",
    output: Output,
    printed: list[int],
) -> None:
    """Print records until --max-messages or --timeout-ms ends it."""
    limit = None if arguments.max_messages < 0 else arguments.max_messages
    patience = None if arguments.timeout_ms < 0 else arguments.timeout_ms / 1000
    last = time.monotonic()
    while limit is None or printed[0] < limit:
        wait = _IDLE if patience is None else min(_IDLE, patience)
        batches = consumer.batches(timeout=wait)
        for batch in batches:
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
    consumer: "Consumer",
    output: Output,
    arguments: argparse.Namespace,
    batch: "ConsumerBatch",
    offset: int,
) -> None:
    """Commit for --group the records written; a tool ended before prints them again."""
    if arguments.group:
        output.flush()
        consumer.commit({(batch.topic, batch.partition): offset})


class Formatter:
    """Kafka's DefaultMessageFormatter: the fields that were asked for, in Kafka's order."""

    def __init__(self, values: dict[str, str]) -> None:
        def text(name: str, default: str) -> bytes:
            return unescape(values.get(name, default)).encode()

        self.separator = text("key.separator", "\t")
        self.end = text("line.separator", "\n")
        self.headers_separator = text("headers.separator", ",")
        self.null = text("null.literal", "null")
        shown = {
            "print.timestamp": self.timestamp,
            "print.partition": lambda record, partition: b"Partition:%d" % partition,
            "print.offset": lambda record, partition: b"Offset:%d" % record.offset,
            "print.epoch": lambda record, partition: b"Epoch:%d" % record.leader_epoch,
            "print.headers": self.headers,
            "print.key": lambda record, partition: self.nullable(record.key),
            "print.value": lambda record, partition: self.nullable(record.value),
        }
        self.fields: list[Callable[[Record, int], bytes]] = [
            function for name, function in shown.items() if flag(values, name, name[6:] == "value")
        ]

    def render(self, record: "Record", partition: int) -> bytes:
        return self.separator.join(field(record, partition) for field in self.fields) + self.end

    def nullable(self, data: bytes | None) -> bytes:
        return self.null if data is None else data

    def timestamp(self, record: "Record", partition: int) -> bytes:
        del partition
        if record.timestamp_type == "NoTimestampType":
            return b"NO_TIMESTAMP"
        return f"{record.timestamp_type}:{record.timestamp}".encode()

    def headers(self, record: "Record", partition: int) -> bytes:
        del partition
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self.nullable(value) for name, value in record.headers
        )
