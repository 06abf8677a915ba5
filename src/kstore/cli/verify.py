"""``kstore verify``: audits every byte of a log directory."""

import argparse
import json
import os
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.arguments import whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    matching_topics,
    named_topic,
    names_matching,
    open_store,
)
from kstore.cli.empty_partitions import EmptyPartitions
from kstore.cli.progress import Progress
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX
from kstore.partition_files import count_of, finding_lines, state_of, status_of

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import FoundLog, MissingFolder, VerifyReport
    from kstore.store.store import Store

GONE = "skipped, it was deleted meanwhile"
EPILOG = """\
examples:
  kstore verify --log-dir /var/kafka-logs
  kstore verify --topic 'orders.*' --threads 2 --log-dir data
  kstore verify --json --log-dir data > report.json
  kstore verify --seal --log-dir data

Checks every checksum, every record, the order of offsets, every entry of the offset and time
indexes, the leader epochs, transaction indexes and producer snapshots against the markers, and, by
kstore's header checksums, the bytes that Kafka's checksums do not cover. Detects lost records by
the recovery point, the clean-shutdown marker, side files without their log, and header checksums.
Changes nothing and works beside a running broker or writer: an incomplete batch at the very end is
a write in progress, not damage; files that the writer may be about to write and that still look
wrong after several checks are listed as "in flight". After a kill, what the next open rebuilds from
the log is listed as "recovery is due". Records of an unfinished publication of the Spark sink are
checked too, and counted. --seal opens the directory for writing, and writes header checksums for
the rolled segments of partitions without findings (kstore does so for the segments it rolls).
A partition that is deleted meanwhile is skipped, with a line.
Every line names file, position and offset.

exit status:
  0  no damage, no warnings
  1  damage, or nothing could be verified
  3  warnings only: an unexplained gap between segments, a log that ends below its
     recovery point after an unclean stop, a checkpoint that does not parse, a partition that
     only a checkpoint names
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--dry-run"] = "this tool changes nothing without --seal; leave it out"
    add_log_dir(parser)
    parser.add_argument("--topic", metavar="REGEX", help="topics to verify (default: all)")
    parser.add_argument("--partition", type=whole_number(0, INT32_MAX), metavar="N",
        help="only this partition of --topic",
    )  # fmt: skip
    parser.add_argument(
        "--threads",
        type=whole_number(1, 1024),
        default=min(os.cpu_count() or 1, 8),
        metavar="COUNT",
        help="number of threads (default: one a processor, at most 8)",
    )
    parser.add_argument(
        "--seal",
        action="store_true",
        help="write header checksums for rolled segments without findings",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    from kstore.partition_files import DISK, StateReader, audit_if_present

    states = StateReader(DISK)
    with open_store(arguments, "a" if arguments.seal else "r") as store:
        logs, notes = chosen(store, arguments)
        size, read = sum(found.size for found in logs), 0
        reports: list[tuple[Log | MissingFolder, VerifyReport]] = []
        with Progress() as bar:
            for found in logs:
                log = found.log
                show = partial(_show, bar, log, read, size)
                report = audit_if_present(
                    found,
                    show,
                    threads=arguments.threads,
                    map_sealed=False,  # a broker may truncate any of its files
                    states=states,
                )
                if report is None:
                    notes.append(f"{log.topic}-{log.partition}: {GONE}")
                    continue
                reports.append((log, report))
                read += report.bytes
                if arguments.seal and report.ok and not report.warning_count:
                    log.seal()
        if arguments.partition is None:
            reports += _missing(store, arguments.topic)
        if not reports:
            why = "; ".join(notes) or f"no partitions in {', '.join(store.paths)}"
            raise KStoreError(f"nothing was verified: {why}")
        if arguments.json:
            print(json.dumps(as_tree(reports, notes), indent=2))
        else:
            print_report(reports, notes)
    return status_of(report for _, report in reports)


def _missing(store: "Store", pattern: str | None) -> "list[tuple[MissingFolder, VerifyReport]]":
    """The partitions whose folder is missing, each with a report."""
    from kstore.partition_files import DISK, find_missing_folders

    missing = find_missing_folders(DISK, store.paths)
    wanted = names_matching((each.topic for each in missing), pattern)
    return [(each, each.report) for each in missing if each.topic in wanted]


def chosen(store: "Store", arguments: argparse.Namespace) -> "tuple[list[FoundLog], list[str]]":
    """The partitions to verify, and notes on topics deleted since they were listed."""
    from kstore.partition_files import find_logs

    if arguments.partition is not None:
        if not arguments.topic:
            raise WrongOptionsError("The topic is required when partition is specified.")
        log = named_topic(store, arguments.topic)[arguments.partition]
        return find_logs(store, [log.topic], partition=log.partition)
    names = matching_topics(store, arguments.topic)
    if arguments.topic is not None and not names:
        named_topic(store, arguments.topic)
    return find_logs(store, names)


def _show(bar: Progress, log: "Log", read: int, size: int, done: int, total: int) -> None:
    bar.show(read + done, size, f"{log.topic}-{log.partition}")


def as_tree(
    reports: "list[tuple[Log | MissingFolder, VerifyReport]]", notes: list[str]
) -> dict[str, Any]:
    partitions = []
    for log, report in reports:
        entry = {
            "topic": log.topic,
            "partition": log.partition,
            "path": log.path,
            "ok": report.ok,
            **asdict(report),
        }
        partitions.append(entry)
    ok = all(report.ok for _, report in reports)
    return {"ok": ok, "partitions": partitions, **({"left_out": notes} if notes else {})}


def print_report(
    reports: "list[tuple[Log | MissingFolder, VerifyReport]]", notes: list[str]
) -> None:
    """Print a line per partition with its findings, then the notes and the totals."""
    empty = EmptyPartitions()
    for log, report in reports:
        nothing = not (report.bytes or report.segments > 1 or report.unsealed_batches)
        if empty.omit(log.topic, is_empty=nothing and state_of(report) == "ok"):
            continue
        bare = report.unsealed_batches
        sealed = f", {count_of(bare, 'batch', 'es')} without header checksums" if bare else ""
        tail = f", {report.not_yet_there} bytes not there yet" if report.not_yet_there else ""
        if report.unpublished:
            tail += f", {report.unpublished} bytes not published"
        print(
            f"{log.topic}-{log.partition}: {state_of(report)} "
            f"({count_of(report.segments, 'segment')}, "
            f"{count_of(report.batches, 'batch', 'es')}, {report.bytes} bytes{tail}{sealed})"
        )
        for line in finding_lines(report):
            print(line)
    for line in (*empty.lines("ok"), *notes):
        print(line)
    damaged = sum(not report.ok for _, report in reports)
    warned = sum(report.ok and report.warning_count > 0 for _, report in reports)
    batches = sum(report.batches for _, report in reports)
    size = sum(report.bytes for _, report in reports)
    parts = [f"{damaged} damaged"] if damaged else []
    parts += [f"{warned} with warnings"] if warned else []
    print(
        f"{count_of(len(reports), 'partition')}: {', '.join(parts) or 'all ok'} "
        f"({count_of(batches, 'batch', 'es')}, {size} bytes)"
    )
