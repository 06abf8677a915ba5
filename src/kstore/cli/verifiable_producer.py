"""``kstore verifiable-producer``: Kafka's kafka-verifiable-producer."""

import argparse
import itertools
import math
import queue
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kstore.arguments import whole_number
from kstore.cli.common import ToolParser, open_server
from kstore.cli.console_producer import producer_options
from kstore.cli.event_lines import EventLines, shown_text
from kstore.cli.server_options import add_either_server
from kstore.errors import KStoreError, UnknownTopicOrPartitionError
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.remote.answer_errors import exception_name, is_retriable, raise_for
from kstore.signals import StopRequest

if TYPE_CHECKING:
    from kstore.client.delivery import Delivery
    from kstore.client.producer import Producer
    from kstore.client.record_metadata import RecordMetadata
    from kstore.remote.store import RemoteStore

    _Delivered = tuple["Numbered", BaseException | None, RecordMetadata | None]

EPILOG = """\
examples:
  kstore verifiable-producer --topic orders --max-messages 1000 \\
      --bootstrap-server localhost:9092

Sends the numbers from 0 on and prints a JSON object for each event, as Kafka's tool does:
startup_complete, producer_send_success or producer_send_error for each record,
shutdown_complete, and tool_data with the counts. Settings of the producer are those of
'kstore console-producer'; a record is not sent again after an error. Ctrl-C and SIGTERM deliver
what was sent. The status is 0 also if records failed, as with Kafka's tool: read tool_data.
"""
_PAUSE = 0.1  # seconds between two checks for a signal
_METADATA_PATIENCE = 60.0  # seconds, Kafka's max.block.ms
UNKNOWN_TOPIC = UnknownTopicOrPartitionError.code


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    add_either_server(parser, "--producer.config")
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    parser.add_argument("--max-messages", type=whole_number(-1, INT32_MAX), default=-1,
        metavar="N", help="how many records (default: -1, until a signal)")  # fmt: skip
    parser.add_argument("--throughput", type=whole_number(-1, INT32_MAX), default=-1, metavar="N",
        help="records a second (default: -1, no limit)")  # fmt: skip
    parser.add_argument("--acks", choices=("0", "1", "-1"), default="-1",
        help="acknowledgements that are required (default: -1, all)")  # fmt: skip
    parser.add_argument("--message-create-time", type=whole_number(-1, INT64_MAX), default=-1,
        metavar="MS", help="time of the first record; each further one is a ms later "
        "(default: -1, the current time)")  # fmt: skip
    parser.add_argument("--value-prefix", type=whole_number(0, INT32_MAX), metavar="N",
        help="values are this number, a dot and the record's number")  # fmt: skip
    parser.add_argument("--repeating-keys", type=whole_number(1, INT32_MAX), metavar="N",
        help="keys are the numbers from 0 to N-1, again and again (default: no keys)")  # fmt: skip


class Numbered(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes
    timestamp: int | None  # ms; None: now


def run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    problem: KStoreError | None = None
    with StopRequest() as stop, open_server(arguments) as store, EventLines() as lines:
        lines.event("startup_complete")
        lines.flush()
        stop.defer()
        began = time.monotonic()
        events = SendEvents(lines, arguments.topic)
        try:
            if arguments.max_messages and await_topic(store, arguments.topic, stop):
                with store.producer(arguments.topic, **options) as producer:
                    produce(producer, arguments, events, stop)
        except KStoreError as error:
            problem = error
        seconds = max(time.monotonic() - began, 0.001)
        lines.event("shutdown_complete")
        lines.event(
            "tool_data", sent=events.sent, acked=events.acked,
            target_throughput=arguments.throughput, avg_throughput=events.acked / seconds,
        )  # fmt: skip
    if problem is not None:
        raise problem
    return 128 + stop.number if stop.number else 0


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the producer; those of the connection stay in the arguments."""
    of_producer = argparse.Namespace(
        bootstrap_server=arguments.bootstrap_server,
        producer=[],
        producer_config=arguments.command_config,
        request_required_acks=arguments.acks,
        timeout=0,  # Kafka's linger.ms
        batch_size=None,
        compression_codec=None,
    )
    options = producer_options(of_producer)
    options["acks"] = "all" if arguments.acks == "-1" else int(arguments.acks)
    arguments.connection = of_producer.connection
    return options


def await_topic(store: "RemoteStore", name: str, stop: StopRequest) -> bool:
    """Wait until the topic has leaders; the broker creates it on demand if it is set to.

    False: a signal ended the wait. Raises the broker's error for the topic.
    """
    until = time.monotonic() + _METADATA_PATIENCE
    while not stop.number:
        entry = store.cluster.metadata([name], may_create=True).get(name)
        code = UNKNOWN_TOPIC if entry is None else entry.error_code
        if not code:
            return True
        if not is_retriable(code) or time.monotonic() > until:
            raise_for(code, None, name)
        time.sleep(_PAUSE)
    return False


def produce(
    producer: "Producer", arguments: argparse.Namespace, events: "SendEvents", stop: StopRequest
) -> None:
    """Send the records, and print the outcome of each."""
    started = time.monotonic()
    for number, record in enumerate(records(arguments), 1):
        if stop.number:
            break
        events.send(producer, record)
        events.print_delivered(0.0)
        if arguments.throughput >= 0:
            due = started + number / arguments.throughput if arguments.throughput else math.inf
            while not stop.number and (left := due - time.monotonic()) > 0:
                events.print_delivered(min(left, _PAUSE))
    while producer.flush(_PAUSE):
        events.print_delivered(0.0)
    events.print_delivered(0.0)


def records(arguments: argparse.Namespace) -> Iterator[Numbered]:
    """The records of --max-messages, endlessly without it."""
    count = arguments.max_messages
    for number in itertools.count() if count < 0 else range(count):
        prefix = "" if arguments.value_prefix is None else f"{arguments.value_prefix}."
        repeat, created = arguments.repeating_keys, arguments.message_create_time
        yield Numbered(
            None if repeat is None else b"%d" % (number % repeat),
            f"{prefix}{number}".encode(),
            None if created < 0 else created + number,
        )


class SendEvents:
    """Sends records and prints their events, in the thread that calls it."""

    def __init__(self, lines: EventLines, topic: str) -> None:
        self.sent = self.acked = 0
        self._lines = lines
        self._topic = topic
        self._delivered: queue.SimpleQueue[_Delivered] = queue.SimpleQueue()

    def send(self, producer: "Producer", record: Numbered) -> None:
        """Pass a record to the producer."""
        self.sent += 1
        try:
            delivery = producer.send(record.value, key=record.key, timestamp=record.timestamp)
        except KStoreError as error:
            self._delivered.put((record, error, None))
        else:
            delivery.add_done_callback(partial(self._note, record))

    def _note(self, record: Numbered, delivery: "Delivery") -> None:
        """Called in the producer's thread."""
        error = delivery.exception()
        found = delivery.result() if error is None else None
        self._delivered.put((record, error, found))

    def print_delivered(self, wait: float) -> None:
        """Print the available events; without any, wait up to ``wait`` seconds for the first."""
        with suppress(queue.Empty):
            delivered = self._delivered.get(wait > 0, wait)
            while True:
                self._print(*delivered)
                delivered = self._delivered.get_nowait()
        self._lines.flush()

    def _print(
        self, record: Numbered, error: BaseException | None, found: "RecordMetadata | None"
    ) -> None:
        key, value = shown_text(record.key), shown_text(record.value)
        if found is not None:
            self.acked += 1
            self._lines.event(
                "producer_send_success", key=key, value=value, offset=found.offset,
                topic=found.topic, partition=found.partition,
            )  # fmt: skip
        elif isinstance(error, KStoreError):
            self._lines.event(
                "producer_send_error", topic=self._topic, key=key, value=value,
                exception=f"class {exception_name(error)}", message=error.reason,
            )  # fmt: skip
        elif error is not None:
            raise error
