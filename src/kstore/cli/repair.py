"""``kstore repair``: saves everything valid in a damaged directory to a new one."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.cli.common import ToolParser, WrongOptionsError
from kstore.cli.empty_partitions import EmptyPartitions
from kstore.cli.explain_lock import naming_lock_holder
from kstore.cli.progress import Progress
from kstore.partition_files import count_of

if TYPE_CHECKING:
    from kstore.maintenance.repair import RepairReport
    from kstore.partition_files import Damage, PartitionRepair

EPILOG = """\
examples:
  kstore repair --path /var/kafka-logs
  kstore repair --path /var/kafka-logs/orders-0 --execute --output rescued
  kstore repair --json --path data > plan.json

Without --execute only the plan is printed. The damaged directory is never changed; the output is
a new log directory with the same partitions, each batch unchanged, indexes and everything else
rebuilt. One corrupt batch costs one batch. Records that are lost, with a segment or at the end of
a log, are listed as missing.

exit status:
  0  nothing was damaged
  1  the repair failed
  2  something was damaged or missing, and the rest is (or would be) saved
  3  warnings only: records may be missing, and nothing on disk proves it
"""

DAMAGED, WARNINGS = 2, 3


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--path",
        "--log-dir",
        required=True,
        metavar="DIR",
        help="REQUIRED: the damaged log directory, or the directory of one partition",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--execute", action="store_true", help="write what can be saved")
    action.add_argument("--dry-run", action="store_true", help="print the plan only: the default")
    parser.add_argument(
        "--output", metavar="DIR", help="with --execute: the new log directory; it must be empty"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    from kstore.maintenance.repair import plan_repair, repair

    if arguments.execute != (arguments.output is not None):
        raise WrongOptionsError("--execute and --output go together")
    with Progress() as bar, naming_lock_holder():
        if arguments.execute:
            report = repair(arguments.path, arguments.output, progress=bar.show)
        else:
            report = plan_repair(arguments.path, progress=bar.show)
    if arguments.json:
        print(json.dumps(as_tree(report), indent=2))
    else:
        print_report(report)
    if not report.ok:
        return DAMAGED
    return WARNINGS if report.has_warnings else 0


def as_tree(report: "RepairReport") -> dict[str, Any]:
    tree = asdict(report)
    tree["ok"] = report.ok
    for entry, partition in zip(tree["partitions"], report.partitions, strict=True):
        entry["ok"] = partition.ok
        entry["lost_bytes"] = partition.lost_bytes
        for name in ("missing", "warnings"):
            entry[name] = [loss._asdict() for loss in getattr(partition, name)]
    return tree


def print_report(report: "RepairReport") -> None:
    """Print a line for each partition with its damage, and the totals."""
    verb = "kept" if report.output is None else "saved"
    empty = EmptyPartitions()
    for partition in report.partitions:
        if not empty.omit(partition.name.rpartition("-")[0], is_empty=_has_nothing(partition)):
            _print_partition(partition, verb)
    for note in (*empty.lines("ok"), *report.notes, *report.left_out):
        print(note)
    for warning in report.warnings:
        print(f"warning: {warning}")
    batches = sum(each.batches for each in report.partitions)
    size = sum(each.bytes for each in report.partitions)
    lost = sum(each.lost_bytes for each in report.partitions)
    damaged = sum(not each.ok for each in report.partitions)
    done = (
        "nothing was written; --execute --output DIR does it"
        if report.output is None
        else f"written to {report.output}"
    )
    print(
        f"{count_of(len(report.partitions), 'partition')}, {damaged} damaged: "
        f"{count_of(batches, 'batch', 'es')} ({size} bytes) {verb}, {lost} bytes not; {done}"
    )


def _has_nothing(partition: "PartitionRepair") -> bool:
    """Whether a partition never had a record, and has no findings."""
    said = (
        partition.damages, partition.missing, partition.warnings, partition.gaps, partition.notes,
        partition.left_out, partition.findings,
    )  # fmt: skip
    return partition.ok and not partition.end_offset and not any(said)


def _print_partition(partition: "PartitionRepair", verb: str) -> None:
    state = "ok" if partition.ok else "damaged"
    print(
        f"{partition.name}: {state}, {count_of(partition.batches, 'batch', 'es')} {verb} "
        f"({partition.bytes} bytes), log end offset {partition.end_offset}"
    )
    for damage in partition.damages:
        print(
            f"  {damage.kind}: {damage.path} position {damage.position} size {damage.size}"
            f"{_lost(damage)}: {damage.reason}"
        )
    for loss in partition.missing:
        print(f"  missing: {loss.path} offset {loss.offset}: {loss.sentence}")
    for loss in partition.warnings:
        print(f"  warning: {loss.path} offset {loss.offset}: {loss.sentence}")
    for gap in partition.gaps:
        print(f"  gap: offsets {gap.first_offset} to {gap.last_offset} are in no kept batch")
    for note in (*partition.notes, *partition.left_out):
        print(f"  {note}")
    for finding in partition.findings:
        print(f"  left as it is: {finding.kind}: {finding.path}: {finding.sentence}")


def _lost(damage: "Damage") -> str:
    if damage.first_offset is None:
        return ""
    if damage.last_offset is None:
        return f" lost offsets from {damage.first_offset} on"
    return f" lost offsets {damage.first_offset} to {damage.last_offset}"
