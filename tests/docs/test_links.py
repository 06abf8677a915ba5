"""Links between pages lead to a page and a heading; files that pages name are in the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FILE = re.compile(r"`(?P<path>(?:src|tests|benchmarks|docs|\.ci)/[\w./-]+)`")
CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")
        for heading in headings
    }


def broken_links(page: Path) -> list[str]:
    """Relative links of a page without a file, or without the heading that they name."""
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        goal = (page.parent / name).resolve() if name else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_are_in_the_tree(page: Path) -> None:
    assert [path for path in FILE.findall(page.read_text()) if not (ROOT / path).exists()] == []


def test_the_index_by_task_reaches_every_page() -> None:
    """Every page of the site but its home page, which leads to the index."""
    index = ROOT / "docs" / "guide" / "README.md"
    linked = {
        (index.parent / name).resolve()
        for link in LINK.findall(index.read_text())
        if (name := link.partition("#")[0])
    }
    home = {ROOT / "README.md", ROOT / "docs" / "index.md", index}
    pages = {page for page in PAGES if page.parent.name not in ("demo", "data", "pipeline")}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - home - linked) == []
    assert "docs/guide/README.md" in LINK.findall((ROOT / "README.md").read_text())


def test_broken_links_and_missing_files_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title: `x` (2)\n[a](#a-title-x-2) [b](#b) [c](c.md) [d](https://d)\n")
    assert broken_links(page) == ["#b", "c.md"]
    assert FILE.findall("`src/kstore/nothing.py` and `src`") == ["src/kstore/nothing.py"]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    nav = (ROOT / ".mkdocs.yml").read_text().split("\nnav:")[1]
    listed = set(re.findall(r"([\w/-]+\.md)$", nav, re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]}
    assert {page for page in pages if not page.startswith(("demo/", "pipeline/"))} == listed
