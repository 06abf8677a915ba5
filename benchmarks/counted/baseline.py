"""The committed counts, and the bounds for a difference from them."""

import json
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counted.run import HERE, Counts, Found

FILE = HERE / "baseline.json"


@dataclass(frozen=True)
class Bound:
    """How far a count may be above (and, if ``exact``, below) its baseline."""

    fraction: float  # of the baseline
    minimum: float  # absolute
    exact: bool = False

    def crossed(self, before: float, now: float) -> bool:
        return now > before + self.room(before) or (self.exact and self.fell(before, now))

    def fell(self, before: float, now: float) -> bool:
        return now < before - self.room(before)

    def room(self, before: float) -> float:
        return max(self.minimum, self.fraction * before)


# Instructions of a compiled kernel depend only on the compiler. Those of the interpreter depend on
# its build, by a few percent; its bytecodes on its version.
BOUNDS = {
    "instructions": Bound(0.03, 3),
    "with_python": Bound(0.25, 100),
    "bytecodes": Bound(0.03, 2),
    "allocations": Bound(0.03, 1),
    "copied": Bound(0.02, 64),
    "moved": Bound(0.001, 2, exact=True),
    "calls": Bound(0.0, 0.05, exact=True),
}
# Bounds for a tool that differs from the baseline's. System calls then have other names (`stat` is
# `newfstatat` or `statx`), so only their sum is compared.
WIDER_BOUNDS = {
    "instructions": Bound(0.15, 20),
    "with_python": Bound(0.5, 200),
    "bytecodes": Bound(0.25, 10),
    "allocations": Bound(0.25, 5),
    "copied": Bound(0.25, 256),
    "moved": Bound(0.05, 64),
    "calls": Bound(0.25, 2),
}
# The kinds of counts that depend on a tool. Pythons of one version differ if different compilers
# built them: the compiler decides which copies call memcpy.
DEPENDS_ON = {
    "compiler": ("instructions",),
    "valgrind": ("instructions", "with_python"),
    "python": ("with_python", "bytecodes", "allocations", "copied", "moved", "calls"),
    "libc": ("with_python", "allocations", "copied", "moved", "calls"),
}
UNKNOWN = "unknown"


class FellWarning(UserWarning):
    """A count is far below its baseline: it could rise again unnoticed."""


def made_with() -> dict[str, str]:
    """The versions that the counts depend on. ``$CC`` builds the kernels, if set."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    return {
        "python": f"{platform.python_version()}, {platform.python_compiler()}",
        "compiler": first_line([compiler, "--version"]),
        "valgrind": first_line(["valgrind", "--version"]),
        "libc": " ".join(platform.libc_ver()).strip() or UNKNOWN,
        "machine": platform.machine(),
    }


def first_line(command: list[str]) -> str:
    """The first line of a program's output; ``unknown`` if it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return UNKNOWN
    said = done.stdout.splitlines()
    return said[0] if said and done.returncode == 0 else UNKNOWN


def load(path: Path = FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def save(found: Found, made: dict[str, str], path: Path = FILE) -> None:
    data = {"made_with": made, "operations": dict(sorted(found.items()))}
    path.write_text(json.dumps(data, indent=1) + "\n")


def bounds(before: dict[str, str], now: dict[str, str]) -> dict[str, Bound]:
    """The bounds for two environments: wider for counts that depend on a tool that differs."""
    wide = {
        kind
        for what, kinds in DEPENDS_ON.items()
        if _what(before, what) != _what(now, what) or _what(now, what) == UNKNOWN
        for kind in kinds
    }
    return {kind: (WIDER_BOUNDS if kind in wide else BOUNDS)[kind] for kind in BOUNDS}


def _what(made: dict[str, str], what: str) -> str:
    """For a compiler, only kind and version: distributions add their own text."""
    differing = made.get(what, UNKNOWN)
    if what != "compiler" or differing == UNKNOWN:
        return differing
    return f"{'clang' if 'clang' in differing else 'gcc'} {differing.split()[-1]}"


def flat(counts: Counts) -> Iterator[tuple[str, str, float]]:
    """(kind, name, number) of every count, except the instructions of each module."""
    for kind in BOUNDS:
        if kind not in counts:
            continue  # not counted
        value = counts[kind]
        if isinstance(value, dict):
            for name, number in value.items():
                yield kind, f"{kind} {name}", number
        else:
            yield kind, kind, value


def pairs(
    before: Counts, now: Counts, bound: dict[str, Bound]
) -> Iterator[tuple[str, str, float, float]]:
    """(kind, name, before, now) of the counts in now; the sum of calls if bounds are not exact."""
    old = {name: (kind, number) for kind, name, number in flat(before)}
    new = {name: (kind, number) for kind, name, number in flat(now)}
    in_sum = not bound["calls"].exact
    for name in sorted(old.keys() | new.keys()):
        kind = (old.get(name) or new[name])[0]
        if kind not in now or (kind == "calls" and in_sum):
            continue
        if kind == "instructions" and name not in new:
            continue  # a path that was not counted
        yield kind, name, old.get(name, (kind, 0.0))[1], new.get(name, (kind, 0.0))[1]
    if in_sum and "calls" in now:
        yield "calls", "calls in all", *(sum(each["calls"].values()) for each in (before, now))


LABELS = {
    "with_python": "instructions with Python's",
    "copied": "bytes copied in memory",
    "moved": "bytes moved by system calls",
}


def differences(before: Counts, now: Counts, bound: dict[str, Bound]) -> list[str]:
    """One line for each count outside its bounds, or no longer counted."""
    differing = [
        _line(name, was, there)
        for kind, name, was, there in pairs(before, now, bound)
        if bound[kind].crossed(was, there)
        or (there == 0 and bound[kind] == BOUNDS[kind] and bound[kind].fell(was, there))
    ]
    if "instructions" in now:
        lost = before["modules"].keys() - now["modules"].keys()
        differing += [f"no instruction of {name} is counted any more" for name in sorted(lost)]
    return differing


def fallen(before: Counts, now: Counts, bound: dict[str, Bound]) -> list[str]:
    """One line for each count so far below its baseline that it could rise unnoticed."""
    return [
        _line(name, was, there)
        for kind, name, was, there in pairs(before, now, bound)
        if bound[kind].fell(was, there)
    ]


def _line(name: str, before: float, now: float) -> str:
    return f"{LABELS.get(name, name)}: {before:,.10g} -> {now:,.10g}{_part(before, now)}"


def _part(before: float, now: float) -> str:
    return f" ({now / before - 1:+.1%})" if before else ""


def compare(found: Found, known: dict[str, Any], made: dict[str, str]) -> dict[str, list[str]]:
    """By operation, the counts outside their bounds; also operations missing from the baseline."""
    bound = bounds(known["made_with"], made)
    operations: Found = known["operations"]
    differing = {
        name: differences(operations[name], counts, bound)
        if name in operations
        else ["not in the baseline: make baseline"]
        for name, counts in found.items()
    }
    return {name: lines for name, lines in differing.items() if lines}


def below(found: Found, known: dict[str, Any], made: dict[str, str]) -> dict[str, list[str]]:
    """By operation, the counts far below the baseline, which should be renewed."""
    bound = bounds(known["made_with"], made)
    operations: Found = known["operations"]
    differing = {
        name: fallen(operations[name], counts, bound)
        for name, counts in found.items()
        if name in operations
    }
    return {name: lines for name, lines in differing.items() if lines}


def changes(found: Found, known: dict[str, Any], made: dict[str, str]) -> list[str]:
    """Everything that a new baseline changes, for its commit."""
    none = dict.fromkeys(BOUNDS, Bound(0.005, 0.05, exact=True))
    operations: Found = known.get("operations", {})
    differing = [f"{name}: gone" for name in sorted(operations.keys() - found.keys())]
    for name, counts in sorted(found.items()):
        if name not in operations:
            differing.append(f"{name}: new")
        else:
            differing += [f"{name}: {line}" for line in differences(operations[name], counts, none)]
    before = known.get("made_with", {})
    differing += [
        f"{key}: {before.get(key)} -> {made[key]}" for key in made if before.get(key) != made[key]
    ]
    return differing


def report(lines: dict[str, list[str]]) -> None:
    for name, differing in lines.items():
        print(f"{name}:", *differing, sep="\n    ", file=sys.stderr)
