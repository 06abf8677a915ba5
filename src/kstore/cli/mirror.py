"""``kstore mirror``: a byte-for-byte local copy of a topic of a live Kafka cluster."""

import argparse
from typing import TYPE_CHECKING

from kstore.arguments import read_properties, whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_command_config,
    add_log_dir,
    open_store,
)
from kstore.cli.progress import Progress
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.signals import status_of

if TYPE_CHECKING:
    from kstore.mirror import MirrorReport

EPILOG = """\
examples:
  kstore mirror --bootstrap-server broker:9092 --topic orders --log-dir copy
  kstore mirror --bootstrap-server broker:9092 --topic orders --log-dir copy --follow
  kstore mirror --bootstrap-server broker:9092 --topic orders --partitions 0,4-7 --log-dir copy
  kstore mirror --bootstrap-server broker:9093 --topic orders --log-dir copy \\
      --command-config client.properties

Copies batches as the brokers have them on disk: offsets, leader epochs, compression, transactions.
The mirror itself writes only one kind of batch: the end of a transaction that the cluster compacted
away after its records were copied. It creates the topic with the cluster's id and number of
partitions. A second run continues at the end of the copy; an interruption (^C, a crash) loses
nothing.

If the source's log begins later than before (retention), so does the copy's: records below are
deleted here too, unless --keep-deleted. A source that was truncated, or deleted and created again,
is refused and nothing is changed here. Settings of the topic are not copied; no retention is set.

--command-config names a file of properties in the names of Kafka's clients, such as
  security.protocol=SASL_SSL
  ssl.truststore.type=PEM
  ssl.truststore.location=ca.pem
  sasl.mechanism=SCRAM-SHA-512
  sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="reader" password="...";

Exit status: 0 done; 1 not done, with the reason; 3 done, but the outcome of a transaction is
unknown (the report names it). --follow ends with status 0 (or 3) by Ctrl-C, SIGTERM or SIGHUP.
"""

_UNDECIDED = 3


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--dry-run"] = "mirror copies what is new, and never changes the source"
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="REQUIRED: brokers of the cluster to copy from",
    )
    parser.add_argument("--topic", required=True, help="REQUIRED: the topic to copy")
    add_log_dir(parser)
    parser.add_argument(
        "--partitions", metavar="N[,N-M...]", help="only these partitions (default: all)"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="continue with new records and added partitions until interrupted "
        "(default: up to the present end)",
    )
    parser.add_argument(
        "--keep-deleted",
        action="store_true",
        help="keep copied records that the source deletes",
    )
    parser.add_argument(
        "--throttle",
        type=whole_number(1),
        metavar="BYTES",
        help="copy at most this many bytes a second",
    )
    add_command_config(parser)


def run(arguments: argparse.Namespace) -> int:
    from kstore.mirror import Mirror
    from kstore.mirror.source import KafkaSource

    wanted = None if arguments.partitions is None else numbers(arguments.partitions)
    settings = read_properties(arguments.command_config)
    bar = Progress("k offsets/s", 1e3)
    with (
        KafkaSource(arguments.bootstrap_server, arguments.topic, settings=settings) as source,
        open_store(arguments, "a", create=True) as store,
    ):
        mirror = Mirror(
            store,
            source,
            partitions=wanted,
            keep_deleted=arguments.keep_deleted,
            max_bytes_per_second=arguments.throttle,
            progress=bar.show,
        )
        status = 0
        try:
            with bar:
                mirror.run(follow=arguments.follow)
        except KeyboardInterrupt as interrupt:
            if not arguments.follow:  # --follow has no end to show
                status = status_of(interrupt)
        report = mirror.report()
        print_report(report)
    return status or (0 if report.ok else _UNDECIDED)


def numbers(text: str) -> list[int]:
    """Parse ``0,4-7`` to numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            start = parse_whole_number(first, 0, 999_999)
            end = parse_whole_number(last, start, 999_999) if dash else start
        except InvalidConfigError:
            raise WrongOptionsError(
                f"--partitions takes numbers such as 0,4-7, not {text[:40]!r}"
            ) from None
        found.extend(range(start, end + 1))
    return found


def print_report(report: "MirrorReport") -> None:
    """Print a line for each partition with its notes, and the totals."""
    for each in report.partitions:
        print(
            f"{report.topic}-{each.partition}: offsets {each.start_offset} to "
            f"{each.end_offset}, {each.bytes} bytes copied from offset {each.first_offset} on"
        )
        for note in each.notes:
            print(f"  {note}")
    made = "created" if report.created else "existed"
    print(
        f"{report.topic} (id {report.topic_id}, {made}): {report.bytes} bytes copied in "
        f"{report.seconds:.1f} s"
    )
