"""``kstore mirror``: a byte-for-byte local copy of a topic of a live Kafka cluster."""

import argparse
from typing import TYPE_CHECKING

from kstore.cli.common import ToolParser, WrongOptionsError, add_log_dir, open_store
from kstore.cli.progress import Progress
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.mirror import MirrorReport

EPILOG = """\
examples:
  kstore mirror --bootstrap-server broker:9092 --topic orders --log-dir copy
  kstore mirror --bootstrap-server broker:9092 --topic orders --log-dir copy --follow
  kstore mirror --bootstrap-server broker:9092 --topic orders --partitions 0,4-7 --log-dir copy
  kstore mirror --bootstrap-server broker:9093 --topic orders --log-dir copy \\
      --command-config client.properties

Batches are taken as the brokers have them on disk: offsets, leader epochs, compression,
transactions and all. The topic is made here with the cluster's id and number of partitions. Run
again it goes on where the copy ends; interrupted (^C, a crash) it loses nothing.

Where the source's log begins later than before (retention), so does the copy's: what is below is
dropped here, too, unless --keep-deleted. A source that was truncated, or deleted and made anew,
is refused and nothing is changed here. Settings of the topic are not copied; no retention is set.

--command-config names a file of properties in kafka-python's names, such as
  security_protocol=SASL_SSL
  ssl_cafile=ca.pem
  sasl_mechanism=SCRAM-SHA-512
  sasl_plain_username=reader
  sasl_plain_password=...
A broker before 0.10 does not tell its version: api_version=0.8.2 does.

Needs kafka-python: pip install 'kstore[mirror]'. Exit status: 0 done, 1 could not, said why.
"""

_INTERRUPTED = 130


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
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
        help="go on with what comes in until interrupted (default: up to the present end)",
    )
    parser.add_argument(
        "--keep-deleted",
        action="store_true",
        help="keep records here that the source deletes after they were copied",
    )
    parser.add_argument(
        "--throttle", type=int, metavar="BYTES", help="copy at most so many bytes a second"
    )
    parser.add_argument(
        "--command-config", metavar="FILE", help="a file with settings of the connection"
    )


def run(arguments: argparse.Namespace) -> int:
    from kstore.mirror import Mirror

    wanted = None if arguments.partitions is None else numbers(arguments.partitions)
    if arguments.throttle is not None and arguments.throttle <= 0:
        raise WrongOptionsError("--throttle takes a number of bytes above 0")
    settings = {} if arguments.command_config is None else read_settings(arguments.command_config)
    try:
        from kstore.mirror.source import KafkaSource
    except ImportError as error:
        raise KStoreError(str(error)) from error
    bar = Progress(1, "k offsets/s", 1e3)

    def tell(done: int, total: int, name: str) -> None:
        bar.total = max(total, 1)
        bar.update(done, name)

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
            progress=tell,
        )
        interrupted = False
        try:
            mirror.run(follow=arguments.follow)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            bar.clear()
        print_report(mirror.report())
    return _INTERRUPTED if interrupted and not arguments.follow else 0


def numbers(text: str) -> list[int]:
    """``0,4-7`` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise WrongOptionsError(f"--partitions takes numbers such as 0,4-7, not {text!r}")
        end = int(last) if dash else int(first)
        if not int(first) <= end < 1_000_000:
            raise WrongOptionsError(f"--partitions takes numbers such as 0,4-7, not {text!r}")
        found.extend(range(int(first), end + 1))
    return found


def read_settings(path: str) -> dict[str, str]:
    """A properties file, as text; KafkaSource knows which of it are numbers."""
    from kstore.log.identity import parse_properties

    with open(path, "rb") as file:
        return parse_properties(file.read(), path)


def print_report(report: "MirrorReport") -> None:
    """One line a partition, what has to be said below it, and the sum."""
    for each in report.partitions:
        print(
            f"{report.topic}-{each.partition}: offsets {each.start_offset} to "
            f"{each.end_offset}, {each.bytes} bytes copied from offset {each.first_offset} on"
        )
        for note in each.notes:
            print(f"  {note}")
    made = "made here" if report.created else "was here"
    print(
        f"{report.topic} (id {report.topic_id}, {made}): {report.bytes} bytes copied in "
        f"{report.seconds:.1f} s"
    )
