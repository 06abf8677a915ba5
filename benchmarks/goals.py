"""Every wanted figure, in one run and one table, beside its floor and its peers.

    python benchmarks/goals.py --table docs/performance.md --json goals.json
    python benchmarks/goals.py engine/append disk/commit       # these workloads only, printed
    KSTORE_BENCH_SCALE=0.01 python benchmarks/goals.py

Runs the contests of the engine and of the disk that have a wanted ratio, with Apache Kafka (Java
17), in interleaved rounds, fewer of those that take long. In a Markdown file the table replaces the
text between two marks.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import strftime

from engine.workloads import CATALOG
from kstore.bench.contest import Contest
from kstore.bench.report import results, text_table
from kstore.bench.runner.environment import absent
from kstore.bench.suite import Suite
from kstore.bench.workload import Workload, workloads
from kstore.errors import KStoreError
from peers import provide_kafka

# Headings of the table, and the workloads below each with their seconds of a run: enough for three
# rounds of a workload's longest contests, and for more of the others.
SECTIONS = {
    "Kernels": {
        "engine/checksum": 20,
        "engine/segments": 50,
        "engine/index": 80,
        "engine/records": 20,
        "engine/jit": 10,
    },
    "Appending, page cache": {"engine/append": 70, "engine/publish": 40, "engine/admission": 40},
    "Reading, scanning and recovering a log, page cache": {"engine/read": 210},
    "Directories": {"engine/open": 100, "engine/recovery": 180},
    "Compacting": {"engine/compaction": 110},
    "Whole programs": {"engine/programs": 130, "engine/start": 10},
    "On disk": {"engine/stream": 100, "disk/commit": 70},
    "Warm and cold files, sockets": {"engine/fetch": 60},
}
SECONDS = {title: each for several in SECTIONS.values() for title, each in several.items()}
HEAD = ("work", "floor", "kstore, of the floor", "beside it", "times as fast", "wanted", "")
BEGIN, END = "<!-- goals.py writes from here -->", "<!-- to here -->"


def has_bar(contest: Contest) -> bool:
    return any(wanted is not None for _, _, wanted in contest.bars)


# --- the table --------------------------------------------------------------------------------


def row(*cells: str) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


def wanted(result: results.Tree) -> list[results.Tree]:
    return [bar for bar in result["bars"] if bar["wanted"] is not None]


def rows(result: results.Tree) -> Iterator[str]:
    """A contest, one line for each wanted ratio; cells equal to those above stay empty."""
    entries = {entry["name"]: entry for entry in result["contestants"]}
    above: tuple[str, ...] = ("", "", "")
    order = list(entries)
    for bar in sorted(wanted(result), key=lambda bar: order.index(bar["ours"])):
        ours = entries[bar["ours"]]
        cells = (result["contest"], floor(result, ours), own(result, ours))
        shown = (new if new != old else "" for new, old in zip(cells, above, strict=True))
        above = cells
        yield row(
            *shown,
            peer(result, bar),
            with_interval(bar),
            f"{bar['wanted']:.3g}",
            verdict(bar),
        )


def floor(result: results.Tree, ours: results.Tree) -> str:
    """The ceiling of the contest, unless it is the contestant itself."""
    if result["ceiling"] == ours["contestant"] or "of_ceiling" not in ours:
        return ""
    passed = ", no floor: passed" if ours["name"] in (result.get("passed_by") or {}) else ""
    more = text_table.beside(result["ceiling"], result)
    return f"{beside(result, result['ceiling'])}{more}{passed}"


def own(result: results.Tree, ours: results.Tree) -> str:
    """kstore's figure, its fraction of the floor, and its further figures."""
    name = ours["name"].removeprefix("kstore").lstrip(", ").removesuffix(text_table.MIB)
    share = f", {ours['of_ceiling']['median']:.2f}" if floor(result, ours) else ""
    more = text_table.beside(ours["name"], result) if ours["name"] == ours["contestant"] else ""
    return f"{name}{': ' if name else ''}{text_table.figure(ours, result)}{share}{more}"


def peer(result: results.Tree, bar: results.Tree) -> str:
    """What a ratio compares with, and its figure unless another cell has it."""
    if bar["target"]:
        return str(bar["peer"])
    return "the floor" if bar["peer"] == result["ceiling"] else beside(result, bar["peer"])


def beside(result: results.Tree, name: str) -> str:
    found = next(each for each in result["contestants"] if each["name"] == name)
    return f"{name.removesuffix(text_table.MIB)}: {text_table.figure(found, result)}"


def with_interval(bar: results.Tree) -> str:
    """A ratio, and its interval if it has one."""
    if bar["low"] is None:
        return f"{bar['ratio']:.3g}"
    return f"{bar['ratio']:.3g} ({bar['low']:.3g} to {bar['high']:.3g})"


def verdict(bar: results.Tree) -> str:
    """Whether the wanted ratio is met, missed, or within the interval."""
    if bar["low"] is None:
        return "open, too few rounds"
    found = text_table.goal(bar)
    return "**missed**" if found == "missed" else found


def markdown(tree: results.Tree) -> Iterator[str]:
    """The environment, the table, and what is missing or failed, line by line."""
    yield from preface(tree)
    yield row(*HEAD)
    yield row(*["---"] * len(HEAD))
    for heading, titles in SECTIONS.items():
        found = [result for result in tree["results"] if result["workload"] in titles]
        if found:
            yield row(f"**{heading}**", *[""] * (len(HEAD) - 1))
        for result in found:
            yield from rows(result)
    for what, reasons in (
        ("Not there", tree["missing"].items()),
        ("Failed", ((each["workload"], each["reason"]) for each in tree["failed"])),
    ):
        if listed := [f"- {name}: {' '.join(reason.split())}" for name, reason in reasons]:
            yield from ("", f"{what}:", "", *listed)


def preface(tree: results.Tree) -> Iterator[str]:
    found = tree["environment"]
    bars = [bar for result in tree["results"] for bar in wanted(result)]
    verdicts = [text_table.goal(bar) for bar in bars]
    met, missed = verdicts.count("met"), verdicts.count("missed")
    rounds = [result["rounds"] for result in tree["results"]] or [0]
    size = "full size" if tree["scale"] == 1 else f"{tree['scale']:g} of full size"
    yield (
        f"`python benchmarks/goals.py`, {tree['started'][:10]}, one run of {tree['seconds']:.0f} s "
        f"at {size}: {len(tree['results'])} contests of {min(rounds)} to {max(rounds)} interleaved "
        f"rounds (median {median(rounds):g}). {found['cpu']['model']}, {found['cpu']['cores']} "
        f"cores, {found['memory']['total']}, {found['system']['kernel']}, "
        f"{found['disk']['file system']}, Python {found['software']['python']}; load "
        f"{found['system']['load'].split()[0]} at the start."
    )
    yield ""
    yield (
        f"Of {len(bars)} figures that are wanted {met} are met, {missed} missed, and "
        f"{len(bars) - met - missed} open: their interval has both sides of what is wanted. "
        "*Times as fast* is the median of the rounds' ratios and its interval: of time, processor "
        "time or memory, how many times as little. A floor is the bare call or C loop, or the best "
        "of the run."
    )
    yield ""


# --- the run ----------------------------------------------------------------------------------


def with_table(text: str, path: Path) -> str:
    """A file's text with the table between BEGIN and END; KStoreError without these lines."""
    head, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise KStoreError(f"{path} needs two lines for the table: {BEGIN} and {END}")
    return f"{head}{begin}\n\n{text}\n{end}{tail}"


def log(text: str) -> None:
    print(strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def listen(suite: Suite) -> None:
    """Print progress on standard error, one line per contest."""

    def on_result(result: results.Tree) -> None:
        ratios = ", ".join(f"{bar['ratio']:.3g}x of {bar['wanted']:.3g}x" for bar in wanted(result))
        log(f"{result['workload']}: {result['contest']} ({result['seconds']:.0f} s): {ratios}")

    def on_failure(title: str, reason: str) -> None:
        log(f"{title} FAILED: {reason}")

    suite.listener.on_result, suite.listener.on_failure = on_result, on_failure


def chosen(words: list[str]) -> list[Workload]:
    """The workloads of the table, in its order, each with its seconds."""
    by_title = {workload.title: workload for workload in workloads(words, CATALOG)}
    return [
        replace(by_title[title], weight=seconds)
        for title, seconds in SECONDS.items()
        if title in by_title
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(SECONDS)}")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table into FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results as `kstore bench`")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), metavar="DIR")
    parser.add_argument("--part", type=float, default=1.0, help="of the time, default: 1.0")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the table of an earlier --json")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every contest")
    given = parser.parse_args(arguments)
    assert provide_kafka.kafka_log  # importing the module lets Kafka take part
    try:
        if given.table is not None:
            with_table("", given.table)  # before anything runs
        if given.again is not None:
            write_table(results.read(given.again), given.table)
            return 0
        if given.json is not None and not given.json.absolute().parent.is_dir():
            raise KStoreError(f"there is no directory for {given.json}")
        works = chosen(given.words)
        seconds = given.part * sum(work.weight for work in works)
        missing = absent(CATALOG.peers)
        suite = Suite(works, given.dir, "full", given.rounds, seconds, missing, has_bar)
    except (KStoreError, ValueError, OSError) as error:
        parser.error(str(error))
    logging.getLogger("kstore").setLevel(logging.ERROR)  # the contests recover logs on purpose
    listen(suite)
    try:
        suite.run()
    finally:
        if suite.tree:  # an interrupted run is printed, but does not replace the table
            if given.json is not None:
                log(f"results are in {results.write(given.json, suite.tree)}")
            write_table(suite.tree, None if "ended_by" in suite.tree else given.table)
    return 1 if suite.tree["failed"] else 0


def write_table(tree: results.Tree, path: Path | None) -> None:
    """Write the table into a file, or print it."""
    text = "".join(f"{line}\n" for line in markdown(tree))
    if path is None:
        print(text, end="")
    else:
        path.write_text(with_table(text, path), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
