"""``kstore consumer-perf``: Kafka's kafka-consumer-perf-test."""

import argparse
import random
import time
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.common import ToolParser, complain, named_topic, open_server
from kstore.cli.java_date_format import JavaDateFormat
from kstore.cli.metric_lines import print_metrics
from kstore.cli.server_options import add_server, check_server
from kstore.integers import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from kstore.remote.group_consumer import GroupConsumer

_MIB = 1024 * 1024
_IDLE = 0.1  # seconds to wait for more records at a time
_CONNECTIONS = "consumer-metrics:"
EPILOG = """\
examples:
  kstore consumer-perf --topic orders --messages 100000 --bootstrap-server localhost:9092

Reads records as a member of a group and prints how many and how fast, as Kafka's tool does; MB is
1048576 bytes of keys and values. It measures this tool, too, a Python program that fetches from
one partition after the other: Kafka's own tool or librdkafka's measure a broker. --print-metrics
prints what kstore's consumer counts, by the names of Kafka's metrics.
"""
_IGNORED = ("threads", "num-fetch-threads", "socket-buffer-size", "fetch-size")


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser, "--consumer.config", has_broker_list=True)
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    parser.add_argument("--messages", required=True, type=whole_number(0, INT64_MAX), metavar="N",
        help="REQUIRED: how many records")  # fmt: skip
    group = f"perf-consumer-{random.randrange(100_000)}"
    parser.add_argument("--group", metavar="ID", default=group,
        help="the group (default: perf-consumer- and a number)")  # fmt: skip
    parser.add_argument("--from-latest", action="store_true",
        help="begin at the end where the group has no offset (default: at the beginning)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=whole_number(0, INT32_MAX), default=10_000, metavar="MS",
        help="end after this time without a record (default: 10000)")  # fmt: skip
    parser.add_argument("--hide-header", action="store_true", help="print no header")
    parser.add_argument("--show-detailed-stats", action="store_true",
        help="print a line for each interval")  # fmt: skip
    parser.add_argument("--reporting-interval", type=whole_number(1, INT32_MAX), default=5000,
        metavar="MS", help="the interval of --show-detailed-stats (default: 5000)")  # fmt: skip
    for name in _IGNORED:
        parser.add_argument(f"--{name}", type=whole_number(0, INT32_MAX), metavar="N",
            help="without effect")  # fmt: skip
    parser.add_argument("--print-metrics", action="store_true",
        help="print the metrics of the consumer at the end")  # fmt: skip
    parser.add_argument("--date-format", metavar="PATTERN", default="yyyy-MM-dd HH:mm:ss:SSS",
        help="how times are printed, a pattern of Java's SimpleDateFormat (default: "
        "yyyy-MM-dd HH:mm:ss:SSS)")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    check_server(arguments)
    arguments.shown = JavaDateFormat(arguments.date_format).shown
    if not arguments.hide_header:
        print(header(detailed=arguments.show_detailed_stats))
    with open_server(arguments, client_id="perf-consumer-client") as store:
        name = named_topic(store, arguments.topic).name
        reset = "latest" if arguments.from_latest else "earliest"
        begun = time.time()
        with store.group_consumer(
            arguments.group, lambda: [name], auto_offset_reset=reset
        ) as consumer:
            measured = consume(consumer, arguments)
        ended = time.time()
    if not arguments.show_detailed_stats:
        shown = arguments.shown
        print(", ".join((shown(begun), shown(ended), *measured.total(ended - begun))))
    if arguments.print_metrics:
        values = store.cluster.metrics.values("consumer", store.client_id)
        # Kafka's tool has closed its connections by now, and their metrics with them.
        print_metrics(
            {name: value for name, value in values.items() if not name.startswith(_CONNECTIONS)}
        )
    return 0


def header(*, detailed: bool) -> str:
    first = "time, threadId" if detailed else "start.time, end.time"
    return (
        f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )


class Measured:
    """Counts of records read, in total and since the last line."""

    def __init__(self) -> None:
        self.count = self.size = 0
        self.rebalance = 0.0  # seconds spent joining the group
        self._last = (0, 0)
        self._last_at = time.monotonic()

    def total(self, seconds: float) -> tuple[str, ...]:
        """The columns of the last line."""
        return self._columns(self.count, self.size, seconds, max(0.0, seconds - self.rebalance))

    def interval(self) -> tuple[str, ...]:
        """The columns of a line about the time since the one before."""
        now = time.monotonic()
        seconds, (count, size) = now - self._last_at, self._last
        self._last, self._last_at = (self.count, self.size), now
        return self._columns(self.count - count, self.size - size, seconds, seconds)

    def _columns(self, count: int, size: int, seconds: float, fetching: float) -> tuple[str, ...]:
        mib = size / _MIB

        def rate(amount: float, period: float) -> str:
            return f"{amount / period:.4f}" if period > 0 else "0.0000"

        return (
            f"{self.size / _MIB:.4f}", rate(mib, seconds), f"{self.count}", rate(count, seconds),
            f"{self.rebalance * 1000:.0f}", f"{fetching * 1000:.0f}", rate(mib, fetching),
            rate(count, fetching),
        )  # fmt: skip


def consume(consumer: "GroupConsumer", arguments: argparse.Namespace) -> Measured:
    """Read until enough records have arrived, or none for --timeout."""
    measured = Measured()
    last = time.monotonic()
    interval = arguments.reporting_interval / 1000
    next_line = last + interval
    while measured.count < arguments.messages:
        for batch in consumer.batches(_IDLE):
            measured.count += len(batch.records)
            measured.size += sum(len(each.key or b"") + len(each.value or b"") for each in batch)
            consumer.commit({(batch.topic, batch.partition): batch.stop_offset})
            last = time.monotonic()
            if measured.count >= arguments.messages:
                break
        if consumer.joining_time > measured.rebalance:
            measured.rebalance = consumer.joining_time
            last = time.monotonic()
        now = time.monotonic()
        if arguments.show_detailed_stats and now >= next_line:
            print(", ".join((arguments.shown(time.time()), "0", *measured.interval())), flush=True)
            next_line = now + interval
        if now - last >= arguments.timeout / 1000:
            complain(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({arguments.timeout} ms) exceeded. You can use the --timeout option to increase "
                "the timeout."
            )
            break
    return measured
