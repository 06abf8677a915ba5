"""Results as a self-contained HTML page: the verdict, at most ten plots, and every table."""

import shlex
from collections.abc import Iterator
from html import escape
from itertools import groupby

from kstore.bench.machine.figures import of_tree
from kstore.bench.report import plots, text_table, verdict
from kstore.bench.report.results import Tree
from kstore.bench.report.units import duration
from kstore.svg_diagrams import STYLE as BASE_STYLE

STYLE = (
    BASE_STYLE
    + """
h3 { margin-bottom: .3rem } tr.ceiling { font-weight: 600 } .also { color: #5b6b7a }
.bar { background: #e8edf2; width: 9rem; height: .7rem; display: inline-block }
.bar i { background: #2a6fb0; height: 100%; display: block } .short { color: #b3261e }
pre { background: #f4f7fa; padding: 1rem; overflow-x: auto } summary { cursor: pointer }
"""
)
_OTHER = "(not compared)"


def html(tree: Tree, *, targets: bool = False) -> str:
    """The page of a run; ``targets``: with the ratios that developers want."""
    sections = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>kstore bench, {escape(tree['started'])}</title><style>{STYLE}</style>",
        "<h1>kstore bench</h1>",
        *_run(tree),
        *_verdict(tree),
        *_pictures(tree["results"]),
        *_tables(tree["results"], targets),
        *_environment(tree),
    ]
    return "\n".join(sections) + "\n"


def _run(tree: Tree) -> Iterator[str]:
    """The command, and how the run ended, before any figure."""
    if ended := tree.get("ended_by"):
        yield (
            f"<p class='short'><b>This run was interrupted: {escape(ended)}.</b> The report has "
            "only what was measured before.</p>"
        )
    if failed := tree["failed"]:
        yield f"<p class='short'>{len(failed)} failed and have no figure: they are named below.</p>"
    command = shlex.join(["kstore", *tree.get("command", [])])
    yield (
        f"<p><code>{escape(command)}</code>: {escape(tree['started'])}, level "
        f"{escape(tree['level'])}, scale {tree.get('scale', 1):g} of its sizes, "
        f"{tree.get('seconds', 0):.0f} s.</p>"
    )


def _verdict(tree: Tree) -> Iterator[str]:
    if tree.get("figures"):
        text = "\n".join(verdict.lines(verdict.subject_of(tree), of_tree(tree)))
        yield f"<pre>{escape(text)}</pre>"


def _pictures(results: list[Tree]) -> Iterator[str]:
    """At most ten plots; without matplotlib a sentence."""
    try:
        drawing = plots.Plots()
    except ImportError:
        yield "<p>Without pictures: matplotlib is not installed.</p>"
        return
    if found := plots.chosen(results):
        yield (
            "<h2>Pictures</h2><p>Bars are intervals of the median; those of one size stand side by "
            "side. Other contests: tables.</p>"
        )
    for candidate in found:
        yield drawing.draw(candidate)


def _tables(results: list[Tree], targets: bool) -> Iterator[str]:
    """Every contest, folded by workload."""
    if results:
        yield (
            "<h2>Every method</h2><p>Medians of interleaved rounds. A fraction is that of the "
            "ceiling in the same round. Contestants' results are compared with each other, or with "
            "what is known, before anything is timed; one that is marked "
            f"{_OTHER} only reads, writes or waits as much, and its result is of another kind.</p>"
        )
    for title, contests in groupby(results, key=lambda result: result["workload"]):
        yield f"<details><summary>{escape(title)}</summary>"
        yield from (_table(result, targets) for result in contests)
        yield "</details>"


def _environment(tree: Tree) -> Iterator[str]:
    yield "<h2>Environment</h2><table>"
    for subject, facts in tree["environment"].items():
        known = "; ".join(f"{name} {value}" for name, value in facts.items() if value)
        yield f"<tr><th>{escape(subject)}</th><td>{escape(known)}</td></tr>"
    for name, reason in tree["missing"].items():
        yield f"<tr><th>missing</th><td>{escape(name)}: {escape(reason)}</td></tr>"
    for failed in tree["failed"]:
        text = escape(f"{failed['workload']}: {failed['reason']}")
        yield f"<tr class='short'><th>failed</th><td>{text}</td></tr>"
    yield "</table>"


def _table(result: Tree, targets: bool) -> str:
    rows = [_row(entry, result) for entry in result["contestants"]]
    rows += [_ratio(bar) for bar in result["bars"] if targets and bar["wanted"] is not None]
    return (
        f"<p><b>{escape(result['contest'])}</b>, {text_table.rounds(result)}"
        f"<span class='short'> {escape(result.get('medium', ''))}</span></p><table>"
        "<tr><th></th><th class='n'>figure</th><th class='n'>interval</th>"
        "<th class='n'>of ceiling</th><th></th></tr>" + "".join(rows) + "</table>"
    )


def _row(entry: Tree, result: Tree) -> str:
    share = entry.get("of_ceiling")
    kind = "ceiling" if entry["name"] == result["ceiling"] else ""
    mark = f" {_OTHER}" if entry["name"] in result.get("unchecked", ()) else ""
    if entry["name"] != entry["contestant"]:
        kind = "also"
    fraction, bar = "", ""
    if share is not None:
        width = 100 * min(max(share["median"], 0.0), 1.0)
        fraction = f"{share['median']:.2f}"
        bar = f"<span class='bar'><i style='width:{width:.0f}%'></i></span>"
    latency = ", ".join(
        f"{name} {duration(ns / 1e9)}" for name, ns in entry.get("latency_ns", {}).items()
    )
    return (
        f"<tr class='{kind}'><td>{escape(entry['name'])}{mark}</td>"
        f"<td class='n'>{escape(text_table.figure(entry, result))}</td>"
        f"<td class='n'>{escape(text_table.spread(entry, result))}</td>"
        f"<td class='n'>{fraction}</td><td>{bar} {escape(latency)}</td></tr>"
    )


def _ratio(bar: Tree) -> str:
    """A ratio that developers want."""
    verdict = text_table.goal(bar)
    short = " class='short'" if verdict == "missed" else ""
    text = f"{text_table.compared(bar)}, wanted {bar['wanted']:g}x: {text_table.VERDICTS[verdict]}"
    return f"<tr{short}><td colspan='5'>{escape(text)}</td></tr>"
