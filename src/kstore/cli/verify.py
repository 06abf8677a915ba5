"""``kstore verify``: an audit of every byte that has a meaning."""

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    matching_topics,
    named_topic,
    open_store,
)
from kstore.cli.progress import Progress
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.verify import VerifyReport
    from kstore.store import Store

EPILOG = """\
examples:
  kstore verify --log-dir /var/kafka-logs
  kstore verify --topic 'orders.*' --threads 2 --log-dir data
  kstore verify --json --log-dir data > report.json
  kstore verify --seal --log-dir data

Checks every checksum, every record, the order of offsets, every entry of the offset and time
indexes, the leader epochs, transaction indexes and producer snapshots against the markers, and of
sealed segments the bytes that checksums leave out. Changes nothing and works beside a running
broker or writer: an incomplete batch at the very end is not damage, it is not there yet. What a
publication of the Spark sink has written and not finished is checked, too, and counted. --seal
opens the directory for writing, and seals the rolled segments of partitions that are all right
(kstore seals its own as it goes). Exit status: 0 if all is well, 1 if not; what is wrong is told
by file, position and offset.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir(parser)
    parser.add_argument("--topic", metavar="REGEX", help="topics to verify (default: all)")
    parser.add_argument("--partition", type=int, metavar="N", help="only this partition of --topic")
    parser.add_argument(
        "--threads",
        type=int,
        default=min(os.cpu_count() or 1, 8),
        metavar="COUNT",
        help="how many check at the same time (default: one a processor, at most 8)",
    )
    parser.add_argument(
        "--seal", action="store_true", help="seal rolled segments, where nothing is wrong"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    if arguments.threads < 1:
        raise WrongOptionsError("--threads must be at least 1")
    with open_store(arguments, "a" if arguments.seal else "r") as store:
        logs = chosen(store, arguments)
        if not logs:
            raise KStoreError(f"nothing was verified: no partitions in {', '.join(store.paths)}")
        progress = Progress(sum(log.size for log in logs))
        reports = []
        for log in logs:
            reports.append((log, audit(log, arguments.threads, progress)))
            if arguments.seal and reports[-1][1].ok:
                log.seal()
        progress.clear()
        ok = all(report.ok for _, report in reports)
        if arguments.json:
            print(json.dumps(as_tree(reports), indent=2))
        else:
            tell(reports)
    return 0 if ok else 1


def chosen(store: "Store", arguments: argparse.Namespace) -> "list[Log]":
    if arguments.partition is not None:
        if not arguments.topic:
            raise WrongOptionsError("The topic is required when partition is specified.")
        return [named_topic(store, arguments.topic)[arguments.partition]]
    names = matching_topics(store, arguments.topic)
    if arguments.topic and not names:
        named_topic(store, arguments.topic)
    return [log for name in names for log in store[name]]


def audit(log: "Log", threads: int, progress: Progress) -> "VerifyReport":
    name = f"{log.topic}-{log.partition}"
    report = log.verify(
        threads=threads,
        map_sealed=False,  # a broker may cut any file of its own in place
        progress=lambda done, total: progress.update(done, name),
    )
    progress.base += report.bytes
    return report


def as_tree(reports: "list[tuple[Log, VerifyReport]]") -> dict[str, Any]:
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
    return {"ok": all(report.ok for _, report in reports), "partitions": partitions}


def tell(reports: "list[tuple[Log, VerifyReport]]") -> None:
    """One line a partition, its findings below it, and the sum."""
    for log, report in reports:
        state = "ok" if report.ok else f"{_count(report.finding_count, 'finding')}"
        bare = report.unsealed_batches
        sealed = f", {_count(bare, 'batch', 'es')} without a seal" if bare else ""
        tail = f", {report.not_yet_there} bytes not there yet" if report.not_yet_there else ""
        if report.unpublished:
            tail += f", {report.unpublished} bytes not published"
        print(
            f"{log.topic}-{log.partition}: {state} ({_count(report.segments, 'segment')}, "
            f"{_count(report.batches, 'batch', 'es')}, {report.bytes} bytes{tail}{sealed})"
        )
        for finding in report.findings:
            at = "" if finding.position is None else f" position {finding.position}"
            offset = "" if finding.offset is None else f" offset {finding.offset}"
            print(f"  {finding.kind}: {finding.path}{at}{offset}: {finding.sentence}")
        if report.finding_count > len(report.findings):
            print(f"  ... and {report.finding_count - len(report.findings)} more")
    damaged = sum(not report.ok for _, report in reports)
    batches = sum(report.batches for _, report in reports)
    size = sum(report.bytes for _, report in reports)
    verdict = "all ok" if not damaged else f"{damaged} damaged"
    print(
        f"{_count(len(reports), 'partition')}: {verdict} "
        f"({_count(batches, 'batch', 'es')}, {size} bytes)"
    )


def _count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending if number != 1 else ''}"
