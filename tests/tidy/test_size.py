"""Modules, functions and lines stay short; nothing unfinished is left lying about."""

import ast
import re
from pathlib import Path

import pytest

from tidy.sources import ROOT, cython_files, python_files

MODULE_LINES = 600
FUNCTION_LINES = 70
LINE_LENGTH = 100

_CYTHON_FUNCTION = re.compile(
    r"^(?P<indent>[ ]*)(?:async\s+)?(?:def|cpdef|cdef)\s+"
    r"(?!(?:extern|struct|enum|union|class|packed)\b)[^=]*?\b(?P<name>\w+)\s*\("
)
_MARKERS = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bfor " r"now\b|NotImplemented" r"Error", re.I
)


def checked_files() -> list[Path]:
    tests = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
    return [*python_files(), *cython_files(), *tests, ROOT / "setup.py"]


def shipped_files() -> list[Path]:
    headers = sorted((ROOT / "src").rglob("*.h"))
    return [*python_files(), *cython_files(), *headers]


def python_functions(text: str) -> list[tuple[str, int, int]]:
    """Name, first line and number of lines of each function (its docstring not counted)."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                size -= (first.end_lineno or first.lineno) - first.lineno + 1
            found.append((node.name, node.lineno, size))
    return found


def cython_functions(text: str) -> list[tuple[str, int, int]]:
    """The same for Cython, by indentation; here a docstring counts."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        start = _CYTHON_FUNCTION.match(line)
        if start is None:
            continue
        depth = len(start["indent"])
        end = number
        signature_open = line.count("(") > line.count(")")
        for later in range(number + 1, len(lines)):
            body = lines[later]
            if signature_open:
                signature_open = not body.rstrip().endswith((":", ")"))
                end = later
                continue
            if body.strip() and len(body) - len(body.lstrip()) <= depth:
                break
            if body.strip():
                end = later
        found.append((start["name"], number + 1, end - number + 1))
    return found


@pytest.mark.parametrize("path", checked_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_functions_and_lines_are_short(path: Path) -> None:
    text = path.read_text()
    lines = text.splitlines()
    name = path.relative_to(ROOT)
    assert len(lines) <= MODULE_LINES, f"{name} has {len(lines)} lines: split it by what it does"
    assert [
        f"{name}:{number}" for number, line in enumerate(lines, 1) if len(line) > LINE_LENGTH
    ] == []
    functions = python_functions(text) if path.suffix == ".py" else cython_functions(text)
    assert [
        f"{name}:{line}: {function} has {size} lines"
        for function, line, size in functions
        if size > FUNCTION_LINES
    ] == []


@pytest.mark.parametrize("path", shipped_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_has_a_note_of_unfinished_work(path: Path) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _MARKERS.search(line)
    ] == []


def test_long_functions_are_seen() -> None:
    body = "".join(f"    x = {number}\n" for number in range(80))
    assert python_functions(f"def long():\n{body}")[0] == ("long", 1, 81)
    assert cython_functions(f"cdef int long(int a) noexcept nogil:\n{body}\ncdef int b = 3\n") == [
        ("long", 1, 81)
    ]
    two = f"cdef Status f(\n    int a,\n    int b,\n) noexcept nogil:\n{body}"
    assert cython_functions(two) == [("f", 1, 84)]
    assert cython_functions("cdef extern from 'x.h' nogil:\n    int f(int)\n") == []
