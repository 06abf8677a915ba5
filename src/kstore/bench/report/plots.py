"""The plots of a run's page: at most ten, each readable without a mouse.

Lines and rows are named in print, axes have units, intervals are drawn, and the curve of a
percentile ends where ten samples remain beyond it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, groupby, zip_longest
from typing import Any

from kstore.bench.machine.sizes import size_text
from kstore.bench.report.results import Tree
from kstore.bench.report.text_table import is_absolute
from kstore.bench.report.units import duration, rate
from kstore.svg_diagrams import SvgDiagrams

MOST = 10
ROOF = "#c8d2dc"  # of the line above all others
_NINES = (50, 90, 99, 99.9, 99.99, 99.999)
_GAP = 0.045  # between names beside an axis, as a fraction of its height
_SIDESTEP = 0.006  # between the intervals of two lines at one size, as a fraction of the axis
# Colours first; then the same colours with another stroke and marker.
_COLOURS = 10
_STROKES = ("-", "--", ":", "-.")
_MARKERS = (".", "s", "^", "x")


@dataclass(frozen=True)
class Candidate:
    """A plot that can be drawn: its kind, and the contests that it shows."""

    kind: str
    results: tuple[Tree, ...]


def candidates(results: Sequence[Tree]) -> Iterator[list[Candidate]]:
    """The possible plots of each workload, by size first, then latencies."""
    for _, here in groupby(results, key=lambda result: result["workload"]):
        contests = list(here)
        found = [Candidate("sizes", tuple(some)) for some in _families(contests)]
        drawn = {id(each) for some in found for each in some.results}
        found += [
            Candidate("latency", (result,))
            for result in contests
            if any("curve" in entry for entry in ways(result))
        ]
        drawn |= {id(each) for some in found for each in some.results}
        found += [
            Candidate("ways", (result,))
            for result in contests
            if id(result) not in drawn and len(ways(result)) > 1
        ]
        yield found


def chosen(results: Sequence[Tree], most: int = MOST) -> list[Candidate]:
    """Plots of as many workloads as possible: the first one of each, then the second of each."""
    by_workload = list(candidates(results))
    turns = chain.from_iterable(zip_longest(*by_workload))
    kept = {id(each) for each in [each for each in turns if each is not None][:most]}
    return [each for each in chain.from_iterable(by_workload) if id(each) in kept]


def ways(result: Tree) -> list[Tree]:
    """The contestants themselves, without their further figures."""
    return [each for each in result["contestants"] if each["name"] == each["contestant"]]


def _families(contests: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Contests of one kind and several sizes, in the order of the sizes."""
    kinds: dict[tuple[str, str], list[Tree]] = {}
    for result in contests:
        if result["size"] and not any("curve" in entry for entry in ways(result)):
            kinds.setdefault((result["axis"], kind_of(result)), []).append(result)
    for family in kinds.values():
        if len({result["size"] for result in family}) > 1:
            yield sorted(family, key=lambda result: int(result["size"]))


def kind_of(result: Tree) -> str:
    """A contest's name without its size: equal for the contests of one plot."""
    size = result["size"]
    text = size_text(size) if result["axis"].startswith("bytes") else str(size)
    return str(result["contest"]).replace(text, "...", 1)


def interval(entry: Tree, amount: float) -> tuple[float, float, float]:
    """The figure that is drawn and both ends of its interval: a rate if ``amount`` is not 0, else
    seconds. Without an interval both ends are the figure."""
    middle = float(entry["median"])
    low, high = (float(middle if entry.get(end) is None else entry[end]) for end in ("low", "high"))
    if not amount:
        return middle, low, high
    return amount / middle, amount / high, amount / low


def spread_apart(heights: Sequence[float], gap: float = _GAP) -> list[float]:
    """Heights of names between 0 and 1 that do not overlap, each near the one that it is given."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    gap = min(gap, 1 / max(len(order), 1))
    placed = [0.0] * len(order)
    lowest = 0.0
    for index in order:
        placed[index] = lowest = max(heights[index], lowest)
        lowest += gap
    over = max(placed, default=0.0) - 1.0
    ceiling = 1.0
    for index in reversed(order) if over > 0 else ():
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - gap
    return placed


def look(number: int) -> dict[str, str]:
    """Colour and stroke of a line; the first forty are all different."""
    stroke = _STROKES[number // _COLOURS % len(_STROKES)]
    return {"color": f"C{number % _COLOURS}", "linestyle": stroke}


def sidestep(number: int, count: int, sizes: Sequence[int]) -> float:
    """By what the sizes of a line are multiplied, so that its intervals do not hide others'."""
    return float((max(sizes) / min(sizes)) ** (_SIDESTEP * (number - (count - 1) / 2)))


class Plots(SvgDiagrams):
    """Draws candidates as SVG; ImportError if matplotlib is not installed."""

    def draw(self, candidate: Candidate) -> str:
        return self.svg(self.figure_of(candidate))

    def figure_of(self, candidate: Candidate) -> Any:
        """The matplotlib figure of a candidate."""
        if candidate.kind == "sizes":
            return self._by_size(candidate.results)
        (result,) = candidate.results
        return self._latency(result) if candidate.kind == "latency" else self._ways(result)

    def _by_size(self, results: Sequence[Tree]) -> Any:
        """Throughput over the size of a request, below the fastest way at each size."""
        figure, axes = self.axes(4.2)
        factor, label = _scale(results[0]["unit"])
        lines: dict[str, list[tuple[int, float, float, float]]] = {}
        best = dict.fromkeys((int(result["size"]) for result in results), 0.0)
        for result in results:
            for entry in ways(result):
                if "rate" in entry:
                    middle, low, high = interval(entry, result["amount"] / factor)
                    lines.setdefault(entry["name"], []).append((result["size"], middle, low, high))
                    best[result["size"]] = max(best[result["size"]], middle)
        axes.plot(list(best), list(best.values()), color=ROOF, linewidth=7, zorder=0)
        for number, points in enumerate(lines.values()):
            step = sidestep(number, len(lines), list(best))
            sizes = [point[0] * step for point in points]
            rates = [point[1] for point in points]
            below = [max(middle - low, 0.0) for _, middle, low, _ in points]
            above = [max(high - middle, 0.0) for _, middle, _, high in points]
            style = {"marker": _MARKERS[number // _COLOURS % len(_MARKERS)], **look(number)}
            axes.errorbar(sizes, rates, [below, above], markersize=4, capsize=2, lw=1.2, **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        in_bytes = results[0]["axis"].startswith("bytes")
        axes.set_xticks(list(best), [size_text(size) if in_bytes else f"{size:,}" for size in best])
        axes.minorticks_off()
        axes.set_xlabel(results[0]["axis"].replace("bytes of", "size of"))
        axes.set_ylabel(label)
        _plain(axes.yaxis, lambda value, _: f"{value:g}")
        title = kind_of(results[0]).replace("...", "each size")
        axes.set_title(f"{title} (grey: the fastest at each size)", fontsize=9)
        ends = [
            (name, (points[-1][0] * sidestep(n, len(lines), list(best)), points[-1][1]), n)
            for n, (name, points) in enumerate(lines.items())
        ]
        self._name_lines(axes, ends)
        return figure

    def _latency(self, result: Tree) -> Any:
        """Percentiles, spaced by nines, of what was timed call by call."""
        figure, axes = self.axes(4.2)
        drawn = [entry for entry in ways(result) if "curve" in entry]
        ends, shares = [], [50.0]
        for number, entry in enumerate(drawn):
            beyond = [100 / max(100 - share, 1e-4) for share, _ in entry["curve"]]
            times = [ns / 1e9 for _, ns in entry["curve"]]
            axes.plot(beyond, times, linewidth=1.2, **look(number))
            ends.append((entry["name"], (beyond[-1], times[-1]), number))
            shares += [share for share, _ in entry["curve"]]
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = [share for share in _NINES if share <= max(shares)]
        axes.set_xticks(
            [100 / (100 - share) for share in ticks], [f"p{share:g}" for share in ticks]
        )
        axes.minorticks_off()
        _plain(axes.yaxis, lambda value, _: duration(value))
        axes.set_xlabel("percentile (each curve ends where ten samples remain beyond it)")
        axes.set_ylabel("latency")
        axes.set_title(result["contest"], fontsize=9)
        self._name_lines(axes, ends)
        return figure

    def _ways(self, result: Tree) -> Any:
        """One row for each way, with its interval."""
        entries = [each for each in ways(result) if not is_absolute(each["name"])]
        amount = result["amount"]
        found = [(each["name"], *interval(each, amount)) for each in entries]
        found.sort(key=lambda row: row[1], reverse=not amount)
        figure, axes = self.axes(1.0 + 0.26 * len(found))
        factor, label = _scale(result["unit"]) if amount else (1.0, "seconds")
        for row, (_, middle, low, high) in enumerate(found):
            axes.plot([low / factor, high / factor], [row, row], color="#9db4c8", linewidth=4)
            axes.plot(middle / factor, row, marker="o", color="#2a6fb0", markersize=5)
            text = rate(middle, result["unit"]) if amount else duration(middle)
            axes.annotate(
                text, (high / factor, row), xytext=(6, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(range(len(found)), [row[0] for row in found])
        axes.set_ylim(-0.7, len(found) - 0.3)
        axes.set_xlim(0, 1.2 * max(row[3] for row in found) / factor)
        axes.set_xlabel(label)
        axes.set_title(result["contest"], fontsize=9)
        return figure

    def _name_lines(self, axes: Any, ends: Sequence[tuple[str, tuple[float, float], int]]) -> None:
        """Write the name of each line beside the axes, joined to its end by a thin line."""
        to_axes = axes.transData + axes.transAxes.inverted()
        axes.figure.canvas.draw()  # the limits are final: only now do heights mean anything
        heights = [float(to_axes.transform(end)[1]) for _, end, _ in ends]
        for (name, end, number), height in zip(ends, spread_apart(heights), strict=True):
            axes.annotate(
                name,
                end,
                xytext=(1.03, height),
                textcoords="axes fraction",
                color=look(number)["color"],
                va="center",
                fontsize=7.5,
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-",
                    "linewidth": 0.6,
                    "shrinkA": 1,
                    "shrinkB": 2,
                    "relpos": (0, 0.5),
                    **look(number),
                },
            )


def _scale(unit: str) -> tuple[float, str]:
    """By what rates are divided, and the label of the axis."""
    return (1e9, "GB/s") if unit == "B" else (1e6, f"million {unit} a second")


def _plain(axis: Any, text: Any) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, without powers."""
    ticker: Any = import_module("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(text))
