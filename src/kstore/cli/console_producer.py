"""``kstore console-producer``: Kafka's kafka-console-producer on a directory or a server."""

import argparse
import os
import select
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from kstore.arguments import number, read_properties, whole_number
from kstore.cli.client_properties import add_client_options, client_properties
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_broker_list,
    add_log_dir_or_server,
    complain,
    flag,
    named_topic,
    open_directory_or_server,
    properties,
    unescape,
)
from kstore.client.delivery import Delivery
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError, KStoreError
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.partition_files import count_of
from kstore.signals import StopRequest

READER_PROPERTIES = (
    "parse.key",
    "parse.headers",
    "ignore.error",
    "key.separator",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "null.marker",
)
PRODUCER_PROPERTIES = (
    "acks",
    "batch.size",
    "linger.ms",
    "compression.type",
    "buffer.memory",
    "max.block.ms",
    "enable.idempotence",
)
# Kafka's older options for properties.
_OF_PRODUCERS = {"max-block-ms": "max.block.ms", "max-memory-bytes": "buffer.memory"}
_OF_CONNECTIONS = (
    "message-send-max-retries",
    "retry-backoff-ms",
    "request-timeout-ms",
    "metadata-expiry-ms",
    "max-partition-memory-bytes",
    "socket-buffer-size",
)
_CHUNK = 1 << 16  # bytes of input that are read at a time
EPILOG = """\
examples:
  kstore console-producer --topic orders --log-dir data < lines.txt
  kstore console-producer --topic orders --reader-property parse.key=true \\
      --reader-property key.separator=: --log-dir data
  kstore console-producer --topic orders --compression-codec zstd --log-dir data
  kstore console-producer --topic orders --bootstrap-server localhost:9092 < lines.txt

Every line of standard input is a record's value. Properties of the reader, with their defaults:
  parse.key=false  key.separator=\\t  parse.headers=false  headers.delimiter=\\t
  headers.separator=,  headers.key.separator=:  ignore.error=false  null.marker= (none)
With all of them a line reads  h1:v1,h2:v2<TAB>key<TAB>value.  Properties of the producer
(--command-property): acks, batch.size, linger.ms, compression.type, buffer.memory, max.block.ms,
enable.idempotence; those of connections have no effect.
With --log-dir it must be the only writer of the directory. Ctrl-C, SIGTERM and SIGHUP end the
input: lines that were read are appended, the directory is closed, the status is 130, 143 or 129.
"""


class Line(NamedTuple):
    """A parsed line of input."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[bytes, bytes | None]] | None


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--dry-run"] = "console-producer appends every line; leave it out"
    add_log_dir_or_server(parser, has_client_options=True)
    add_broker_list(parser)
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: append to it")
    describe_properties(parser)
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        metavar="CODEC",
        help="none, gzip, snappy, lz4 or zstd; gzip if no codec follows (default: the topic's)",
    )
    parser.add_argument(
        "--batch-size",
        type=whole_number(1, INT32_MAX),
        metavar="BYTES",
        help="size of a batch (default: the topic's)",
    )
    parser.add_argument(
        "--timeout",
        type=number(0, INT64_MAX),
        default=1000,
        metavar="MS",
        help="how long a record may wait for its batch to fill (default: 1000)",
    )
    parser.add_argument(
        "--request-required-acks",
        default="-1",
        metavar="ACKS",
        help="all or -1: acknowledged when on disk; 1: when the system has it; 0: not awaited "
        "(default: -1)",
    )
    parser.add_argument(
        "--sync", action="store_true", help="wait for every record before the next line"
    )


def describe_properties(parser: ToolParser) -> None:
    """Add the options for properties of reader and producer, and those without effect."""
    parser.add_argument(
        "--reader-property",
        "--property",
        action="append",
        default=[],
        dest="reader",
        metavar="NAME=VALUE",
        help="how lines are read; see below",
    )
    add_client_options(parser, "producer")
    parser.add_argument(
        "--reader-config",
        metavar="FILE",
        help="a file of properties of the reader; options take precedence",
    )
    parser.add_argument(
        "--line-reader",
        type=line_reader,
        metavar="CLASS",
        help="LineMessageReader: kstore runs no other class",
    )
    for name, meaning in _OF_PRODUCERS.items():
        parser.add_argument(
            f"--{name}", type=whole_number(0), metavar="N", help=f"the property {meaning}"
        )
    for name in _OF_CONNECTIONS:
        parser.add_argument(f"--{name}", type=whole_number(0), metavar="N", help="without effect")
    for name in ("key-serializer", "value-serializer"):
        parser.hints[f"--{name}"] = "keys and values are the bytes of the line; leave it out"


def line_reader(text: str) -> str:
    """Parse --line-reader."""
    if text.rpartition(".")[2] != "LineMessageReader":
        raise argparse.ArgumentTypeError("kstore runs no Java classes but its LineMessageReader")
    return text


class DeliveryCount:
    """Counts appended and rejected lines; :meth:`check` raises the first rejected line's error."""

    def __init__(self) -> None:
        self._appended = 0
        self._refused = 0
        self._first: tuple[int, BaseException] | None = None

    def note(self, line: int, delivery: Delivery) -> None:
        """Count the outcome of a line's record. Called on the producer's thread."""
        error = delivery.exception()
        if error is None:
            self._appended += 1
            return
        self._refused += 1
        if self._first is None or line < self._first[0]:
            self._first = line, error

    def check(self) -> None:
        """Raise the error of the first rejected line, with the number of appended lines."""
        if self._first is None:
            return
        line, error = self._first
        more = f" and {self._refused - 1} more refused" if self._refused > 1 else ""
        raise KStoreError(
            f"line {line}: {error}{more}; {count_of(self._appended, 'other line')} appended"
        ) from error


def run(arguments: argparse.Namespace) -> int:
    filed = read_properties(arguments.reader_config)
    given = (*(f"{name}={value}" for name, value in filed.items()), *arguments.reader)
    reader = LineReader(properties(given, READER_PROPERTIES))
    options = producer_options(arguments)
    outcome = DeliveryCount()
    with StopRequest() as stop:
        with open_directory_or_server(arguments, "a") as store:
            named_topic(store, arguments.topic)
            with store.producer(arguments.topic, **options) as producer:
                stop.defer()
                for line in reader.lines(stop):
                    delivery = producer.send(line.value, key=line.key, headers=line.headers)
                    delivery.add_done_callback(partial(outcome.note, reader.number))
                    if arguments.sync:
                        producer.flush()
                        if delivery.exception() is not None:
                            break
            outcome.check()
        return 128 + stop.number if stop.number else 0


def _acks(text: str) -> int:
    if text not in ("0", "1"):
        raise InvalidConfigError(
            f"Invalid value {text[:40]} for configuration acks: String must be one of: all, -1, "
            "0, 1"
        )
    return int(text)


def producer_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of Store.producer; a property wins over Kafka's older option.

    Settings of the connection to a server are left in ``arguments.connection``.
    """
    arguments.connection = None if arguments.bootstrap_server is None else {}
    given = client_properties(
        arguments.producer, arguments.producer_config, PRODUCER_PROPERTIES, arguments.connection
    )
    for name, meaning in _OF_PRODUCERS.items():
        value = getattr(arguments, name.replace("-", "_"), None)
        if value is not None:
            given.setdefault(meaning, str(value))
    acks = given.get("acks", arguments.request_required_acks)
    options: dict[str, Any] = {
        "acks": "all" if acks in ("all", "-1") else _acks(acks),
        "linger_ms": arguments.timeout,
    }
    if "linger.ms" in given:
        options["linger_ms"] = parse_whole_number(given["linger.ms"], name="linger.ms")
    if "buffer.memory" in given:
        options["buffer_memory"] = parse_whole_number(
            given["buffer.memory"], 1, name="buffer.memory"
        )
    if "batch.size" in given:
        options["batch_size"] = parse_whole_number(
            given["batch.size"], 1, INT32_MAX, name="batch.size"
        )
    elif arguments.batch_size is not None:
        options["batch_size"] = arguments.batch_size
    if "max.block.ms" in given:
        options["max_block_ms"] = parse_whole_number(given["max.block.ms"], name="max.block.ms")
    if "enable.idempotence" in given:
        options["enable_idempotence"] = flag(given, "enable.idempotence")
    codec = given.get("compression.type", arguments.compression_codec)
    if codec is not None:
        options["compression"] = codec
    return options


def read_input(stop: StopRequest) -> Iterator[bytes]:
    """Chunks of standard input, until its end or a signal.

    Signals are checked only between reads, so that no bytes are lost.
    """
    if sys.stdin is None:
        raise KStoreError("standard input is closed, so there are no lines to append")
    prompt = sys.stdin.isatty()
    try:
        source = sys.stdin.fileno()
    except OSError:  # no file
        yield from iter(lambda: sys.stdin.buffer.read(_CHUNK), b"")
        return
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(stop, select.POLLIN)
    while True:
        if prompt:
            print(">", end="", flush=True)
        while not stop.number and source not in {descriptor for descriptor, _ in poll.poll()}:
            stop.clear()
        data = b"" if stop.number else os.read(source, _CHUNK)
        if not data:
            return
        yield data


class LineReader:
    """Kafka's LineMessageReader: lines of standard input as records."""

    def __init__(self, values: dict[str, str]) -> None:
        def separator(name: str, default: str) -> bytes:
            text = unescape(values.get(name, default))
            if not text:
                raise WrongOptionsError(f"{name} must not be empty")
            return text.encode()

        self.parse_key = flag(values, "parse.key")
        self.parse_headers = flag(values, "parse.headers")
        self.ignore_error = flag(values, "ignore.error")
        self.key_separator = separator("key.separator", "\t")
        self.headers_delimiter = separator("headers.delimiter", "\t")
        self.headers_separator = separator("headers.separator", ",")
        self.header_separator = separator("headers.key.separator", ":")
        marker = values.get("null.marker")
        self.null_marker = None if marker is None else marker.encode()
        self.number = 0
        names = (self.key_separator, self.headers_delimiter, self.headers_separator)
        if self.parse_headers and self.headers_separator in (names[1], self.header_separator):
            raise WrongOptionsError(
                "headers.separator must differ from headers.delimiter and headers.key.separator"
            )

    def lines(self, stop: StopRequest) -> Iterator[Line]:
        """Yield lines until the input ends or a signal arrives; omit an incomplete last line after
        a signal."""
        parts: list[bytes] = []
        for chunk in read_input(stop):
            *complete, rest = chunk.split(b"\n")
            if complete:
                complete[0] = b"".join([*parts, complete[0]])
                parts.clear()
            if rest:
                parts.append(rest)
            for text in complete:
                yield self.parse(text.removesuffix(b"\r"))
        if parts and stop.number:
            complain("the unfinished last line was not appended")
        elif parts:
            yield self.parse(b"".join(parts).removesuffix(b"\r"))

    def parse(self, text: bytes) -> Line:
        """Parse a line without its line end. Raises KStoreError if a separator is missing."""
        self.number += 1
        headers = key = None
        if self.parse_headers:
            head, text = self._split(text, self.headers_delimiter, "headers delimiter")
            headers = None if head is None else self._headers(head)
        if self.parse_key:
            key, text = self._split(text, self.key_separator, "key separator")
        return Line(self._nullable(text), self._nullable(key), headers)

    def _split(self, text: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        head, found, rest = text.partition(separator)
        if found:
            return head, rest
        if self.ignore_error:
            return None, text
        raise self._error(f"No {what} found", text)

    def _headers(self, text: bytes) -> list[tuple[bytes, bytes | None]] | None:
        if not text or text == self.null_marker:
            return None
        headers: list[tuple[bytes, bytes | None]] = []
        for pair in text.split(self.headers_separator):
            name, found, value = pair.partition(self.header_separator)
            if not found and not self.ignore_error:
                raise self._error("No header key separator found in pair", pair)
            if name == self.null_marker:
                raise self._error("a header's name cannot be null", pair)
            headers.append((name, self._nullable(value if found else None)))
        return headers

    def _nullable(self, text: bytes | None) -> bytes | None:
        return None if text == self.null_marker else text

    def _error(self, what: str, text: bytes) -> KStoreError:
        shown = text.decode("utf-8", "replace")
        return KStoreError(
            f"{what} on line number {self.number}: '{shown}'; the lines before it were appended"
        )
