"""``kstore console-producer``: Kafka's kafka-console-producer on a directory."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    flag,
    named_topic,
    open_store,
    properties,
    unescape,
)
from kstore.errors import KStoreError

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
PRODUCER_PROPERTIES = ("acks", "batch.size", "linger.ms", "compression.type", "buffer.memory")
EPILOG = """\
examples:
  kstore console-producer --topic orders --log-dir data < lines.txt
  kstore console-producer --topic orders --reader-property parse.key=true \\
      --reader-property key.separator=: --log-dir data
  kstore console-producer --topic orders --compression-codec zstd --log-dir data

Every line of standard input is a record's value. Properties of the reader, with their defaults:
  parse.key=false  key.separator=\\t  parse.headers=false  headers.delimiter=\\t
  headers.separator=,  headers.key.separator=:  ignore.error=false  null.marker= (none)
With all of them a line reads  h1:v1,h2:v2<TAB>key<TAB>value.  Properties of the producer
(--command-property): acks, batch.size, linger.ms, compression.type, buffer.memory.
Needs the directory for itself: one writer at a time.
"""


class Line(NamedTuple):
    """What one line of input says."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[bytes, bytes | None]] | None


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir(parser)
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: append to it")
    parser.add_argument(
        "--reader-property",
        "--property",
        action="append",
        default=[],
        dest="reader",
        metavar="NAME=VALUE",
        help="how lines are read; see below",
    )
    parser.add_argument(
        "--command-property",
        "--producer-property",
        action="append",
        default=[],
        dest="producer",
        metavar="NAME=VALUE",
        help="a setting of the producer; see below",
    )
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        metavar="CODEC",
        help="none, gzip, snappy, lz4 or zstd; gzip if no codec follows (default: the topic's)",
    )
    parser.add_argument(
        "--batch-size", type=int, metavar="BYTES", help="of a batch (default: the topic's)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1000,
        metavar="MS",
        help="how long a record may wait for its batch to fill (default: 1000)",
    )
    parser.add_argument(
        "--request-required-acks",
        default="-1",
        metavar="ACKS",
        help="-1 or all: on disk; 1: handed to the system; 0: not waited for (default: -1)",
    )
    parser.add_argument(
        "--sync", action="store_true", help="wait for every record before the next line"
    )


def run(arguments: argparse.Namespace) -> int:
    reader = LineReader(properties(arguments.reader, READER_PROPERTIES))
    with open_store(arguments, "a") as store:
        named_topic(store, arguments.topic)
        with store.producer(arguments.topic, **producer_options(arguments)) as producer:
            for line in reader.lines():
                delivery = producer.send(line.value, key=line.key, headers=line.headers)
                if arguments.sync:
                    producer.flush()
                    delivery.result()
    return 0


def producer_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of Store.producer; a property wins over Kafka's older option."""
    given = properties(arguments.producer, PRODUCER_PROPERTIES)
    acks = given.get("acks", arguments.request_required_acks)
    try:
        options: dict[str, Any] = {
            "acks": "all" if acks in ("all", "-1") else int(acks),
            "linger_ms": float(given.get("linger.ms", arguments.timeout)),
        }
        if "buffer.memory" in given:
            options["buffer_memory"] = int(given["buffer.memory"])
        if "batch.size" in given or arguments.batch_size is not None:
            options["batch_size"] = int(given.get("batch.size", arguments.batch_size or 0))
    except ValueError as error:
        raise WrongOptionsError(f"a producer's setting is not a number: {error}") from None
    codec = given.get("compression.type", arguments.compression_codec)
    if codec is not None:
        options["compression"] = codec
    return options


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

    def lines(self) -> Iterator[Line]:
        prompt = sys.stdin.isatty()
        source = sys.stdin.buffer
        while True:
            if prompt:
                print(">", end="", flush=True)
            text = source.readline()
            if not text:
                return
            yield self.parse(text.removesuffix(b"\n").removesuffix(b"\r"))

    def parse(self, text: bytes) -> Line:
        """One line, without its end. Raises KStoreError if a separator is missing."""
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
