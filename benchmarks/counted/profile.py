"""``python -m counted.profile DIRECTORY``: instructions of common operations by function and line.

Writes a callgrind file for each operation, with the lines of the ``.pyx`` files (for KCachegrind or
``callgrind_annotate``), and ``summary.md`` with the most expensive functions and lines. Requires
kernels built with ``KSTORE_LINES=1``; ``make profile`` builds them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import kstore
from counted import broker, kernels, paths, system_calls  # noqa: F401
from counted.operation import OPERATIONS
from counted.run import BEST, Counting, module_of

PROFILED = (
    "append one record",
    "append a thousand records",
    "append a batch as leader",
    "append one record and flush",
    "read a slice at an offset",
    "one record by its offset",
    "iterate a view",
    "scan columns",
    "offset at a time",
    "many index lookups in one call",
    "recover a segment",
    "open a store to write, and close it",
    "open after a kill",
    "verify a log",
    "compact a log",
)
MOST = 12  # functions, and lines
PACKAGE = Path(kstore.__file__).resolve().parent


class SourceLine(NamedTuple):
    module: str
    function: str
    file: str
    line: int


def has_lines(package: Path) -> bool:
    """Whether the built kernels have line numbers."""
    built = sorted((package / "_native").rglob("decode.*.so"))
    return bool(built) and b".debug_line" in built[0].read_bytes()


def costs(path: Path) -> Iterator[tuple[SourceLine, int]]:
    """The own cost of each line of a dump, which compresses names but not positions."""
    names: dict[str, dict[str, str]] = {"ob": {}, "fl": {}, "fn": {}}
    at = {"ob": "", "fl": "", "fn": ""}
    called = False
    for text in path.read_text(errors="replace").splitlines():
        if match := re.match(r"c?(ob|fl|fi|fe|fn)=(\(\d+\))(?: (.*))?$", text):
            kind, number, name = match.groups()
            kind = "fl" if kind in ("fi", "fe") else kind
            if name:
                names[kind][number] = name
            if not text.startswith("c"):
                at[kind] = names[kind][number]
        elif text.startswith("calls="):
            called = True  # the next line is the callee's
        elif text[:1].isdigit():
            if not called:
                line, count = text.split()[:2]
                yield SourceLine(module_of(at["ob"]), at["fn"], at["fl"], int(line)), int(count)
            called = False


def function_name(mangled: str) -> str:
    """A function's name without Cython's prefixes."""
    name = re.sub(r"^__pyx_(?:pw|pf|fuse_\d+|f)_\d*kstore_7_native_\d+[a-z]+_\d+", "", mangled)
    return re.sub(r"'\d+$", "", name)


def source_line(file: str, line: int) -> str:
    """The text of a source line of kstore; empty if the file is missing."""
    for path in (PACKAGE.parents[1] / file, *(PACKAGE / "_native").rglob(Path(file).name)):
        if path.is_file():
            lines = path.read_text().splitlines()
            return lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return ""


def summarize(name: str, path: Path, rounds: int, amount: int) -> list[str]:
    """A section of the summary."""
    modules: Counter[str] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    lines: Counter[tuple[str, int]] = Counter()
    for at, count in costs(path):
        modules[at.module] += count
        if at.module != "other":
            functions[at.module, function_name(at.function)] += count
            lines[Path(at.file).name, at.line] += count
    total, units = sum(modules.values()), rounds * amount
    own = total - modules["other"]
    text = [
        f"## {name}",
        "",
        f"{total / units:,.0f} instructions, {own / units:,.0f} of them in kstore's kernels: "
        + ", ".join(
            f"{each} {count / units:,.0f}"
            for each, count in modules.most_common()
            if each != "other" and count * 50 > own
        ),
        "",
        *("| kernel | function | instructions | of kernels |", "|---|---|---|---|"),
    ]
    for (module, function), count in functions.most_common(MOST):
        share = f"{count / own:.1%}"
        text.append(f"| {module} | `{function}` | {count / units:,.1f} | {share} |")
    text += ["", "| line | instructions | source |", "|---|---|---|"]
    for (file, line), count in lines.most_common(MOST):
        source = source_line(file, line).replace("|", "\\|")
        text.append(f"| {file}:{line} | {count / units:,.1f} | `{source}` |")
    return [*text, ""]


def main(target: Path) -> int:
    if not has_lines(PACKAGE):
        sys.exit("the kernels have no line numbers: make profile builds them with KSTORE_LINES=1")
    target.mkdir(parents=True, exist_ok=True)
    text = [
        "# Where the instructions go",
        "",
        f"Counted by callgrind with KSTORE_CPU={BEST}, for one unit of each operation.",
        "Each section has a file for KCachegrind or `callgrind_annotate --include=src`.",
        "",
    ]
    with Counting() as counting:
        dumps = counting.dumps(PROFILED, BEST, lines=True)
        for name in PROFILED:
            kept = target / f"{re.sub(r'[^a-z0-9]+', '-', name)}.callgrind"
            kept.write_bytes(dumps[name].read_bytes())
            operation = OPERATIONS[name]
            text += summarize(name, kept, operation.rounds, operation.amount)
    summary = target / "summary.md"
    summary.write_text("\n".join(text))
    print(f"{len(PROFILED)} profiles and {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
