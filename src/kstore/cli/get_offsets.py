"""``kstore get-offsets``: Kafka's GetOffsetShell on a directory or a server."""

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kstore.arguments import TIME_FORMS, parse_time, partition_numbers
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_broker_list,
    add_log_dir_or_server,
    matching_topics,
    open_directory_or_server,
)
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError, KStoreError
from kstore.integers import INT64_MAX

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.remote.remote_log import RemoteLog
    from kstore.remote.store import RemoteStore

Wanted = Callable[[str, int], bool]

_TIMES = {
    "-1": "latest",
    "-2": "earliest",
    "-3": "max-timestamp",
    "-4": "earliest-local",
    "-5": "latest-tiered",
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]+)|([0-9]*)-([0-9]*))?)?")
_NONE = "Could not match any topic-partitions with the specified filters"
EPILOG = """\
examples:
  kstore get-offsets --log-dir data
  kstore get-offsets --topic orders --partitions 0,1 --time earliest --log-dir data
  kstore get-offsets --topic-partitions 'orders:0-2,.*:3-' --time 1700000000000 --log-dir data
  kstore get-offsets --topic orders --time 2026-01-31 --log-dir data
  kstore get-offsets --topic orders --bootstrap-server localhost:9092

One line for each partition: topic:partition:offset. With a time it is the offset of the first
record at or after it; a partition without one is omitted. As in Kafka's tool, internal topics are
included, with all their partitions, unless --exclude-internal-topics is given. Works beside a
running broker or writer.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--group"] = "'kstore consumer-groups --describe' shows the offsets of a group"
    add_log_dir_or_server(parser)
    add_broker_list(parser)
    parser.add_argument("--topic", metavar="REGEX", help="topics to show (default: all)")
    parser.add_argument("--partitions", metavar="N,N,...", help="partitions to show")
    parser.add_argument(
        "--topic-partitions",
        metavar="RULES",
        help="topic:N, topic:N-M (M not included), topic:N-, topic:-M, topic, separated by "
        "commas; topics are regular expressions. Not together with the two above",
    )
    parser.add_argument(
        "--time",
        default="latest",
        metavar="WHEN",
        help="-1 or latest, -2 or earliest, -3 or max-timestamp, -4 or earliest-local, -5 or "
        f"latest-tiered, or a time: {TIME_FORMS} (default: latest)",
    )
    parser.add_argument(
        "--exclude-internal-topics", action="store_true", help="omit Kafka's internal topics"
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        print_offsets(arguments)
    except FileNotFoundError as error:
        raise KStoreError(f"Error occurred: {error.filename}\nthere is no such file") from error
    except KStoreError as error:
        raise KStoreError(f"Error occurred: {error}") from error
    return 0


def print_offsets(arguments: argparse.Namespace) -> None:
    """A line for each partition; of a server, without those that have an error, which stderr names.
    Raises KStoreError if there is none."""
    from kstore.remote.store import RemoteStore

    wanted = wanted_places(arguments)
    find = offset_finder(arguments.time)
    found = False
    internal = not arguments.exclude_internal_topics
    with open_directory_or_server(arguments) as store:
        for name in matching_topics(store, arguments.topic, internal=internal):
            for partition in store[name].partitions:
                if wanted(name, partition):
                    found = True
                    try:
                        offset = find(store[name][partition])
                    except KStoreError as error:
                        if not isinstance(store, RemoteStore):
                            raise
                        skip(store, f"{name}-{partition}", error)
                        continue
                    if offset is not None:
                        print(f"{name}:{partition}:{offset}")
    if not found:
        raise KStoreError(_NONE)


def skip(store: "RemoteStore", partition: str, error: KStoreError) -> None:
    """Name a partition whose offset a server does not give, as Kafka's tool does, so that it does
    not hide the others. These need not be waited for: they had the time of this one."""
    print(
        f"Skip getting offsets for topic-partition {partition} due to error: {error.reason}",
        file=sys.stderr,
    )
    store.cluster.has_patience = False


def wanted_places(arguments: argparse.Namespace) -> Wanted:
    """The filter for partitions that the options describe."""
    if arguments.topic_partitions is None:
        numbers = arguments.partitions
        if not numbers:
            return lambda name, partition: True
        try:
            chosen = set(partition_numbers(numbers))
        except InvalidConfigError as error:
            raise WrongOptionsError(
                "--partitions expects a comma separated list of numeric partition ids, but "
                f"received: {numbers[:80]}"
            ) from error
        return lambda name, partition: partition in chosen
    if arguments.topic is not None or arguments.partitions is not None:
        raise WrongOptionsError("--topic-partitions cannot be used with --topic or --partitions")
    rules = [rule(text) for text in arguments.topic_partitions.split(",")]
    return lambda name, partition: any(each(name, partition) for each in rules)


def rule(text: str) -> Wanted:
    """Parse one rule of --topic-partitions."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise WrongOptionsError(f"Invalid rule specification: {text[:80]}")
    try:
        topic = re.compile(found[1] or ".*")
    except re.error as error:
        raise WrongOptionsError(f"{found[1]} is an invalid regex.\n{error}") from None
    low, high = (parse_whole_number(each or "0") for each in (found[2] or found[3], found[4]))
    if found[2]:
        high = low + 1
    elif not found[4]:
        high = INT64_MAX
    return lambda name, partition: topic.fullmatch(name) is not None and low <= partition < high


def offset_finder(text: str) -> "Callable[[Log | RemoteLog], int | None]":
    """The function for --time, which returns a log's offset or None."""
    name = _TIMES.get(text, text)
    if name == "latest":
        return lambda log: log.end_offset
    if name in ("earliest", "earliest-local"):
        return lambda log: log.start_offset
    if name == "max-timestamp":
        return newest
    if name == "latest-tiered":
        return newest_tiered
    try:
        when = parse_time(text, "--time")
    except InvalidConfigError as error:
        raise WrongOptionsError(
            f"Malformed time argument {text[:40]}. Please use -1 or latest / -2 or earliest / -3 "
            "or max-timestamp / -4 or earliest-local / -5 or latest-tiered, or a specified long "
            f"format timestamp\n{error}"
        ) from None
    return lambda log: at_or_after(log, when)


def newest(log: "Log | RemoteLog") -> int | None:
    """The offset of the record with the largest timestamp, None if there are no records."""
    from kstore.partition_files import newest_offset

    ask_server = getattr(log, "newest_offset", None)
    return newest_offset(cast("Log", log)) if ask_server is None else cast(int | None, ask_server())


def newest_tiered(log: "Log | RemoteLog") -> int | None:
    """The end of what a server has in tiered storage; None without any, as in a directory."""
    ask_server = getattr(log, "tiered_offset", None)
    return None if ask_server is None else cast("int | None", ask_server())


def at_or_after(log: "Log | RemoteLog", timestamp: int) -> int | None:
    """The offset of the first record at or after a time, None if there is none."""
    end = log.end_offset
    offset = log.offset_at(timestamp)
    return offset if offset < end else None
