"""Results as text tables: every figure with its interval and its fraction of the ceiling."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Any, Literal

from kstore.bench.report.units import duration, rate
from kstore.bench.runner.estimate import LEAST_VALUES
from kstore.integers import count_of

_PERCENTILE = re.compile(r" p\d\d(\.\d+)?$")
WIDTH = 100  # columns of a table
_CONTEST = 46  # columns of a contest's name
MIB = ", MiB"  # the end of the names of memory figures
Goal = Literal["met", "missed", "open"]
VERDICTS: dict[Goal, str] = {"met": "met", "missed": "SHORT", "open": "open, within its interval"}


def is_absolute(name: str) -> bool:
    """Whether a figure is processor time or memory, which is no fraction of a ceiling's time."""
    return name.endswith(("CPU", MIB))


def figure(entry: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """A figure in its unit."""
    if entry["name"].endswith("CPU"):
        if result["unit"] == "B" and result["amount"]:
            return f"{entry['median'] / result['amount'] * 1e9:.3g} s/GB"
        return duration(entry["median"])
    if entry["name"].endswith(MIB):
        return f"{entry['median']:.0f} MiB"
    as_time = "latency_ns" in entry or _PERCENTILE.search(entry["name"])
    if as_time or not result["amount"] or not entry["median"]:
        return duration(entry["median"])
    return rate(result["amount"] / entry["median"], result["unit"])


def beside(name: str, result: Mapping[str, Any]) -> str:
    """A contestant's further figures, in parentheses."""
    others = [
        f"{entry['name'].removeprefix(name).strip().removesuffix(MIB)} {figure(entry, result)}"
        for entry in result["contestants"]
        if entry["contestant"] == name and entry["name"] != name
    ]
    return f"  ({', '.join(others)})" if others else ""


def spread(entry: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """The interval in percent of the figure as it is shown: a rate's low end is the longest time.

    Empty if there is none.
    """
    if not entry["median"] or entry.get("low") is None:
        return ""
    ends = [entry[name] / entry["median"] for name in ("low", "high")]
    if figure(entry, result).endswith("/s"):
        ends = [1 / end if end else inf for end in reversed(ends)]
    low, high = (end - 1 for end in ends)
    return f"{low:+.0%} {high:+.0%}"


def fastest(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The fastest method of each contest, one line a contest."""
    yield f"{'contest':<{_CONTEST}}{'fastest':>14}  {'interval':<10}  method"
    for workload, contests in groupby(results, key=lambda result: result["workload"]):
        yield str(workload)
        for result in contests:
            entries = [
                entry
                for entry in result["contestants"]
                if entry["name"] == entry["contestant"] and entry["name"] not in _not_ways(result)
            ]
            if entries:
                best = min(entries, key=lambda entry: entry["median"])
                name = _short(result["contest"].partition(",")[0])
                row = f"  {name:<{_CONTEST - 2}}{figure(best, result):>14}  "
                row += f"{spread(best, result) or _few(result):<10}  "
                others = _as_fast(best, entries)
                yield f"{row}{_short(best['name'], WIDTH - len(row) - len(others))}{others}"


def _as_fast(best: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    """How many other methods may be as fast: their intervals reach that of the fastest."""
    if best["high"] is None:
        return ""
    number = sum(entry["low"] is not None and entry["low"] <= best["high"] for entry in entries) - 1
    return f" (or {number} more)" if number else ""


def _few(result: Mapping[str, Any]) -> str:
    """How many rounds were made, instead of an interval."""
    return count_of(result["rounds"], "round")


def _not_ways(result: Mapping[str, Any]) -> Sequence[str]:
    """Contestants that do not do all of the work, and so are not the fastest way to do it."""
    return result.get("unchecked") or ()


def _short(name: str, most: int = _CONTEST - 3) -> str:
    """A name in the width of its column."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def reference(result: Mapping[str, Any]) -> tuple[str, str]:
    """What a contest's figures are fractions of, for the heading and for its own row: a ceiling,
    the fastest where the contest names none, or a floor that was passed and so is no ceiling."""
    if result.get("passed_by"):
        return "of floor", "the floor, no ceiling"
    if result.get("has_ceiling", True):
        return "of ceiling", "the ceiling"
    return "of fastest", "the fastest"


def lines(
    result: Mapping[str, Any], *, every_ratio: bool = False, targets: bool = True
) -> Iterator[str]:
    """A contest as a table; ``every_ratio``: also the ratios without a wanted value; not
    ``targets``: no wanted values."""
    yield f"{result['workload']}: {result['contest']} ({rounds(result)})"
    if "medium" in result:
        yield f"  {result['medium']}"
    heading, own = reference(result)
    entries = result["contestants"]
    width = max(len(name) for name in ("contestant", *(entry["contestant"] for entry in entries)))
    yield f"  {'contestant':<{width}}  {'figure':>18}  {'interval':>11}  {heading}"
    for entry in entries:
        if entry["name"] != entry["contestant"]:
            continue
        share = entry["of_ceiling"]["median"]
        shown = own.ljust(20) if entry["name"] == result["ceiling"] else bar(share)
        found = f"{figure(entry, result):>18}  {spread(entry, result):>11}  {share:>6.2f} {shown}"
        yield f"  {entry['name']:<{width}}  {found}{beside(entry['name'], result)}".rstrip()
        for each in entries:
            if each["contestant"] == entry["name"] and (latency := each.get("latency_ns")):
                what = each["name"].removeprefix(entry["name"]).strip()
                percentiles = ", ".join(
                    f"{name} {duration(ns / 1e9)}" for name, ns in latency.items()
                )
                yield f"  {'':<{width}}    {what + ': ' if what else ''}{percentiles}"
    for name, ratio in (result.get("passed_by") or {}).items():
        yield f"  NO CEILING: {name} is {ratio:.2f} times as fast as {result['ceiling']}"
    for ratio in result["bars"]:
        if ratio["wanted"] is not None and targets:
            yield f"  {compared(ratio)}, wanted {ratio['wanted']:g}x: {VERDICTS[goal(ratio)]}"
        elif every_ratio or not targets:
            yield f"  {compared(ratio)}"


def goal(ratio: Mapping[str, Any]) -> Goal:
    """Whether a wanted ratio is met: ``open`` if its interval has both sides of it, or if the
    rounds are too few for an interval."""
    if ratio["low"] is None or ratio["low"] < ratio["wanted"] <= ratio["high"]:
        return "open"
    return "met" if ratio["low"] >= ratio["wanted"] else "missed"


def compared(ratio: Mapping[str, Any]) -> str:
    """A ratio of two contestants in words: as fast if its interval has both sides of 1."""
    names, value = (ratio["ours"], ratio["peer"]), f"{ratio['ratio']:.3g}x"
    if ratio["low"] is None:
        return f"{names[0]} against {names[1]}: {value}"
    interval = f"{value} ({ratio['low']:.3g} to {ratio['high']:.3g})"
    word = "as fast as" if ratio["low"] <= 1 <= ratio["high"] else "against"
    return f"{names[0]} {word} {names[1]}: {interval}"


def rounds(result: Mapping[str, Any]) -> str:
    """How many rounds were made; also how many were planned, if the time was too short, and that
    figures of fewer than five have no interval."""
    made, wanted = result["rounds"], result.get("rounds_wanted", 0)
    text = count_of(made, "round")
    text += f" of {wanted}, for want of time" if made < wanted else ""
    return text if made >= LEAST_VALUES else f"{text}: no interval"


def bar(share: float, width: int = 20) -> str:
    """A fraction as a bar; a + marks one beyond the ceiling."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "#" * filled + "." * (width - filled) + ("+" if share > 1.05 else "")
