"""``kstore end-to-end-latency``: Kafka's kafka-e2e-latency."""

import argparse
import random
import string
import time
from array import array
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.client_properties import client_properties
from kstore.cli.common import ToolParser, WrongOptionsError, open_server
from kstore.cli.console_producer import PRODUCER_PROPERTIES
from kstore.cli.producer_perf import percentiles
from kstore.cli.server_options import add_server
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX, INT32_MIN
from kstore.remote.answer_errors import is_retriable

if TYPE_CHECKING:
    from kstore.client.producer import Producer
    from kstore.remote.consumer import RemoteConsumer
    from kstore.remote.store import RemoteStore

EPILOG = """\
examples:
  kstore end-to-end-latency --topic orders --num-records 1000 --producer-acks all \\
      --record-size 100 --bootstrap-server localhost:9092
  kstore end-to-end-latency localhost:9092 orders 1000 all 100

Sends one record at a time, reads it, and prints how long both took together, as Kafka's tool does:
a line for every thousandth record, the mean in ms, and percentiles. It takes the options of Kafka
4.2, or the positional arguments of earlier versions: server, topic, number of records, acks, size,
and a file of settings. A topic that does not exist is created with one partition. The times
include those of this tool, which is a Python program.
"""
_WORDS = ("bootstrap_server", "topic", "num_records", "producer_acks", "record_size")
_PATIENCE = 60.0  # seconds to wait for a record
_EVERY = 1000  # records between two lines
_integer = whole_number(INT32_MIN, INT32_MAX)
_SYNCHRONOUS = "Latency testing requires synchronous acknowledgement. Please use "
# The least value of each number, and how Kafka 4's tool describes the allowed ones.
_LEAST = {
    "num_records": (1, "a positive integer"),
    "record_size": (0, "a non-negative integer"),
    "record_key_size": (0, "a non-negative integer"),
    "record_header_key_size": (0, "a non-negative integer"),
    "record_header_size": (-1, "a non-negative integer or -1 for null header value"),
    "num_headers": (0, "a non-negative integer"),
}


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser, after_action=True)  # not required: a word may name it
    parser.set_defaults(bootstrap_server=None, command_config=None)
    parser.add_argument("words", nargs="*", metavar="WORD", help="see below")
    parser.add_argument("--topic", metavar="NAME", help="REQUIRED: the topic")
    parser.add_argument("--num-records", type=_integer, metavar="N",
        help="REQUIRED: how many records")  # fmt: skip
    parser.add_argument("--producer-acks", metavar="ACKS", help="REQUIRED: 1 or all")
    parser.add_argument("--record-size", type=_integer, metavar="BYTES",
        help="REQUIRED: of random letters in each value")  # fmt: skip
    for name, text in (
        ("--record-key-size", "of random letters in each key (default: 0, no keys)"),
        ("--num-headers", "headers of each record (default: 0)"),
        ("--record-header-key-size", "of the name of each header (default: 0)"),
        ("--record-header-size", "of the value of each header; -1: null (default: 0)"),
    ):
        parser.add_argument(
            name, type=_integer, nargs="?", const=0, default=0, metavar="N", help=text
        )


def run(arguments: argparse.Namespace) -> int:
    if arguments.words:
        take_words(arguments)
    for name in _WORDS:
        if getattr(arguments, name) is None:
            raise WrongOptionsError(f'Missing required argument "[{name.replace("_", "-")}]"')
    check(arguments)
    arguments.connection = {}
    client_properties((), arguments.command_config, PRODUCER_PROPERTIES, arguments.connection)
    with open_server(arguments) as store:
        create_missing(store, arguments.topic)
        acks = "all" if arguments.producer_acks == "all" else 1
        with store.producer(arguments.topic, acks=acks, linger_ms=0) as producer:
            measure(producer, readers(store, arguments.topic), arguments)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check the values: with the sentences of Kafka 4 for options, of Kafka 3.9 for words."""
    if arguments.producer_acks not in ("1", "all"):
        raise WrongOptionsError(
            f"{_SYNCHRONOUS}1 or all"
            if arguments.words
            else f"Invalid value for --producer-acks. {_SYNCHRONOUS}'1' or 'all'."
        )
    for name, (least, allowed) in _LEAST.items():
        if getattr(arguments, name) < least:
            raise WrongOptionsError(f"Value for --{name.replace('_', '-')} must be {allowed}.")


def take_words(arguments: argparse.Namespace) -> None:
    """Parse the positional arguments of Kafka before 4.2 into today's options."""
    words = arguments.words
    if len(words) not in (len(_WORDS), len(_WORDS) + 1):
        raise WrongOptionsError(
            "USAGE: kstore end-to-end-latency broker_list topic num_messages producer_acks "
            "message_size_bytes [optional] properties_file"
        )
    for name, word in zip((*_WORDS, "command_config"), words, strict=False):
        if getattr(arguments, name) is not None:
            raise WrongOptionsError(f"--{name.replace('_', '-')} is given as a word, too: {word}")
        setattr(arguments, name, word)
    for name in ("num_records", "record_size"):
        word = getattr(arguments, name)
        try:
            setattr(arguments, name, _integer(word))
        except argparse.ArgumentTypeError as error:
            raise WrongOptionsError(f'For input string: "{word[:80]}"\n{error}') from None


def create_missing(store: "RemoteStore", name: str) -> None:
    """Create the topic if it does not exist, and wait until it has a leader."""
    if name not in store:
        print(
            f'Topic "{name}" does not exist. '
            "Will create topic with 1 partition(s) and replication factor = 1",
            flush=True,
        )
        try:
            store.create_topic(name, 1, replication_factor=1)
        except KStoreError:
            print(f"Creation of topic {name} failed", flush=True)
            raise
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            store.cluster.leader(name, 0)
        except KStoreError as error:
            if not is_retriable(error.code) or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def readers(store: "RemoteStore", topic: str) -> "dict[int, RemoteConsumer]":
    """A consumer for each partition, positioned at its end."""
    found = {}
    for partition in store[topic].partitions:
        consumer = store.consumer(assignment=[(topic, partition)], auto_offset_reset="latest")
        consumer.position(consumer.assignment[0])
        found[partition] = consumer
    return found


def measure(
    producer: "Producer", consumers: "dict[int, RemoteConsumer]", arguments: argparse.Namespace
) -> None:
    """Send and read the records, and print the times."""
    chooser = random.Random(0)
    latencies = array("i")
    total = 0.0
    for number in range(arguments.num_records):
        value = letters(chooser, arguments.record_size)
        key = letters(chooser, arguments.record_key_size) if arguments.record_key_size else None
        headers = [
            (
                letters(chooser, arguments.record_header_key_size).decode(),
                (
                    None
                    if arguments.record_header_size < 0
                    else letters(chooser, arguments.record_header_size)
                ),
            )
            for _ in range(arguments.num_headers)
        ]
        begun = time.perf_counter_ns()
        sent = producer.send(value, key=key, headers=headers).result()
        read_back(consumers[sent.partition], value)
        elapsed = time.perf_counter_ns() - begun
        if number % _EVERY == 0:
            print(f"{number}\t{elapsed / 1e6}", flush=True)
        total += elapsed
        latencies.append(elapsed // 1_000_000)
    print(f"Avg latency: {total / arguments.num_records / 1e6:.4f} ms")
    shown = zip(("50th", "99th", "99.9th"), percentiles(latencies, (0.5, 0.99, 0.999)), strict=True)
    print(f"Percentiles: {', '.join(f'{name} = {value}' for name, value in shown)}")


def read_back(consumer: "RemoteConsumer", value: bytes) -> None:
    """Read the record that was sent. Raises KStoreError if another one arrives, or none."""
    for batch in consumer.batches(_PATIENCE):
        found = batch.records[0].value
        if found != value:
            raise KStoreError(
                f"The message read [{_shown(found)}] did not match the message sent "
                f"[{_shown(value)}]"
            )
        if len(batch.records) != 1:
            raise KStoreError(
                f"Only one result was expected during this test. We found [{len(batch.records)}]"
            )
        return
    raise KStoreError(
        f"poll() timed out before finding a result (timeout:[{_PATIENCE * 1000:.0f}ms])"
    )


def letters(chooser: random.Random, count: int) -> bytes:
    """``count`` random letters."""
    return "".join(chooser.choices(string.ascii_uppercase, k=count)).encode()


def _shown(data: bytes | None) -> str:
    return "null" if data is None else data[:80].decode("utf-8", "replace")
