"""Every name that kstore or Kafka gives a file is written in ``kstore/files/filenames.py``."""

import ast
import re

from tidy.sources import PACKAGE, ROOT, python_files

HOME = PACKAGE / "files" / "filenames.py"
# The bench makes files of its own to time; a Python module's dotted name is no file.
ELSEWHERE = ("bench", "_native")
FILE = re.compile(
    r"^(?:kstore\.[a-z-]+\.?|[a-z-]+-checkpoint|meta\.properties|partition\.metadata|\.lock"
    r"|\.kafka_cleanshutdown|\.(?:log|index|timeindex|txnindex|snapshot|checkpoint|tmp)"
    r"|\.(?:deleted|cleaned|swap)|-(?:delete|future|stray))$"
)
MODULES = {f"kstore.{path.stem}" for path in PACKAGE.iterdir()} | {"kstore.cli.", "kstore.testing."}


def literals(text: str) -> list[tuple[int, str]]:
    """Line and text of each string that is the name, the beginning or the ending of a file."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and FILE.match(node.value)
        and node.value not in MODULES
    ]


def test_file_names_are_written_in_one_module() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {name!r} belongs in files/filenames.py"
        for path in python_files()
        if path != HOME and path.relative_to(PACKAGE).parts[0] not in ELSEWHERE
        for line, name in literals(path.read_text())
    ]
    assert problems == []


def test_a_name_elsewhere_is_found() -> None:
    assert len(literals(HOME.read_text())) > 25
    text = 'A = "kstore.new"\nB = ".swap"\nC = "kstore.store"\nD = "log"\n"kstore.log.x"\n'
    assert literals(text) == [(1, "kstore.new"), (2, ".swap")]
