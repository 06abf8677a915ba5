"""``kstore producer-perf``: Kafka's kafka-producer-perf-test."""

import argparse
import random
import time
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kstore.arguments import read_properties, whole_number
from kstore.cli.common import ToolParser, WrongOptionsError, open_server, unescape
from kstore.cli.console_producer import producer_options
from kstore.cli.metric_lines import print_metrics
from kstore.cli.timed_transactions import TimedTransactions
from kstore.config import parse_whole_number
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX, INT64_MAX, count_of
from kstore.signals import StopRequest

if TYPE_CHECKING:
    from kstore.client.delivery import Delivery
    from kstore.client.producer import Producer
    from kstore.remote.transactional_producer import RemoteTransactionalProducer

_MIB = 1024 * 1024
_SAMPLES = 500_000  # the maximum number of latencies for the percentiles
_WINDOW = 5.0  # seconds between two lines
_SERVERS = "bootstrap.servers"
_CLIENT_ID = "perf-producer-client"
_TRANSACTIONAL_ID = "performance-producer-default-transactional-id"
_DURATION_MS = 3000  # of transactions that have an id and no duration, as in Kafka 4
EPILOG = """\
examples:
  kstore producer-perf --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
      --producer-props bootstrap.servers=localhost:9092 acks=all compression.type=lz4

Sends records as fast as --throughput allows (records a second; -1: no limit) and prints a line
every five seconds and one at the end, as Kafka's tool does; MB is 1048576 bytes. It measures this
tool, too: a Python program that waits for each batch of a partition before it sends the next one.
Kafka's own tool or librdkafka's measure a broker. Ctrl-C and SIGTERM deliver what was sent, or
abort the transaction that is open. A transaction longer than transaction.timeout.ms of
--producer-props, by default 60000, is aborted, too. --print-metrics prints what kstore's producer
counts, by the names of Kafka's metrics.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    parser.add_argument("--num-records", required=True, type=whole_number(0, INT64_MAX),
        metavar="N", help="REQUIRED: how many records")  # fmt: skip
    parser.add_argument("--throughput", required=True, type=whole_number(-1, INT64_MAX),
        metavar="N", help="REQUIRED: records a second; -1: no limit")  # fmt: skip
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=whole_number(1, INT32_MAX), metavar="BYTES",
        help="random letters, this many in each record")  # fmt: skip
    payload.add_argument("--payload-file", metavar="FILE", help="values of a file, at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="numbers from 0 on")
    parser.add_argument("--payload-delimiter", default="\\n", metavar="TEXT",
        help="what separates the values of --payload-file (default: \\n)")  # fmt: skip
    parser.add_argument("--producer-props", nargs="+", action="extend", default=[],
        metavar="NAME=VALUE", help="settings of the producer, with bootstrap.servers")  # fmt: skip
    parser.add_argument("--command-config", "--producer.config", dest="producer_config",
        metavar="FILE", help="a properties file of such settings")  # fmt: skip
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,HOST:PORT...]",
        help="the broker, if bootstrap.servers is not among the settings")  # fmt: skip
    del parser.hints["--bootstrap-server"], parser.hints["--command-config"]
    parser.add_argument("--print-metrics", action="store_true",
        help="print the metrics of the producer at the end")  # fmt: skip
    parser.add_argument("--transactional-id", metavar="ID",
        help=f"send in transactions of this id (default: {_TRANSACTIONAL_ID}, if only the "
        "duration is given)")  # fmt: skip
    parser.add_argument("--transaction-duration-ms", type=whole_number(0, INT64_MAX), metavar="MS",
        help=f"commit each transaction after this time; 0: send without transactions (default: "
        f"{_DURATION_MS} with an id, otherwise 0)")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    options = settings_of(arguments)
    statistics = Statistics()
    with StopRequest() as stop, open_server(arguments, client_id=_CLIENT_ID) as store:
        if arguments.transaction_duration_ms:
            with store.transactional_producer(
                arguments.topic,
                arguments.transactional_id,
                timeout_ms=arguments.transaction_timeout_ms,
                **options,
            ) as producer:
                seconds = arguments.transaction_duration_ms / 1000
                transactions = TimedTransactions(producer, seconds)
                send(producer, arguments, statistics, stop, transactions)
        else:
            with store.producer(arguments.topic, **options) as producer:
                send(producer, arguments, statistics, stop)
        statistics.report_total()
        if arguments.print_metrics:
            print_metrics(store.cluster.metrics.values("producer", store.client_id))
        statistics.check()
        return 128 + stop.number if stop.number else 0


def send(
    producer: "Producer | RemoteTransactionalProducer",
    arguments: argparse.Namespace,
    statistics: "Statistics",
    stop: StopRequest,
    transactions: TimedTransactions | None = None,
) -> None:
    """Send the records, at most as fast as --throughput; a signal ends them."""
    started = time.monotonic()
    values = payloads(arguments)
    for number in range(arguments.num_records):
        if stop.number:
            break
        value = next(values)
        if transactions is not None:
            transactions.before_record()
        statistics.sent(producer.send(value), len(value))
        if transactions is not None:
            transactions.after_record()
        pace(arguments.throughput, number + 1, started)
    if transactions is not None:
        transactions.end()


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the producer; those of the connection stay in the arguments."""
    if not (arguments.producer_props or arguments.producer_config or arguments.bootstrap_server):
        raise WrongOptionsError("Either --producer-props or --producer.config must be specified.")
    given = read_properties(arguments.producer_config)
    for pair in arguments.producer_props:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongOptionsError(f"Invalid property: {pair[:80]}")
        given[name.strip()] = value
    servers = given.pop(_SERVERS, None) or arguments.bootstrap_server
    if not servers:
        raise WrongOptionsError("--producer-props needs bootstrap.servers=host:port")
    arguments.bootstrap_server = servers
    apply_transactions(arguments, given)
    of_producer = argparse.Namespace(
        bootstrap_server=servers,
        producer=[f"{name}={value}" for name, value in given.items()],
        producer_config=None,
        request_required_acks="all",
        timeout=0,  # Kafka's linger.ms
        batch_size=None,
        compression_codec=None,
    )
    options = producer_options(of_producer)
    arguments.connection = of_producer.connection
    return options


def apply_transactions(arguments: argparse.Namespace, given: dict[str, str]) -> None:
    """Take the settings of transactions from those of the producer; options take precedence."""
    by_property = given.pop("transactional.id", None)
    timeout = given.pop("transaction.timeout.ms", None)
    identifier = arguments.transactional_id or by_property
    if arguments.transaction_duration_ms is None:
        arguments.transaction_duration_ms = _DURATION_MS if identifier else 0
    arguments.transactional_id = identifier or _TRANSACTIONAL_ID
    arguments.transaction_timeout_ms = 60_000
    if timeout is not None:
        arguments.transaction_timeout_ms = parse_whole_number(
            timeout, 1, INT32_MAX, name="transaction.timeout.ms"
        )


def payloads(arguments: argparse.Namespace) -> Iterator[bytes]:
    """Yield values endlessly, the same in each run."""
    chooser = random.Random(0)
    if arguments.payload_monotonic:
        number = 0
        while True:
            yield b"%d" % number
            number += 1
    if arguments.record_size is not None:
        value = bytes(chooser.choices(range(65, 91), k=arguments.record_size))
        while True:
            yield value
    with open(arguments.payload_file, "rb") as file:
        values = file.read().split(unescape(arguments.payload_delimiter).encode())
    values = values[:-1] if values and not values[-1] else values
    if not values:
        raise WrongOptionsError("Payload file does not exist or is empty provided.")
    while True:
        yield chooser.choice(values)


def pace(throughput: int, sent: int, started: float) -> None:
    """Wait if records were sent faster than --throughput."""
    if throughput > 0:
        ahead = sent / throughput - (time.monotonic() - started)
        if ahead > 0.001:
            time.sleep(ahead)


class Statistics:
    """Counts and latencies. One thread calls ``sent``; deliveries complete on another."""

    def __init__(self) -> None:
        self._started = self._window_started = time.monotonic()
        self._count = self._size = 0
        self._window = [0, 0, 0.0, 0.0]  # records, bytes, sum and maximum of latencies in ms
        self._sum = self._largest = 0.0
        self._latencies = array("i")
        self._failed = 0
        self._error: BaseException | None = None  # of the first record that failed

    def sent(self, delivery: "Delivery", size: int) -> None:
        """Count a record that was passed to the producer."""
        begun = time.monotonic()

        def done(finished: "Delivery") -> None:
            error = finished.exception()
            if error is None:
                self._note((time.monotonic() - begun) * 1000, size)
            else:
                self._failed += 1
                self._error = self._error or error

        delivery.add_done_callback(done)

    def _note(self, latency: float, size: int) -> None:
        self._count += 1
        self._size += size
        self._sum += latency
        self._largest = max(self._largest, latency)
        if len(self._latencies) < _SAMPLES:
            self._latencies.append(int(latency))
        elif random.randrange(self._count) < _SAMPLES:
            self._latencies[random.randrange(_SAMPLES)] = int(latency)
        window = self._window
        window[0] += 1
        window[1] += size
        window[2] += latency
        window[3] = max(window[3], latency)
        elapsed = time.monotonic() - self._window_started
        if elapsed >= _WINDOW:
            self._report_window(elapsed)

    def _report_window(self, elapsed: float) -> None:
        count, size, total, largest = self._window
        print(
            f"{count:.0f} records sent, {count / elapsed:.1f} records/sec "
            f"({size / elapsed / _MIB:.2f} MB/sec), {total / count:.1f} ms avg latency, "
            f"{largest:.1f} ms max latency.",
            flush=True,
        )
        self._window = [0, 0, 0.0, 0.0]
        self._window_started = time.monotonic()

    def report_total(self) -> None:
        """Print the last line."""
        elapsed = max(time.monotonic() - self._started, 0.001)
        average = self._sum / self._count if self._count else 0.0
        shown = ", ".join(
            f"{latency} ms {name}"
            for latency, name in zip(
                percentiles(self._latencies, (0.5, 0.95, 0.99, 0.999)),
                ("50th", "95th", "99th", "99.9th"),
                strict=True,
            )
        )
        print(
            f"{self._count} records sent, {self._count / elapsed:f} records/sec "
            f"({self._size / elapsed / _MIB:.2f} MB/sec), {average:.2f} ms avg latency, "
            f"{self._largest:.2f} ms max latency, {shown}."
        )

    def check(self) -> None:
        """Raise the error of the first record that failed, with their number."""
        if self._error is not None:
            raise KStoreError(
                f"{count_of(self._failed, 'record')} failed: {self._error}"
            ) from self._error


def percentiles(latencies: "array[int]", wanted: tuple[float, ...]) -> list[int]:
    """The latencies at these fractions of the sorted values; 0 if there are none."""
    ordered = sorted(latencies)
    if not ordered:
        return [0] * len(wanted)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in wanted]
