"""``kstore reindex``: rebuilds indexes, header checksums and producer state of a directory."""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore.cli import partition_tool
from kstore.cli.common import ToolParser
from kstore.partition_files import count_of
from kstore.report_lines import reindex_line

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import ReindexReport

EPILOG = """\
examples:
  kstore reindex --log-dir data
  kstore reindex --dry-run --topic 'orders.*' --log-dir data
  kstore reindex --topic orders --partitions 0,1 --json --log-dir data

Rebuilds offset indexes, time indexes, header checksums, transaction indexes and producer snapshots
from the logs. The result equals recovery without these files. Logs are read and checked, and do
not change. Only files that differ are replaced, each by a rename, so each is correct even if the
tool is killed. A corrupt segment keeps the files it has and is reported; the
producer state of its partition does not change then ('kstore repair' saves what is valid).
No other process may write meanwhile. 'kstore spark reindex' does the same on all cores of a
cluster.

exit status: 0 done; 1 an error, or a segment with damage
"""


@dataclass(frozen=True, slots=True)
class _Plan:
    segments: int
    bytes: int


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    partition_tool.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    tool = partition_tool.Tool(
        plan=_plan,
        work=lambda log, progress: log.reindex(progress=progress),
        plan_line=lambda plan: f"would read {plan.segments} segments, {plan.bytes} bytes",
        line=reindex_line,
        sum_line=_sum,
    )
    return partition_tool.run(arguments, tool)


def _plan(log: "Log") -> _Plan:
    return _Plan(len(log.segments.views), log.size)


def _sum(reports: "list[ReindexReport]") -> str:
    written = sum(len(each.written) for each in reports)
    return (
        f"{count_of(written, 'file')} written, {sum(len(each.removed) for each in reports)} removed"
    )
