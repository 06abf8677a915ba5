"""Every command line in the documentation is one that kstore's tools and the Makefile take."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from kstore.cli import TOOLS
from kstore.cli.common import ToolParser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^ *```[a-z]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_END = {"|", "<", ">", "#"}  # of the words that the tool gets


def commands(text: str, program: str) -> list[list[str]]:
    """The words of each line in a fenced block that begins with this program.

    A remark may follow after two spaces.
    """
    lines = re.sub(r" *\\\n *", " ", "".join(_FENCED.findall(text))).splitlines()
    found = []
    for line in lines:
        if line.startswith(f"{program} "):
            words = shlex.split(re.split(r" {2,}", line)[0])
            ends = [number for number, word in enumerate(words) if word in _END]
            found.append(words[1 : ends[0] if ends else None])
    return found


def parse(words: list[str]) -> None:
    """Raises SystemExit for words that the tool refuses."""
    tool, *options = words
    assert tool in TOOLS or tool.startswith("-"), tool
    if tool in TOOLS:
        parser = ToolParser(prog=f"kstore {tool}")
        import_module(f"kstore.cli.{tool.replace('-', '_')}").describe(parser)
        parser.parse_in_any_order(options)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page.read_text(), "kstore")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of_a_page_have_options_that_exist(page: Path) -> None:
    for words in commands(page.read_text(), "kstore"):
        try:
            parse(words)
        except SystemExit as refused:
            if refused.code:
                pytest.fail(f"kstore {shlex.join(words)}")


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        words[0]
        for page in PAGES
        for words in commands(page.read_text(), "make")
        if not words[0].startswith("PYTHON=")
    }
    assert len(named) > 10
    assert named <= targets


def test_commands_are_found() -> None:
    text = "kstore no\n```text\nkstore a 'b c' \\\n    --d  remark\nkstore e > f\nother\n```\n"
    assert commands(text, "kstore") == [["a", "b c", "--d"], ["e"]]
    with pytest.raises(SystemExit):
        parse(["topics", "--lost", "--log-dir", "data"])
