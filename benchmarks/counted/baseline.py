"""The committed numbers: what a count is compared with, and how far it may be away."""

import json
import platform
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from counted.run import HERE, Counts, Found

FILE = HERE / "baseline.json"


@dataclass(frozen=True)
class Bound:
    """How far a count may lie above (and, ``exact``, below) its baseline."""

    part: float  # of the baseline
    least: float  # in any case
    exact: bool = False

    def crossed(self, before: float, now: float) -> bool:
        room = max(self.least, self.part * before)
        return now > before + room or (self.exact and now < before - room)


# Instructions of a compiled kernel change with the compiler only; the interpreter's with its
# build, by a few percent; what it executes, with its version.
BOUNDS = {
    "instructions": Bound(0.03, 3),
    "with_python": Bound(0.25, 100),
    "bytecodes": Bound(0.03, 2),
    "allocations": Bound(0.03, 1),
    "copied": Bound(0.02, 64),
    "moved": Bound(0.001, 2, exact=True),
    "calls": Bound(0.0, 0.05, exact=True),
}
# With another compiler or another minor version of Python than the baseline's.
ELSEWHERE = {
    "instructions": Bound(0.15, 20),
    "with_python": Bound(0.5, 200),
    "bytecodes": Bound(0.25, 10),
    "allocations": Bound(0.25, 5),
    "copied": Bound(0.25, 256),
    "moved": Bound(0.05, 64),
    "calls": Bound(0.0, 1),
}


def made_with() -> dict[str, str]:
    """What the numbers depend on."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    return {
        "python": platform.python_version(),
        "compiler": _first_line([compiler, "--version"]),
        "valgrind": _first_line(["valgrind", "--version"]) if which("valgrind") else "none",
        "machine": platform.machine(),
    }


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def load(path: Path = FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def save(found: Found, path: Path = FILE) -> None:
    data = {"made_with": made_with(), "operations": dict(sorted(found.items()))}
    path.write_text(json.dumps(data, indent=1) + "\n")


def bounds(before: dict[str, str], now: dict[str, str]) -> dict[str, Bound]:
    """The bounds between two places: wider ones where compiler or Python are others."""
    same_compiler = before["compiler"].split()[-1] == now["compiler"].split()[-1]
    same_python = before["python"].split(".")[:2] == now["python"].split(".")[:2]
    chosen = dict(BOUNDS)
    if not same_compiler or before["valgrind"] != now["valgrind"]:
        chosen["instructions"] = ELSEWHERE["instructions"]
    if not same_python:
        chosen |= ELSEWHERE
    return chosen


def flat(counts: Counts) -> Iterator[tuple[str, str, float]]:
    """(kind, name, number) of every count; a module's instructions are told, not compared."""
    for kind in BOUNDS:
        if kind not in counts:
            continue  # not asked for
        value = counts[kind]
        if isinstance(value, dict):
            for name, number in value.items():
                yield kind, f"{kind} {name}", number
        else:
            yield kind, kind, value


LABELS = {
    "with_python": "instructions with Python's",
    "copied": "bytes copied in memory",
    "moved": "bytes moved by system calls",
}


def differences(before: Counts, now: Counts, bound: dict[str, Bound]) -> list[str]:
    """What of an operation has left its bounds, a line each."""
    old = {name: (kind, number) for kind, name, number in flat(before)}
    new = {name: (kind, number) for kind, name, number in flat(now)}
    told = []
    for name in sorted(old.keys() | new.keys()):
        kind = (old.get(name) or new[name])[0]
        if kind not in now:
            continue  # not asked for
        was, there = old.get(name, (kind, 0.0))[1], new.get(name, (kind, 0.0))[1]
        if kind == "instructions" and name not in new:
            continue  # a path that was not asked for
        if bound[kind].crossed(was, there):
            told.append(
                f"{LABELS.get(name, name)}: {was:,.10g} -> {there:,.10g}{_part(was, there)}"
            )
    return told


def _part(before: float, now: float) -> str:
    return f" ({now / before - 1:+.1%})" if before else ""


def compare(found: Found, known: dict[str, Any]) -> dict[str, list[str]]:
    """By operation, what has left its bounds; operations that one side lacks as well."""
    bound = bounds(known["made_with"], made_with())
    operations: Found = known["operations"]
    told = {
        name: differences(operations[name], counts, bound)
        if name in operations
        else ["not in the baseline: make baseline"]
        for name, counts in found.items()
    }
    return {name: lines for name, lines in told.items() if lines}


def changes(found: Found, known: dict[str, Any]) -> list[str]:
    """Everything that a new baseline changes, for who commits it."""
    none = dict.fromkeys(BOUNDS, Bound(0.005, 0.05, exact=True))
    operations: Found = known.get("operations", {})
    told = [f"{name}: gone" for name in sorted(operations.keys() - found.keys())]
    for name, counts in sorted(found.items()):
        if name not in operations:
            told.append(f"{name}: new")
        else:
            told += [f"{name}: {line}" for line in differences(operations[name], counts, none)]
    before, now = known.get("made_with", {}), made_with()
    told += [
        f"{key}: {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]
    ]
    return told


def fail(lines: dict[str, list[str]]) -> None:
    for name, told in lines.items():
        print(f"{name}:", *told, sep="\n    ", file=sys.stderr)
