"""``kstore bench``: measures what this machine offers a log."""

import argparse
import logging
import os
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli import bench_compare
from kstore.cli.common import ToolParser, WrongOptionsError, complain
from kstore.integers import INT32_MAX
from kstore.partition_files import count_of

if TYPE_CHECKING:
    from kstore.bench.report.results import Tree
    from kstore.bench.runner.environment import Environment
    from kstore.bench.suite import Suite
    from kstore.bench.workload import Catalog, Workload

EPILOG = """\
examples:
  kstore bench --quick --dir /mnt/nvme
  kstore bench --dir /mnt/nvme --json nvme.json --html nvme.html
  kstore bench --quick --details disk/commit
  kstore bench --list
  kstore bench compare before.json after.json
  kstore bench compare --run /opt/old/bin/python /opt/new/bin/python disk/commit

The first screen is a verdict: is this directory, on this machine, good for a log? It grades
sustained writing and the latency of commits, says what each figure means in records and consumers,
and compares it with classes of devices. A table of the fastest methods follows; --details prints
every method of every contest with its interval. Every result is checked. Files are written to a new
folder below --dir and deleted at the end, also after an interrupt. --quick takes under two minutes
and the default under ten, with fewer rounds on a slow machine; --full takes an hour or more.

"""
COLUMNS = 80  # for a terminal of unknown width


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG + bench_compare.ABOUT
    parser.add_argument(
        "words",
        nargs="*",
        metavar="GROUP",
        help="groups (verdict, disk, memory, page-cache, sockets) or single workloads "
        "(disk/commit), default: all; or: compare A.json B.json, or: compare --run A B GROUP...",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small data, under two minutes")
    size.add_argument("--full", action="store_true", help="large data: an hour or more")
    parser.add_argument(
        "--dir",
        "--path",
        type=Path,
        default=Path(tempfile.gettempdir()),
        metavar="DIR",
        help="a directory on the disk to test (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report to FILE")
    parser.add_argument(
        "--force", action="store_true", help="--json and --html may replace files that exist"
    )
    parser.add_argument("--list", action="store_true", help="list what would be measured")
    parser.add_argument(
        "--details",
        action="store_true",
        help="print the environment and every method; --list: name the methods",
    )
    parser.add_argument(
        "--rounds", type=whole_number(1, INT32_MAX), metavar="N", help="rounds of every contest"
    )
    bench_compare.describe(parser)


def run(arguments: argparse.Namespace, catalog: "Catalog | None" = None) -> int:
    """Run, list or compare; ``catalog`` has the workloads, by default those of the machine."""
    words = list(arguments.words)
    if words[:1] == ["compare"]:
        return bench_compare.run(words[1:], arguments, progress)
    from kstore.bench.workload import MACHINE, workloads

    catalog = catalog or MACHINE
    try:
        chosen = workloads(words, catalog)
    except ValueError as error:
        raise WrongOptionsError(str(error)) from None
    level = "quick" if arguments.quick else "full" if arguments.full else "default"
    if arguments.list:
        print_workloads(chosen, details=arguments.details or catalog.for_developers)
        return 0
    for path in (arguments.json, arguments.html):
        refuse_to_replace(path, arguments.force)
    if arguments.json and arguments.html and arguments.json.resolve() == arguments.html.resolve():
        raise WrongOptionsError("--json and --html name the same file")
    return measure(chosen, level, arguments, catalog)


def refuse_to_replace(path: Path | None, force: bool) -> None:
    """Raise WrongOptionsError, before anything runs, if a result file exists or is not writable."""
    if path is None:
        return
    parent = path.absolute().parent
    try:
        if path.is_dir():
            raise WrongOptionsError(f"{path} is a directory; name a file in it")
        if path.exists() and not force:
            raise WrongOptionsError(f"{path} exists; --force replaces it")
        if not parent.is_dir():
            raise WrongOptionsError(f"there is no directory {parent} for {path.name}")
        if path.is_file():
            path.open("ab").close()
        elif not path.exists():
            path.open("x").close()
            path.unlink()
    except OSError as error:
        raise WrongOptionsError(f"{path} cannot be written: {error.strerror}") from None


def print_workloads(chosen: "list[Workload]", *, details: bool) -> None:
    """Print what each workload measures, and with how much data; ``details``: also its methods, its
    ceiling and its peers."""
    for workload in chosen:
        print(f"{workload.title}: {workload.about}")
        if details:
            print(f"    shows: {workload.shows}")
            print(f"    ceiling: {workload.ceiling}")
        if details and workload.peers:
            print(f"    peers, if installed: {', '.join(workload.peers)}")
        quick, default, full = (f"{size >> 20:,} MiB" for size in workload.sizes)
        print(f"    data of a round, at most: {quick} (--quick), {default}, {full} (--full)")


def measure(
    chosen: "list[Workload]", level: str, arguments: argparse.Namespace, catalog: "Catalog"
) -> int:
    from kstore.bench.runner.environment import absent
    from kstore.bench.suite import Suite, left_behind

    missing = absent(catalog.peers)
    suite = Suite(chosen, arguments.dir, level, arguments.rounds, absent=missing)
    details = arguments.details or catalog.for_developers
    listen(suite, details=details, targets=catalog.for_developers)
    for folder in left_behind(arguments.dir):
        complain(f"{folder} belongs to another run; if that was killed, remove the folder")
    logger = logging.getLogger("kstore")
    before = logger.level
    logger.setLevel(logging.ERROR)  # the contests recover logs on purpose
    kept = True
    try:
        tree = suite.run()
    finally:
        logger.setLevel(before)
        clear()
        if suite.tree:
            kept = write_results(suite.tree, arguments, targets=catalog.for_developers)
            print_verdict(suite.tree, details=details)
    return 1 if tree["failed"] or not kept else 0


def write_results(tree: "Tree", arguments: argparse.Namespace, *, targets: bool) -> bool:
    """Write the files that were requested, also after an interrupt; False if one failed."""
    from kstore.bench.report import html_page, results

    kept = True
    page = partial(html_page.html, targets=targets)
    for wanted, text in ((arguments.json, results.text), (arguments.html, page)):
        if wanted is None:
            continue
        try:
            there = results.put(wanted, text(tree), replace=arguments.force)
        except OSError as error:  # still write the other file
            complain(f"{wanted} could not be written: {error.strerror}")
            kept = False
            continue
        if there != wanted:
            complain(f"{wanted} was created during the run; the results are in {there}")
    return kept


def listen(suite: "Suite", *, details: bool, targets: bool) -> None:
    """Print failures, and one line of progress on a terminal. ``details``: also print the
    environment and the table of each finished contest; ``targets``: with its target ratios."""
    from kstore.bench.report import text_table
    from kstore.bench.runner import environment

    def on_start(found: "Environment") -> None:
        clear()
        print("\n".join(environment.lines(found)), end="\n\n", flush=True)

    def on_result(result: "Tree") -> None:
        clear()
        print("\n".join(text_table.lines(result, targets=targets)), end="\n\n", flush=True)

    def on_failure(title: str, reason: str) -> None:
        clear()
        complain(f"{title} failed: {reason}")

    listener = suite.listener
    listener.on_failure, listener.on_progress = on_failure, progress
    if details:
        listener.on_start, listener.on_result = on_start, on_result


def print_verdict(tree: "Tree", *, details: bool) -> None:
    """Print the verdict if its figures were measured, the table unless already printed, and what is
    missing."""
    from kstore.bench.machine.figures import of_tree
    from kstore.bench.report import text_table, verdict

    if tree.get("figures"):
        print("\n".join(verdict.lines(verdict.subject_of(tree), of_tree(tree))), end="\n\n")
    if tree["results"] and not details:
        print("\n".join(text_table.fastest(tree["results"])), end="\n\n")
    for name, reason in tree["missing"].items():
        print(f"missing: {name}: {reason}")
    ended = f", interrupted by {tree['ended_by']}" if "ended_by" in tree else ""
    number = len(tree["results"])
    contests = f"{count_of(number, 'contest')} in " if number else ""
    print(f"{contests}{tree.get('seconds', 0):.0f} s{ended}")


def progress(text: str, end: str = "") -> None:
    """Print one line on a terminal; ignore a closed terminal, or one without a size."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
            width = max(columns - 1, 0)
            sys.stderr.write(f"\r{text[:width].ljust(width)}{end}")
            sys.stderr.flush()


def clear() -> None:
    progress("", end="\r")
