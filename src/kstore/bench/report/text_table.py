"""Results as text tables: every figure with its interval and its fraction of the ceiling."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kstore.bench.report.units import duration, rate

_PERCENTILE = re.compile(r" p\d\d(\.\d+)?$")
MIB = ", MiB"  # the end of the names of memory figures


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


def spread(entry: Mapping[str, Any]) -> str:
    """The interval in percent of the median."""
    if not entry["median"]:
        return ""
    low, high = (entry[name] / entry["median"] - 1 for name in ("low", "high"))
    return f"{low:+.0%} {high:+.0%}"


def lines(result: Mapping[str, Any], *, every_ratio: bool = False) -> Iterator[str]:
    """A contest as a table; ``every_ratio``: also the ratios without a wanted value."""
    yield f"{result['workload']}: {result['contest']} ({rounds(result)})"
    if "medium" in result:
        yield f"  {result['medium']}"
    entries = result["contestants"]
    width = max(len(name) for name in ("contestant", *(entry["contestant"] for entry in entries)))
    yield f"  {'contestant':<{width}}  {'figure':>18}  {'interval':>11}  of ceiling"
    for entry in entries:
        if entry["name"] != entry["contestant"]:
            continue
        share = entry["of_ceiling"]["median"]
        shown = "the ceiling".ljust(20) if entry["name"] == result["ceiling"] else bar(share)
        row = f"  {entry['name']:<{width}}  {figure(entry, result):>18}  {spread(entry):>11}  "
        yield f"{row}{share:>6.2f} {shown}{beside(entry['name'], result)}".rstrip()
        for each in entries:
            if each["contestant"] == entry["name"] and (latency := each.get("latency_ns")):
                what = each["name"].removeprefix(entry["name"]).strip()
                percentiles = ", ".join(
                    f"{name} {duration(ns / 1e9)}" for name, ns in latency.items()
                )
                yield f"  {'':<{width}}    {what + ': ' if what else ''}{percentiles}"
    for ratio in result["bars"]:
        text = f"  {ratio['ours']} against {ratio['peer']}: {ratio['ratio']:.3g}x"
        if ratio["wanted"] is not None:
            verdict = "met" if ratio["ratio"] >= ratio["wanted"] else "SHORT"
            yield f"{text}, wanted {ratio['wanted']:g}x: {verdict}"
        elif every_ratio:
            yield text


def rounds(result: Mapping[str, Any]) -> str:
    """How many rounds were made; also how many were planned, if the time was too short."""
    made, wanted = result["rounds"], result.get("rounds_wanted", 0)
    text = f"{made} rounds" if made != 1 else "1 round"
    return text if made >= wanted else f"{text} of {wanted}, for want of time"


def bar(share: float, width: int = 20) -> str:
    """A fraction as a bar; a + marks one beyond the ceiling."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "#" * filled + "." * (width - filled) + ("+" if share > 1.05 else "")
