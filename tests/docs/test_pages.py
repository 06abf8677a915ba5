"""Every Python block of the documentation runs, page by page, in a folder of its own.

The blocks of one page share their names and run in order, as a reader would. A block is skipped
only when the line before it is ``<!-- not run: why -->``: it needs something no test has, such as
a server.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if path.is_file() and not path.name.startswith("spark")  # those run in tests/spark
)
_OPENING = re.compile(r"^(?P<indent>\s*)```python\b")
_EXCUSE = re.compile(r"^\s*<!-- not run: (?P<why>.+) -->\s*$")


@dataclass(frozen=True)
class Block:
    """One example: where it stands, its code, and why it is not run if it is not."""

    line: int
    code: str
    excuse: str | None = None


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page."""
    found = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _OPENING.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        while lines[number].strip() != "```":
            number += 1
        before = next((line for line in reversed(lines[: start - 1]) if line.strip()), "")
        excuse = _EXCUSE.match(before)
        cut = len(opening["indent"])
        code = "\n".join(line[cut:] for line in lines[start:number])
        found.append(Block(start + 1, code, excuse["why"] if excuse else None))
    return found


def run(page: Path, text: str) -> int:
    """Run a page's blocks in one namespace; returns how many ran."""
    names: dict[str, object] = {"__name__": "__example__"}
    count = 0
    for block in blocks(text):
        if block.excuse is None:
            padded = "\n" * (block.line - 1) + block.code
            exec(compile(padded, str(page), "exec", dont_inherit=True), names)
            count += 1
    return count


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.excuse is None for block in blocks(page.read_text()))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(page, page.read_text()) > 0


def test_every_excuse_names_what_is_missing() -> None:
    excuses = [
        (page.name, block.line, block.excuse)
        for page in PAGES
        for block in blocks(page.read_text())
        if block.excuse is not None
    ]
    assert [excuse for excuse in excuses if not re.search(r"needs a server", excuse[2])] == []


def test_blocks_are_found() -> None:
    text = (
        "a\n```python\nx = 1\n```\n<!-- not run: needs a server -->\n```python\nserve()\n```\n"
        "    ```python\n    y = x + 1\n    ```\n```text\nno\n```\n"
    )
    assert blocks(text) == [
        Block(3, "x = 1"),
        Block(7, "serve()", "needs a server"),
        Block(10, "y = x + 1"),
    ]
    assert run(Path("page"), text) == 2
    with pytest.raises(ZeroDivisionError):
        run(Path("page"), "```python\n1 / 0\n```\n")
