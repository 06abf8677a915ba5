"""``python -m counted``: compare with the baseline, renew it, or show the numbers."""

import argparse
import sys

from counted import baseline, broker, kernels, paths, planted, system_calls  # noqa: F401
from counted.operation import OPERATIONS
from counted.run import PATHS, Counting, Found, MissingToolError


def main() -> int:
    parser = argparse.ArgumentParser(prog="counted", description=__doc__)
    parser.add_argument("what", choices=("check", "renew", "show"))
    parser.add_argument("names", nargs="*", help="only these operations (parts of names)")
    given = parser.parse_args()
    names = [
        name for name in OPERATIONS if not given.names or any(part in name for part in given.names)
    ]
    if not names:
        parser.error("no operation is called so; all: " + ", ".join(OPERATIONS))
    try:
        with Counting() as counting:
            found = counting.count(names)
    except MissingToolError as error:
        sys.exit(str(error))
    if given.what == "show":
        print(table(found))
        return 0
    if given.what == "renew":
        return renew(found)
    return check(found)


def check(found: Found) -> int:
    known = baseline.load()
    made = baseline.made_with()
    left, fell = baseline.compare(found, known, made), baseline.below(found, known, made)
    if fell:
        print("Far below the baseline, which guards them no more (make baseline):", file=sys.stderr)
        baseline.report(fell)
        print(file=sys.stderr)
    baseline.report(left)
    if left:
        print("\nIf this is meant: make baseline, and commit what it prints.", file=sys.stderr)
        return 1
    print(f"{len(found)} operations within the baseline's bounds")
    return 0


def renew(found: Found) -> int:
    known = baseline.load() if baseline.FILE.exists() else {}
    made = baseline.made_with()
    kept: Found = {} if len(found) == len(OPERATIONS) else known.get("operations", {})
    changes = baseline.changes({**kept, **found}, known, made)
    baseline.save({**kept, **found}, made)
    print(*(changes or ["nothing changed"]), sep="\n")
    return 0


def table(found: Found) -> str:
    """Instructions a unit by path, and the rest a round."""
    lines = [
        "| operation | " + " | ".join(PATHS) + " | with Python | bytecodes | allocations "
        "| copied | calls |",
        "|---|" + "---|" * (len(PATHS) + 5),
    ]
    for name, counts in found.items():
        operation = OPERATIONS[name]
        of = counts["instructions"]
        cells = [f"{of[path] / operation.amount:,.1f}" if path in of else "" for path in PATHS]
        cells.append(f"{counts['with_python'] / operation.amount:,.1f}")
        cells += [f"{counts[kind]:,.10g}" for kind in ("bytecodes", "allocations", "copied")]
        cells.append(", ".join(f"{number:g} {call}" for call, number in counts["calls"].items()))
        unit = (
            operation.unit if operation.amount == 1 else f"{operation.amount:,} {operation.unit}s"
        )
        lines.append(f"| {name} ({unit}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
