"""The loop over partitions and the report that ``recompress``, ``convert`` and ``reindex``
share."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from kstore.arguments import partition_numbers
from kstore.cli.common import ToolParser, add_log_dir, matching_topics, named_topic, open_store
from kstore.cli.empty_partitions import EmptyPartitions, is_empty, print_lines
from kstore.cli.progress import OnProgress, Progress
from kstore.errors import KStoreError, UnknownTopicOrPartitionError
from kstore.partition_files import count_of
from kstore.report_lines import damage_lines, rewrite_line

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.partition_files import RewritePlan, RewriteReport, RewriteTarget
    from kstore.store.store import Store


class Tool(NamedTuple):
    """The operation and report functions of a tool; ``plan`` changes nothing."""

    plan: Callable[["Log"], Any]
    work: Callable[["Log", OnProgress], Any]
    plan_line: Callable[[Any], str]
    line: Callable[[Any], str]
    sum_line: Callable[[list[Any]], str]


def add_options(parser: ToolParser) -> None:
    add_log_dir(parser)
    parser.add_argument("--topic", metavar="REGEX", help="topics (default: all)")
    parser.add_argument("--partitions", metavar="N,N,...", help="partitions (default: all)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="report what would be done and change nothing; another process may write meanwhile",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def run(arguments: argparse.Namespace, tool: Tool) -> int:
    """Process each chosen partition; report an error of one and continue with the others."""
    reports: list[Any] = []
    trees: list[dict[str, Any]] = []
    empty = EmptyPartitions()
    with open_store(arguments, "r" if arguments.dry_run else "a") as store:
        for topic, partition in chosen_partitions(store, arguments):
            tree: dict[str, Any] = {"topic": topic, "partition": partition}
            try:
                log = store[topic][partition]
                report = tool.plan(log) if arguments.dry_run else _work(log, tool)
            except KStoreError as error:
                tree |= {"ok": False, "error": str(error)}
                lines = [str(error)]
            else:
                reports.append(report)
                tree |= {"path": log.path, "ok": getattr(report, "ok", True), **asdict(report)}
                lines = [(tool.plan_line if arguments.dry_run else tool.line)(report)]
                lines += damage_lines(getattr(report, "damages", ()))
            trees.append(tree)
            nothing = tree["ok"] and "path" in tree and is_empty(log)
            if not (empty.omit(topic, is_empty=nothing) or arguments.json):
                print(f"{topic}-{partition}: " + "\n".join(lines), flush=True)
        if not arguments.json:
            print_lines(empty.lines("nothing to do"))
        # Before the store is closed, because the work is done even if closing fails.
        return _print_report(arguments, tool, reports, trees)


def _print_report(
    arguments: argparse.Namespace, tool: Tool, reports: list[Any], trees: list[dict[str, Any]]
) -> int:
    bad = sum(not tree["ok"] for tree in trees)
    if arguments.json:
        about = {"ok": not bad, "dry_run": arguments.dry_run, "partitions": trees}
        print(json.dumps(about, indent=2), flush=True)
    else:
        state = f"{bad} not ok" if bad else "all ok"
        done = "nothing was changed" if arguments.dry_run else tool.sum_line(reports)
        print(f"{count_of(len(trees), 'partition')}, {state}: {done}", flush=True)
    return 1 if bad else 0


def chosen_partitions(store: "Store", arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """The partitions of ``--topic`` and ``--partitions``. Raises if one does not exist."""
    names = matching_topics(store, arguments.topic)
    if arguments.topic is not None and not names:
        named_topic(store, arguments.topic)  # raises, and lists the topics
    wanted = None if arguments.partitions is None else set(partition_numbers(arguments.partitions))
    if wanted is not None:
        known = {partition for name in names for partition in store[name].partitions}
        if missing := sorted(wanted - known):
            raise UnknownTopicOrPartitionError(
                f"no such partition: {', '.join(map(str, missing))}; "
                f"{arguments.topic or 'the store'} has {', '.join(map(str, sorted(known)))}"
            )
    for name in names:
        for partition in store[name].partitions:
            if wanted is None or partition in wanted:
                yield name, partition


def _work(log: "Log", tool: Tool) -> Any:
    with Progress() as bar:
        return tool.work(
            log, lambda done, total: bar.show(done, total, f"{log.topic}-{log.partition}")
        )


# --- reports of recompress and convert ------------------------------------------------------------


def rewriting(
    target: "RewriteTarget", work: Callable[["Log", OnProgress], "RewriteReport"], *, roll: bool
) -> Tool:
    """A tool that rewrites rolled segments; validates the target before a store is opened."""
    from kstore.partition_files import plan_rewrite

    target.check()
    plan_line = _plan_line_of_smaller if target.keeps_smaller else _plan_line
    return Tool(lambda log: plan_rewrite(log, target, roll=roll), work, plan_line, _line, _sum)


def _plan_line(plan: "RewritePlan") -> str:
    return (
        f"would rewrite {plan.segments_to_rewrite} of {count_of(plan.segments, 'segment')}, "
        f"{plan.bytes_to_rewrite} of {plan.bytes} bytes"
    )


def _plan_line_of_smaller(plan: "RewritePlan") -> str:
    """The plan reads only headers, so it does not know which batches compression would enlarge."""
    line = _plan_line(plan).replace("would", "may", 1)
    return f"{line}; batches that would grow stay as they are"


def _line(report: "RewriteReport") -> str:
    return rewrite_line(report, report.segments + len(report.damages))


def _sum(reports: "list[RewriteReport]") -> str:
    before = sum(each.bytes_before for each in reports)
    return f"{before} bytes to {sum(each.bytes_after for each in reports)}"
