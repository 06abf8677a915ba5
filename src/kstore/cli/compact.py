"""``kstore compact``: runs the log cleaner now, which in Kafka only a broker's threads do."""

import argparse
import math
from typing import TYPE_CHECKING

from kstore.arguments import number, whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    complain,
    open_store,
)
from kstore.cli.empty_partitions import EmptyPartitions, is_empty, print_lines
from kstore.cli.partition_tool import chosen_partitions
from kstore.cli.progress import Progress
from kstore.report_lines import compaction_line

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import CompactionReport

EPILOG = """\
examples:
  kstore compact --log-dir data
  kstore compact --topic accounts --partitions 0,1 --log-dir data
  kstore compact --topic accounts --max-bytes-per-second 50000000 --log-dir data

Keeps the latest record of every key, in all segments except the active one, as Kafka's cleaner
does; min.compaction.lag.ms and delete.retention.ms apply. Compacts only topics whose cleanup.policy
in this directory contains 'compact': Kafka keeps its topics' settings elsewhere, so set it first
for a broker's topic, with 'kstore configs --alter'. No other process may write meanwhile.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--dry-run"] = (
        "compact has no plan to show; 'kstore topics --describe --topics-with-overrides' lists the "
        "topics with cleanup.policy=compact"
    )
    add_log_dir(parser)
    parser.add_argument(
        "--topic",
        metavar="REGEX",
        help="topics to compact (default: all with cleanup.policy=compact)",
    )
    parser.add_argument("--partitions", metavar="N,N,...", help="partitions to compact")
    parser.add_argument(
        "--dedupe-buffer-size",
        type=whole_number(1),
        default=134_217_728,
        metavar="BYTES",
        help="memory for the keys, 24 bytes each (Kafka's log.cleaner.dedupe.buffer.size; "
        "default: 134217728); with less, several rounds",
    )
    parser.add_argument(
        "--max-bytes-per-second",
        type=number(0, math.inf),
        default=math.inf,
        metavar="BYTES",
        help="read and written (Kafka's log.cleaner.io.max.bytes.per.second; default: no limit)",
    )
    parser.add_argument(
        "--roll",
        action="store_true",
        help="roll the active segments first, which are never compacted",
    )


def run(arguments: argparse.Namespace) -> int:
    if not arguments.max_bytes_per_second > 0:
        raise WrongOptionsError("--max-bytes-per-second takes a number above 0")
    done = 0
    other: set[str] = set()  # topics that are not compacted
    empty = EmptyPartitions()
    with open_store(arguments, "a") as store:
        for name, partition in chosen_partitions(store, arguments):
            if "compact" not in store[name].config.cleanup_policy:
                other.add(name)
                continue
            log = store[name][partition]
            report = compact(log, arguments)
            done += 1
            if not empty.omit(name, is_empty=is_empty(log)):
                took = f" in {report.seconds:.1f} s" if report.passes else ""
                print(f"{name}-{partition}: {compaction_line(report)}{took}")
    print_lines(empty.lines("nothing to do"))
    for name in sorted(other if arguments.topic is not None else ()):
        complain(f"{name}: cleanup.policy does not contain 'compact' here; not compacted")
    if not done:
        complain("no topic here has cleanup.policy=compact")
        return 1
    return 0


def compact(log: "Log", arguments: argparse.Namespace) -> "CompactionReport":
    with Progress() as bar:
        return log.compact(
            dedupe_buffer_size=arguments.dedupe_buffer_size,
            max_bytes_per_second=arguments.max_bytes_per_second,
            roll=arguments.roll,
            progress=lambda done, total: bar.show(done, total, f"{log.topic}-{log.partition}"),
        )
