"""Every example of the documentation runs, page by page, in a folder of its own.

The Python blocks of one page share their names and run in order, as a reader would. A block is
skipped only when the line before it is ``<!-- not run: why -->``: it needs something no test has,
such as a server, or a test of its own runs it. Below ``<!-- run: last column -->`` a table's last
column runs, cell by cell and in order with the blocks: Python, or a command that begins with
``kstore``. A block of commands runs below ``<!-- run -->``, or ``<!-- run after: COMMANDS -->`` for
what its reader has and the page does not show; no command reads standard input or fails.
"""

import re
import shlex
import subprocess
import sys
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
_TABLE = "<!-- run: last column -->"
_RUN = re.compile(r"\s*<!-- run(?: after: (?P<first>.+))? -->\s*")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """One example: its line, its code, and why it is not run if it is not."""

    line: int
    code: str
    excuse: str | None = None
    is_command: bool = False


def blocks(text: str) -> list[Block]:
    """The Python blocks and the runnable table cells of a page, in order."""
    found = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        if lines[number].strip() == _TABLE:
            cells = table_cells(lines, number + 1)
            assert cells, f"no table below line {number + 1}"
            found += cells
        marked = _RUN.fullmatch(lines[number])
        if marked is not None:
            assert lines[number + 1] == "```text", f"no block below line {number + 1}"
            code = lines[number + 2 : lines.index("```", number + 2)]
            first = marked["first"] or ""
            found.append(Block(number + 3, "\n".join([first, *code]), is_command=True))
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


def table_cells(lines: list[str], number: int) -> list[Block]:
    """The code in the last column of the table that begins at this line, without its head."""
    found = []
    row = number + 2
    while row < len(lines) and lines[row].startswith("|"):
        cell = lines[row].rstrip().removesuffix("|").rpartition(" | ")[2]
        found += [
            Block(row + 1, code, is_command=code.startswith("kstore "))
            for code in _CODE.findall(cell)
        ]
        row += 1
    return found


def run_command(commands: str) -> None:
    """Run the lines of a shell, in which ``kstore`` is this Python's; each has the status 0."""
    script = f'kstore() {{ {shlex.quote(sys.executable)} -m kstore "$@"; }}\n{commands}'
    ran = subprocess.run(
        ["sh", "-ec", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{commands}\n{ran.stdout[-2000:]}{ran.stderr[:2000]}"


def run(page: Path, text: str) -> int:
    """Run a page's examples in one namespace; returns how many ran."""
    names: dict[str, object] = {"__name__": "__example__"}
    count = 0
    for block in blocks(text):
        if block.excuse is None:
            if block.is_command:
                run_command(block.code)
            else:
                padded = "\n" * (block.line - 1) + block.code
                exec(compile(padded, str(page), "exec", dont_inherit=True), names)
            count += 1
    return count


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.excuse is None for block in blocks(page.read_text()))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_example_of_the_pages_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(page, page.read_text()) > 0


def test_the_calls_of_kafka_python_are_its_own() -> None:
    """The left sides of "Coming from Kafka" name methods that kafka-python has."""
    import kafka

    owners = {
        "admin": kafka.KafkaAdminClient,
        "producer": kafka.KafkaProducer,
        "consumer": kafka.KafkaConsumer,
    }
    text = (ROOT / "docs" / "guide" / "from-kafka.md").read_text()
    left = "\n".join(line.split(" | ")[0] for line in text.splitlines() if line.startswith("|"))
    calls = set(re.findall(r"\b(admin|producer|consumer)\.(\w+)\(", left))
    assert len(calls) > 20
    assert [call for call in calls if not hasattr(owners[call[0]], call[1])] == []


def test_every_skip_reason_names_what_is_missing() -> None:
    excuses = [
        (page.name, block.line, block.excuse)
        for page in PAGES
        for block in blocks(page.read_text())
        if block.excuse is not None
    ]
    wrong = []
    for excuse in excuses:
        runner = re.search(r"tests/docs/test_\w+\.py", excuse[2])
        if "needs a server" not in excuse[2] and not (runner and (ROOT / runner[0]).is_file()):
            wrong.append(excuse)
    assert wrong == []


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


def test_the_last_column_of_a_marked_table_runs() -> None:
    table = "| a | b |\n|---|---|\n| `no()` | `x = 1`, `x += 1` |\n| none | `kstore --version` |\n"
    found = blocks(f"{table}\n<!-- run: last column -->\n{table}\n```python\nassert x == 2\n```\n")
    assert [block.code for block in found] == [
        "x = 1", "x += 1", "kstore --version", "assert x == 2",
    ]  # fmt: skip
    assert run(Path("page"), f"<!-- run: last column -->\n{table}") == 3
    with pytest.raises(AssertionError, match="no tool 'nothing'"):
        run(Path("page"), "<!-- run: last column -->\n| a |\n|---|\n| - | `kstore nothing` |\n")


def test_a_marked_block_of_commands_runs_after_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "```text\nfalse\n```\n<!-- run after: echo 1 > a -->\n```text\ncp a b\n```\n"
    assert run(Path("page"), text) == 1
    assert (tmp_path / "b").read_text() == "1\n"
    for code in ("kstore nothing", "kstore nothing\ntrue", "false \\\n  true"):
        with pytest.raises(AssertionError):
            run(Path("page"), f"<!-- run -->\n```text\n{code}\n```\n")
