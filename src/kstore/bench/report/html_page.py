"""Results as a self-contained HTML page: tables, and plots as SVG by matplotlib."""

import shlex
from collections.abc import Iterator
from html import escape
from itertools import groupby

from kstore.bench.machine.disk import size_text
from kstore.bench.report import text_table
from kstore.bench.report.results import Tree
from kstore.bench.report.units import duration
from kstore.pictures import STYLE as BASE_STYLE
from kstore.pictures import Pictures

STYLE = (
    BASE_STYLE
    + """
h3 { margin-bottom: .3rem } tr.ceiling { font-weight: 600 } .also { color: #5b6b7a }
.bar { background: #e8edf2; width: 9rem; height: .7rem; display: inline-block }
.bar i { background: #2a6fb0; height: 100%; display: block } .short { color: #b3261e }
"""
)
_ROWS = 16
_LABEL = 84  # characters
_OTHER = "(not compared)"
# Colours first; then the same colours with another stroke and marker.
_COLOURS = 10
_STROKES = ("-", "--", ":", "-.")
_MARKERS = (".", "s", "^", "x")


def html(tree: Tree) -> str:
    """The page of a run."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>kstore bench, {escape(tree['started'])}</title><style>{STYLE}</style>",
        "<h1>kstore bench</h1>",
        *_run(tree),
        *_environment(tree),
    ]
    pictures = _pictures_or_none()
    if pictures is None:
        parts.append("<p>Without pictures: matplotlib is not installed.</p>")
    for group, results in groupby(tree["results"], key=lambda result: result["group"]):
        parts.append(f"<h2>{escape(group)}</h2>")
        here = list(results)
        apart = len(here) > _ROWS  # too many for one picture: one a workload
        if pictures is not None and not apart:
            parts.append(pictures.fractions(here))
        for title, some in groupby(here, key=lambda result: result["workload"]):
            contests = list(some)
            parts.append(f"<h3>{escape(title)}</h3>")
            if pictures is not None and apart:
                parts.append(pictures.fractions(contests))
            if pictures is not None:
                parts += [pictures.by_size(contests), pictures.latencies(contests)]
            parts += [_table(result) for result in contests]
    return "\n".join(part for part in parts if part) + "\n"


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
        "<p>Medians of interleaved rounds with 95 % bootstrap intervals. A fraction is that of the "
        "ceiling in the same round. Contestants' results are compared with each other, or with "
        f"what is known, before anything is timed; one that is marked {_OTHER} only reads, writes "
        "or waits as much, and its result is of another kind.</p>"
    )


def _environment(tree: Tree) -> Iterator[str]:
    yield "<h2>Where</h2><table>"
    for subject, facts in tree["environment"].items():
        known = "; ".join(f"{name} {value}" for name, value in facts.items() if value)
        yield f"<tr><th>{escape(subject)}</th><td>{escape(known)}</td></tr>"
    noises = ", ".join(f"{kind} {value:.1%}" for kind, value in tree["noise"].items())
    yield f"<tr><th>noise</th><td>A/A, one contestant twice: {escape(noises)}</td></tr>"
    for name, reason in tree["missing"].items():
        yield f"<tr><th>missing</th><td>{escape(name)}: {escape(reason)}</td></tr>"
    for failed in tree["failed"]:
        text = escape(f"{failed['workload']}: {failed['reason']}")
        yield f"<tr class='short'><th>failed</th><td>{text}</td></tr>"
    yield "</table>"


def _table(result: Tree) -> str:
    rows = []
    for entry in result["contestants"]:
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
        rows.append(
            f"<tr class='{kind}'><td>{escape(entry['name'])}{mark}</td>"
            f"<td class='n'>{escape(text_table.figure(entry, result))}</td>"
            f"<td class='n'>{escape(text_table.spread(entry, result))}</td>"
            f"<td class='n'>{fraction}</td>"
            f"<td>{bar} {escape(latency)}</td></tr>"
        )
    for bar in result["bars"]:
        if bar["wanted"] is not None:
            short = "" if bar["ratio"] >= bar["wanted"] else " class='short'"
            text = f"{bar['ours']} against {bar['peer']}: {bar['ratio']:.3g}x"
            rows.append(
                f"<tr{short}><td colspan='5'>{escape(text)}, wanted {bar['wanted']:g}x</td></tr>"
            )
    return (
        f"<p><b>{escape(result['contest'])}</b>, {text_table.rounds(result)}"
        f"<span class='short'> {escape(result.get('medium', ''))}</span></p><table>"
        "<tr><th></th><th class='n'>figure</th><th class='n'>interval</th>"
        "<th class='n'>of ceiling</th><th></th></tr>" + "".join(rows) + "</table>"
    )


def _kind(result: Tree) -> str:
    """A contest's name without its size: equal for the contests of one plot."""
    size = result["size"]
    text = size_text(size) if result["axis"].startswith("bytes") else str(size)
    return str(result["contest"]).replace(text, "...", 1)


def _look(number: int) -> dict[str, str]:
    """Colour and stroke of a line; the first forty are all different."""
    stroke = _STROKES[number // _COLOURS % len(_STROKES)]
    return {"color": f"C{number % _COLOURS}", "linestyle": stroke}


def _pictures_or_none() -> "_Pictures | None":
    try:
        return _Pictures()
    except ImportError:
        return None


class _Pictures(Pictures):
    """The plots of the page; ImportError if matplotlib is not installed."""

    def fractions(self, results: list[Tree]) -> str:
        """Every contestant's fraction of its ceiling, one row per contest."""
        figure, axes = self.axes(1.2 + 0.28 * len(results))
        for row, result in enumerate(reversed(results)):
            for entry in result["contestants"]:
                share = entry.get("of_ceiling")
                if share is None or entry["name"] != entry["contestant"]:
                    continue
                ours = entry["name"].startswith("kstore")
                axes.plot(
                    [max(share["low"], 1e-4), max(share["high"], 1e-4)], [row, row], color="#9db4c8"
                )
                (dot,) = axes.plot(
                    max(share["median"], 1e-4),
                    row,
                    marker="D" if ours else "o",
                    color="#b3261e" if ours else "#2a6fb0",
                    markersize=5 if ours else 4,
                )
                title = f"{entry['name']}: {share['median']:.2f} of {result['ceiling']}"
                self.add_tooltip(dot, f"{title} ({text_table.figure(entry, result)})")
        axes.axvline(1, color="#1c2733", linewidth=1)
        axes.set_xscale("log")
        names = [result["contest"] for result in reversed(results)]
        shown = [name if len(name) <= _LABEL else f"{name[: _LABEL - 3]}..." for name in names]
        axes.set_yticks(range(len(results)), shown)
        axes.set_ylim(-0.7, len(results) - 0.3)
        axes.set_xlabel("fraction of the ceiling (red: kstore; point at a marker for its name)")
        return self.svg(figure)

    def by_size(self, results: list[Tree]) -> str:
        """Throughput over the size of a request. Contests of one size are of different kinds, and
        each kind has its own plot."""
        sized = sorted((each for each in results if each["size"]), key=lambda each: each["size"])
        drawn = []
        for axis in dict.fromkeys(each["axis"] for each in sized):
            here = [each for each in sized if each["axis"] == axis]
            kinds: dict[str, list[Tree]] = {}
            for result in here:
                kinds.setdefault(_kind(result), []).append(result)
            repeated = len({each["size"] for each in here}) < len(here)
            drawn += list(kinds.values()) if repeated else [here]
        return "\n".join(filter(None, map(self._by_size, drawn)))

    def _by_size(self, sized: list[Tree]) -> str:
        """The plot of one kind, below the ceiling of each size."""
        if len(sized) < 2:
            return ""
        figure, axes = self.axes()
        names = dict.fromkeys(
            entry["name"]
            for result in sized
            for entry in result["contestants"]
            if entry["name"] == entry["contestant"] and "rate" in entry
        )
        roof = [max(entry.get("rate", 0) for entry in each["contestants"]) for each in sized]
        axes.plot([each["size"] for each in sized], roof, color="#c8d2dc", linewidth=5, zorder=0)
        for number, name in enumerate(names):
            points = [
                (result["size"], entry["rate"])
                for result in sized
                for entry in result["contestants"]
                if entry["name"] == name
            ]
            marker = _MARKERS[number // _COLOURS % len(_MARKERS)]
            (line,) = axes.plot(
                *zip(*points, strict=True), marker=marker, markersize=4, label=name, **_look(number)
            )
            self.add_tooltip(line, name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        kinds = {_kind(result) for result in sized}
        if len(kinds) == 1:
            axes.set_title(*kinds, fontsize=9)
        axes.set_xlabel(sized[0]["axis"])
        axes.set_ylabel(f"{sized[0]['unit']} per second")
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        return self.svg(figure)

    def latencies(self, results: list[Tree]) -> str:
        """Percentiles, spaced by nines, of everything that was timed call by call."""
        drawn = [
            self._latency(result)
            for result in results
            if any("curve" in entry for entry in result["contestants"])
        ]
        return "\n".join(drawn)

    def _latency(self, result: Tree) -> str:
        figure, axes = self.axes()
        drawn = [entry for entry in result["contestants"] if "curve" in entry]
        for number, entry in enumerate(drawn):
            beyond = [100 / max(100 - share, 1e-4) for share, _ in entry["curve"]]
            times = [ns / 1e3 for _, ns in entry["curve"]]
            (line,) = axes.plot(beyond, times, label=entry["name"], **_look(number))
            self.add_tooltip(line, entry["name"])
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = (50, 90, 99, 99.9, 99.99, 99.999)
        axes.set_xticks(
            [100 / (100 - share) for share in ticks], [f"{share:g}%" for share in ticks]
        )
        axes.set_title(result["contest"], fontsize=9)
        axes.set_ylabel("microseconds")
        axes.legend(fontsize=7)
        return self.svg(figure)
