"""The project's source files and what each of them imports, for the tests of this folder.

Python is read by ``ast``; Cython by its import and cimport lines, which the project writes one
a line and never builds at run time.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "kstore"
NATIVE = PACKAGE / "_native"

_CYTHON_IMPORT = re.compile(
    r"^\s*(?:from\s+(?P<origin>[.\w]+)\s+c?import\s+(?P<names>.+)"
    r"|c?import\s+(?P<modules>[\w.]+.*))$"
)
_CYTHON_EXTERN = re.compile(r"^\s*cdef\s+extern\s+from\s+[\"<]+(?P<header>[\w./]+)[\">]+")


@dataclass(frozen=True)
class Import:
    """One imported module. ``name`` is the attribute taken from it, if any."""

    path: Path
    line: int
    module: str
    name: str | None = None
    typing_only: bool = False

    @property
    def root(self) -> str:
        return self.module.partition(".")[0]

    @property
    def location(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def targets(self) -> tuple[str, ...]:
        """What may be meant: the module, and the module of that name inside it."""
        return (self.module,) if self.name is None else (self.module, f"{self.module}.{self.name}")


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def cython_files() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.pxi")])


def module_name(path: Path) -> str:
    """``src/kstore/log/log.py`` is ``kstore.log.log``; a package is named after its folder."""
    parts = list(path.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[Import]:
    text = path.read_text()
    if path.suffix == ".py":
        return list(_python_imports(path, ast.parse(text)))
    return list(_cython_imports(path, text))


def _python_imports(path: Path, tree: ast.AST, typing_only: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name, None, typing_only)
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(path, node.level, node.module or "")
            for alias in node.names:
                yield Import(path, node.lineno, origin, alias.name, typing_only)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            body = ast.Module(body=node.body, type_ignores=[])
            yield from _python_imports(path, body, True)
            rest = ast.Module(body=node.orelse, type_ignores=[])
            yield from _python_imports(path, rest, typing_only)
        else:
            yield from _python_imports(path, node, typing_only)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _cython_imports(path: Path, text: str) -> Iterator[Import]:
    for number, line in code_lines(text):
        found = _CYTHON_IMPORT.match(line)
        if found is None:
            continue
        origin = found["origin"]
        if origin is not None:
            level = len(origin) - len(origin.lstrip("."))
            module = _absolute(path, level, origin.lstrip("."))
            for name in found["names"].strip("() ").split(","):
                if name.strip():
                    yield Import(path, number, module, name.split()[0])
        else:
            for name in found["modules"].split(","):
                yield Import(path, number, name.split()[0])


def extern_headers(path: Path) -> list[tuple[int, str]]:
    """The C headers that a Cython file declares functions of, with their lines."""
    return [
        (number, found["header"])
        for number, line in code_lines(path.read_text())
        if (found := _CYTHON_EXTERN.match(line))
    ]


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside triple-quoted strings, without their comments."""
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        kept, rest = "", line
        while rest:
            if inside:
                _, found, rest = rest.partition(inside)
                inside = "" if found else inside
                continue
            opening = re.search(r'"""|\'\'\'|#', rest)
            if opening is None or opening[0] == "#":
                kept += rest if opening is None else rest[: opening.start()]
                break
            kept += rest[: opening.start()] + '""'
            inside, rest = opening[0], rest[opening.end() :]
        if kept.strip():
            yield number, kept.rstrip()


def _absolute(path: Path, level: int, module: str) -> str:
    if level == 0:
        return module
    package = path.parent.relative_to(SRC).parts
    base = package[: len(package) - level + 1]
    return ".".join([*base, *([module] if module else [])])
