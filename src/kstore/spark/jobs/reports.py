"""The report of a job on each partition: as lines, and as JSON."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from kstore.partition_files import count_of


class PartitionResult(Protocol):
    """A job's dataclass for a partition; fields of its ``report`` are merged into its JSON."""

    @property
    def ok(self) -> bool: ...


def add_reporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="save finished partitions in this file until the job is done, and resume from it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, change nothing"
    )


def as_tree(reports: Sequence[PartitionResult]) -> dict[str, Any]:
    return {
        "ok": all(each.ok for each in reports),
        **from_file(reports),
        "partitions": [_as_tree(each) for each in reports],
    }


def from_file(reports: Sequence[PartitionResult]) -> dict[str, Any]:
    """How many reports are of an earlier run, and the time of the oldest; empty without any."""
    times = [time for report in reports if (time := getattr(report, "from_file", None))]
    return {"from_file": len(times), "from_file_since": min(times)} if times else {}


def from_file_lines(tree: dict[str, Any]) -> list[str]:
    """A line on the reports of earlier runs, if any."""
    if "from_file" not in tree:
        return []
    return [
        f"{tree['from_file']} of them were done by an earlier run, since {tree['from_file_since']},"
        " and are unchanged: their reports are from the file"
    ]


def _as_tree(report: PartitionResult) -> dict[str, Any]:
    tree = asdict(report)  # type: ignore[call-overload]  # a dataclass
    tree.pop("from_file", None)
    if not tree.get("is_deleted"):
        tree.pop("is_deleted", None)
    tree |= tree.pop("report", {})
    error = tree.pop("error", None)
    first = {name: tree.pop(name) for name in ("topic", "partition", "path") if name in tree}
    return {**first, "ok": report.ok, **tree, **({} if error is None else {"error": error})}


def count_with_commas(number: int, noun: str, ending: str = "s") -> str:
    return count_of(number, noun, ending, form=",")


def verdict(reports: Sequence[PartitionResult]) -> str:
    """The last line of a report."""
    bad = sum(not each.ok for each in reports)
    return f"{count_of(len(reports), 'partition')}: " + (f"{bad} not ok" if bad else "all ok")


def show(as_json: bool, reports: Sequence[PartitionResult], lines: Sequence[str]) -> int:
    """Print a job's reports, as JSON or in lines; its exit status."""
    tree = as_tree(reports)
    print(json.dumps(tree, indent=2) if as_json else "\n".join(lines))
    return 0 if tree["ok"] else 1
