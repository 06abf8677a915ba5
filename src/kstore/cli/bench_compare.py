"""``kstore bench compare``: two files of results, or two installations measured in one run."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.common import ToolParser, WrongOptionsError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.bench.report.results import Tree

ABOUT = """\
compare judges each figure of kstore by its rounds in both runs, beside the contestants that are not
kstore's: what those share is the machine's and is not charged to kstore (--absolute: it is). Of
fifty comparisons of equal runs at most two have a false alarm. What failed or is missing in the
second run is listed. compare --run measures two installations in one run, in which their calls take
turns; it finds smaller changes, also on a busy machine. Each is a Python interpreter in whose
environment kstore is installed, or a checkout with built kernels.
Exit status: 0, nothing is slower (compare) or nothing failed; 3, something is slower; 4, it cannot
say: most contestants have too few rounds, or rounds that differ too much; 1, a contestant failed
(compare: in the second run), or a file cannot be read or written. The figures of
two verdicts are shown with the better grade, but not judged: they do not change the exit status.
"""
SLOWER, UNSURE = 3, 4
SECONDS, SITTINGS = 10, 3


def describe(parser: ToolParser) -> None:
    """Add the options of ``compare``."""
    parser.add_argument("--absolute", action="store_true", help="compare: everything by time")
    parser.add_argument("--all", action="store_true", help="compare: also what did not change")
    parser.add_argument(
        "--run",
        action="store_true",
        help="compare: measure two installations, of which one may be the one that runs this",
    )
    parser.add_argument(
        "--seconds",
        type=whole_number(1, INT32_MAX),
        default=SECONDS,
        metavar="N",
        help="compare --run: of each contest in a sitting (default: %(default)s)",
    )
    parser.add_argument(
        "--sittings",
        type=whole_number(1, INT32_MAX),
        default=SITTINGS,
        metavar="N",
        help="compare --run: how often both start new processes (default: %(default)s)",
    )


def run(words: list[str], arguments: argparse.Namespace, on_progress: Callable[[str], None]) -> int:
    """Compare two files, or measure and compare two installations; returns the exit status."""
    from kstore.bench.report import results

    if arguments.run:
        if len(words) < 2:
            raise WrongOptionsError(
                "compare --run needs two Python interpreters or checkouts, then the contests"
            )
        before, after = measure(words, arguments, on_progress)
    elif len(words) != 2:
        raise WrongOptionsError("compare needs two files written by --json")
    else:
        before, after = (results.read(Path(name)) for name in words)
    return judge(before, after, arguments)


def measure(
    words: list[str], arguments: argparse.Namespace, on_progress: Callable[[str], None]
) -> tuple["Tree", "Tree"]:
    """Measure two installations; ``--json a.json`` keeps ``a.before.json`` and ``a.after.json``."""
    from kstore.bench.report import results
    from kstore.bench.runner.interleave import Installation, interleave
    from kstore.bench.suite import workspace

    files = []
    if arguments.json is not None:
        stem = arguments.json.stem
        files = [arguments.json.with_stem(f"{stem}.{name}") for name in ("before", "after")]
        if taken := [path for path in files if path.exists() and not arguments.force]:
            raise WrongOptionsError(f"{taken[0]} exists; --force replaces it")
    pair = Installation(Path(words[0])), Installation(Path(words[1]))
    with workspace(arguments.dir, 0) as folder:
        trees = interleave(
            pair,
            words[2:],
            folder,
            level="full" if arguments.full else "quick",
            seconds=arguments.seconds,
            sittings=arguments.sittings,
            on_progress=on_progress,
        )
    for path, tree in zip(files, trees, strict=False):
        results.write(path, tree, replace=arguments.force)
    on_progress("")
    return trees


def judge(before: "Tree", after: "Tree", arguments: argparse.Namespace) -> int:
    """Print the comparison of two results; returns the exit status.

    The verdicts of both come first; two runs of ``verdict`` alone have nothing else.
    """
    from kstore.bench.report import compare, side_by_side

    verdicts = list(side_by_side.lines(before, after))
    print("".join(f"{line}\n" for line in verdicts), end="\n" if verdicts else "")
    for difference in compare.differences(before, after):
        print(f"not the same: {difference}")
    lost = compare.losses(before, after)
    print("".join(f"{line}\n" for line in lost), end="")
    failed = any(line.startswith("failed: ") for line in lost)
    found = compare.compare(before, after, absolute=arguments.absolute)
    if not found.figures and not failed:
        if verdicts:
            return 0
        raise WrongOptionsError("the two have no contest of the same size in common")
    print("\n".join(compare.lines(found, every=arguments.all)))
    if failed:
        return 1
    return SLOWER if found.is_slower else UNSURE if found.is_unsure else 0
