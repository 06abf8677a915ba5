"""The JSON file of a run: its contents, and how it is written and read.

Times are seconds for one unit of work, one figure per round. A contestant's ``of_ceiling`` is
the median of its fractions of the ceiling in the same round (1.0: as fast), with its interval. The
ends of an interval are null if fewer than five rounds were made.
"""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import count as numbers
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from kstore.bench.report import text_table
from kstore.bench.runner.estimate import (
    LEAST_VALUES,
    TINY,
    Estimate,
    curve,
    estimate,
    paired,
    percentiles,
)
from kstore.bench.runner.rounds import Outcome
from kstore.errors import KStoreError

FORMAT = 1
PASSED = 1.05  # times as fast as a ceiling, beyond which it is none
Tree = dict[str, Any]


def as_tree(group: str, workload: str, outcome: Outcome) -> Tree:
    """The results of one contest; ``workload`` is the title of its workload."""
    contest, ceiling = outcome.contest, outcome.ceiling
    contestants = []
    for name, seconds in outcome.times.items():
        owner = outcome.owner(name)
        entry: Tree = {"name": name, "contestant": owner, "seconds": seconds}
        entry |= _interval("median", estimate(seconds), len(seconds))
        if contest.amount and name == owner:
            entry["rate"] = contest.amount / max(entry["median"], TINY)
        if _is_share(name) and len(seconds) == len(outcome.times[ceiling]):
            entry["of_ceiling"] = _interval(
                "median", paired(outcome.times[ceiling], seconds), len(seconds)
            )
        if name in outcome.samples:
            samples = outcome.samples[name]
            entry["latency_ns"] = percentiles(samples)
            entry["curve"] = curve(samples)
            entry["hdr"] = hdr(samples)
        contestants.append(entry)
    return {
        "group": group,
        "workload": workload,
        "contest": contest.name,
        "unit": contest.unit,
        "amount": contest.amount,
        "size": contest.size,
        "axis": contest.axis,
        "unchecked": sorted(contest.unchecked),
        "ceiling": ceiling,
        "has_ceiling": contest.ceiling == ceiling,
        "passed_by": passed_by(outcome),
        "rounds": len(outcome.times[ceiling]),
        "rounds_wanted": outcome.wanted,
        "seconds": round(outcome.seconds, 3),
        "contestants": contestants,
        "bars": [
            {
                "ours": ours,
                "peer": peer,
                "target": peer in contest.targets,
                "wanted": wanted,
                **_interval("ratio", outcome.compared(ours, peer), len(outcome.times[ours])),
            }
            for ours, peer, wanted in contest.bars
            if ours in outcome.times and peer in outcome.times
        ],
    }


def passed_by(outcome: Outcome) -> dict[str, float]:
    """Contestants faster than a named ceiling by more than the noise, with how many times as fast.

    More than the noise: at least ``LEAST_VALUES`` rounds, and the interval of their ratios lies
    beyond ``PASSED``. A ceiling that is passed is none, and is reported so.
    """
    contest, ceiling = outcome.contest, outcome.ceiling
    if contest.ceiling != ceiling or len(outcome.times[ceiling]) < LEAST_VALUES:
        return {}
    ratios = {
        name: outcome.compared(name, ceiling)
        for name in contest.calls
        if name in outcome.times and name not in (ceiling, *contest.targets, *contest.easier)
    }
    return {name: ratio.median for name, ratio in ratios.items() if ratio.low > PASSED}


def _is_share(name: str) -> bool:
    """Whether a figure is a fraction of the ceiling's time.

    Processor time and memory are not, nor is the time until the calls had returned (``accepted``),
    which a ceiling that waits for the disk does not bound.
    """
    return not (text_table.is_absolute(name) or name.endswith(" accepted"))


def _interval(name: str, found: Estimate, rounds: int) -> dict[str, float | None]:
    ends = (found.low, found.high) if rounds >= LEAST_VALUES else (None, None)
    return {name: found.median, "low": ends[0], "high": ends[1]}


def hdr(samples: list[Any]) -> str | None:
    """The samples as an encoded HdrHistogram (1 ns to a minute, three digits) for other tools; None
    if the package hdrhistogram is not installed."""
    try:
        module = import_module("hdrh.histogram")
    except ImportError:
        return None
    histogram = module.HdrHistogram(1, 60_000_000_000, 3)
    values, counts = np.unique(np.concatenate(samples), return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return str(histogram.encode().decode("ascii"))


def text(tree: Mapping[str, Any]) -> str:
    """The contents of a run's JSON file."""
    return json.dumps(tree, indent=1) + "\n"


def write(path: Path, tree: Mapping[str, Any], *, replace: bool = False) -> Path:
    """Write a run's JSON file as :func:`put` does; returns its path."""
    return put(path, text(tree), replace=replace)


def put(path: Path, content: str, *, replace: bool = False) -> Path:
    """Write a new file and return its path: ``a.1.json`` if ``a.json`` exists by now.

    ``replace``: write over an existing file instead.
    """
    if replace:
        path.write_text(content, encoding="utf-8")
        return path
    for number in numbers():
        there = path.with_stem(f"{path.stem}.{number}") if number else path
        try:
            with there.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            continue
        break
    return there


def read(path: Path) -> Tree:
    """Read a file of :func:`write`; KStoreError if it is another file or cannot be read."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KStoreError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise KStoreError(f"{path} is no result of 'kstore bench --json': {error}") from None
    if not isinstance(tree, dict) or tree.get("kstore_bench") != FORMAT:
        raise KStoreError(f"{path} is no result of this version of 'kstore bench --json'")
    for what, is_right in _SHAPE.items():
        if not is_right(tree.get(what)):
            raise KStoreError(f"{path} is no result of 'kstore bench --json': odd {what!r}")
    return tree


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value) and value >= 0


def _are(value: object, kind: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(kind(each) for each in value)


def _has_texts(value: object, *names: str) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


def _is_contestant(value: Any) -> bool:
    return (
        _has_texts(value, "name", "contestant")
        and bool(value.get("seconds"))
        and _are(value["seconds"], _is_number)
    )


def _is_result(value: Any) -> bool:
    return (
        _has_texts(value, "workload", "contest", "ceiling")
        and _are(value.get("contestants"), _is_contestant)
        and _are(value.get("bars", []), lambda each: _has_texts(each, "ours"))
        and all(_is_number(value.get(name, 1.0)) for name in ("scale", "part"))
    )


def _is_figure(value: Any) -> bool:
    """Whether an entry of ``figures`` is one of :func:`kstore.bench.machine.figures.as_tree`."""
    return (
        _has_texts(value, "note")
        and {"value", "interval", "sustained"} <= value.keys()
        and (value["value"] is None or _is_number(value["value"]))
        and (value["interval"] is None or _are(value["interval"], _is_number))
        and (value["interval"] is None or len(value["interval"]) == 2)
        and _is_number(value.get("rounds"))
    )


def _are_facts(value: object) -> bool:
    """Whether a value has texts by their names."""
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


# Checks of the keys that ``compare`` uses.
_SHAPE: dict[str, Callable[[Any], bool]] = {
    "level": lambda value: isinstance(value, str),
    "environment": lambda value: isinstance(value, dict) and all(map(_are_facts, value.values())),
    "medium": lambda value: value is None or isinstance(value, str),
    "figures": lambda value: (
        value is None or (isinstance(value, dict) and all(map(_is_figure, value.values())))
    ),
    "results": lambda value: _are(value, _is_result),
    "failed": lambda value: _are(value, lambda each: _has_texts(each, "workload", "reason")),
}
