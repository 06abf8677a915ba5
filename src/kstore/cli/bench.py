"""``kstore bench``: what this machine can do, and what kstore makes of it."""

import argparse
import logging
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kstore.cli.common import ToolParser, WrongOptionsError, complain

if TYPE_CHECKING:
    from kstore.bench.environment import Environment
    from kstore.bench.results import Tree
    from kstore.bench.suite import Suite
    from kstore.bench.workload import Workload

EPILOG = """\
examples:
  kstore bench --quick --dir /mnt/nvme
  kstore bench disk page-cache --json before.json --html before.html
  kstore bench --list
  kstore bench compare before.json after.json

Measures sequential and random writes, reads through the page cache, sends to sockets, and what the
engine makes of them, each beside its ceiling, in interleaved rounds; every result is checked. The
environment and the noise of the machine (a thing against itself) come before any figure. Files are
made in a new folder below --dir and removed in the end, after an interrupt too. --quick takes under
two minutes and the default under ten, with fewer rounds on a slow machine; --full an hour or more.
What stands beside kstore and is not installed is named; 'pip install kstore[bench]' brings most.

compare tells what changed between two runs beyond their noise: a contestant by its fraction of the
ceiling of its own run, a ceiling by its time (--absolute: all by time); each figure by itself, and
those of a group, a workload and a contestant taken together. Between two runs of the same, chance
calls something slower once in twenty times at most. What failed or is gone in the second is listed.
Exit status: 0, nothing is slower (of compare) or nobody failed; 3, something is slower; 4, nothing
is surely slower, but one figure is much slower in too few rounds, or the noise hid everything; 1, a
contestant failed (of compare: in the second run), or results cannot be read or written.
"""
SLOWER, UNSURE = 3, 4
COLUMNS = 80  # of a terminal that does not say how wide it is


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "words",
        nargs="*",
        metavar="GROUP",
        help="groups (disk, memory, page-cache, sockets, engine) or single workloads "
        "(disk/commit), default: all; or: compare A.json B.json",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small data, under two minutes")
    size.add_argument("--full", action="store_true", help="large data: an hour or more")
    parser.add_argument(
        "--dir",
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
    parser.add_argument("--list", action="store_true", help="tell what would be measured")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every contest")
    parser.add_argument("--absolute", action="store_true", help="compare: all by time")
    parser.add_argument("--all", action="store_true", help="compare: also what did not change")


def run(arguments: argparse.Namespace) -> int:
    words = list(arguments.words)
    if words[:1] == ["compare"]:
        return compare(words[1:], arguments)
    if arguments.rounds is not None and arguments.rounds < 1:
        raise WrongOptionsError("--rounds must be at least 1")
    from kstore.bench.workload import workloads

    try:
        chosen = workloads(words)
    except ValueError as error:
        raise WrongOptionsError(str(error)) from None
    level = "quick" if arguments.quick else "full" if arguments.full else "default"
    if arguments.list:
        tell_workloads(chosen, level)
        return 0
    for path in (arguments.json, arguments.html):
        refuse_to_replace(path, arguments.force)
    if arguments.json and arguments.html and arguments.json.resolve() == arguments.html.resolve():
        raise WrongOptionsError("--json and --html name the same file")
    return measure(chosen, level, arguments)


def refuse_to_replace(path: Path | None, force: bool) -> None:
    """Before anything is measured: an hour's run must not end at a file that is in the way, or that
    cannot be written."""
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


def tell_workloads(chosen: "list[Workload]", level: str) -> None:
    for workload in chosen:
        print(f"{workload.title}: {workload.about}")
        print(f"    shows: {'; '.join(workload.shows)}")
        print(f"    ceiling: {workload.ceiling}")
        if workload.peers:
            print(f"    beside it, where they are: {', '.join(workload.peers)}")
        sizes = " / ".join(f"{size >> 20:,} MiB" for size in workload.sizes)
        print(f"    data a round, quick / default / full: {sizes} (now: {level})")


def measure(chosen: "list[Workload]", level: str, arguments: argparse.Namespace) -> int:
    from kstore.bench.suite import Suite, left_behind

    suite = Suite(chosen, arguments.dir, level, arguments.rounds)
    listen(suite)
    for folder in left_behind(arguments.dir):
        complain(f"{folder} is of another run; if that was killed, remove the folder")
    logger = logging.getLogger("kstore")
    before = logger.level
    logger.setLevel(logging.ERROR)  # recoveries that are wanted, again and again
    kept = True
    try:
        tree = suite.run()
    finally:
        logger.setLevel(before)
        clear()
        if suite.tree:
            kept = keep(suite.tree, arguments)
    for name, reason in tree["missing"].items():
        print(f"missing: {name}: {reason}")
    print(f"{len(tree['results'])} contests in {tree['seconds']:.0f} s")
    return 1 if tree["failed"] or not kept else 0


def keep(tree: "Tree", arguments: argparse.Namespace) -> bool:
    """Write what was asked for, of an interrupted run too; whether all of it could be written."""
    from kstore.bench import page, results

    kept = True
    for wanted, text in ((arguments.json, results.text), (arguments.html, page.html)):
        if wanted is None:
            continue
        try:
            there = results.put(wanted, text(tree), replace=arguments.force)
        except OSError as error:  # the other one is still written
            complain(f"{wanted} could not be written: {error.strerror}")
            kept = False
            continue
        if there != wanted:
            complain(f"{wanted} came to be during the run; the results are in {there}")
    return kept


def listen(suite: "Suite") -> None:
    """Tables on standard output as they are done, one line of progress on a terminal."""
    from kstore.bench import environment, table

    def begun(found: "Environment", noises: dict[str, float]) -> None:
        clear()
        print("\n".join(environment.lines(found)))
        told = ", ".join(f"{kind} {value:.1%}" for kind, value in noises.items())
        print(f"noise     a thing against itself differs by: {told}\n", flush=True)

    def finished(result: "Tree") -> None:
        clear()
        print("\n".join(table.lines(result)), end="\n\n", flush=True)

    def failed(title: str, reason: str) -> None:
        clear()
        complain(f"{title} failed: {reason}")

    listener = suite.listener
    listener.begun, listener.finished, listener.failed = begun, finished, failed
    listener.progress = progress


def progress(text: str, end: str = "") -> None:
    """One line on a terminal; a terminal that is gone or of no size costs nobody a figure."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
            width = max(columns - 1, 0)
            sys.stderr.write(f"\r{text[:width].ljust(width)}{end}")
            sys.stderr.flush()


def clear() -> None:
    progress("", end="\r")


def compare(files: list[str], arguments: argparse.Namespace) -> int:
    from kstore.bench import compare as comparison
    from kstore.bench import results

    if len(files) != 2:
        raise WrongOptionsError("compare wants two files that --json wrote")
    before, after = (results.read(Path(name)) for name in files)
    for told in comparison.differences(before, after):
        print(f"not the same: {told}")
    lost = comparison.losses(before, after)
    print("".join(f"{told}\n" for told in lost), end="")
    failed = any(told.startswith("failed: ") for told in lost)
    found = comparison.compare(before, after, absolute=arguments.absolute)
    if not found.changes and not failed:
        raise WrongOptionsError("the two files have no contest of the same size in common")
    print("\n".join(comparison.lines(found, every=arguments.all)))
    if failed:
        return 1
    return SLOWER if found.is_slower else UNSURE if found.is_unsure else 0
