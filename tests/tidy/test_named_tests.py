"""What the docs have to name: tests that exist, and every public class and function."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if NAMED.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page):
    for path, name in NAMED.findall(page.read_text()):
        source = (ROOT / path).read_text()
        assert not name or re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), (path, name)


def test_each_row_of_better_than_kafka_names_a_test():
    text = (ROOT / "docs" / "compatibility.md").read_text()
    table = text.split("## Better than Kafka")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        assert NAMED.search(row), row


def test_every_public_name_is_in_the_reference():
    listed = (ROOT / "tests" / "tidy" / "public_api.txt").read_text()
    names = set(re.findall(r"^(?:class|def) kstore\.(\w+)\(", listed, re.MULTILINE))
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = {line.rsplit(".", 1)[1] for line in re.findall(r"^::: \S+$", pages, re.MULTILINE)}
    assert "repair" in names
    assert names - shown <= {"KStoreError"}, "errors are shown with their module"
