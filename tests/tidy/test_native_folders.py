"""The folders of the kernels have one order, and each lists its modules."""

import ast
import re

from tidy.sources import NATIVE, cython_files, imports, module_name

# A folder imports from itself and from those before it.
FOLDERS = (
    "format",
    "files",
    "index",
    "read",
    "append",
    "broker",
    "compaction",
    "recovery",
    "spark",
    "jit",
    "bench",
)
SUFFIXES = (".py", ".pyx", ".pxd", ".pxi")


def folder_problem(importer: str, target: str) -> str | None:
    """Why one module of the kernels may not import another, or None. Dotted names."""
    own, other = importer.split(".")[2], target.split(".")[2]
    if own not in FOLDERS or other not in FOLDERS:
        return f"{importer} imports {target}: a module of the kernels lies in one of {FOLDERS}"
    if FOLDERS.index(other) > FOLDERS.index(own):
        return f"{importer} imports {target}: {own} comes before {other}"
    return None


def test_folders_import_only_from_those_before_them() -> None:
    problems = [
        problem
        for path in cython_files()
        for found in imports(path)
        if found.module.startswith("kstore._native.")
        and (problem := folder_problem(module_name(path), found.module)) is not None
    ]
    assert problems == []


def test_the_folders_are_these() -> None:
    found = {path.parent.name for path in NATIVE.rglob("__init__.py")} - {NATIVE.name}
    assert found == set(FOLDERS)
    assert {path.parent.name for path in cython_files()} <= found


def test_each_folder_lists_its_modules() -> None:
    for folder in FOLDERS:
        text = ast.get_docstring(ast.parse((NATIVE / folder / "__init__.py").read_text())) or ""
        listed = re.findall(r"^- (\w+): \S", text, re.MULTILINE)
        modules = {path.stem for path in (NATIVE / folder).iterdir() if path.suffix in SUFFIXES}
        assert listed == sorted(modules - {"__init__"}), folder


def test_an_import_of_a_later_folder_is_found() -> None:
    assert folder_problem("kstore._native.format.cursor", "kstore._native.read.decode")
    assert folder_problem("kstore._native.decode", "kstore._native.format.cursor")
    assert folder_problem("kstore._native.read.decode", "kstore._native.format.cursor") is None
