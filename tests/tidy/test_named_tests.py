"""Tests that the docs name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if NAMED.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_are_there(page):
    for path, name in NAMED.findall(page.read_text()):
        source = (ROOT / path).read_text()
        assert not name or re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), (path, name)


def test_what_is_better_than_kafka_is_tested():
    text = (ROOT / "docs" / "compatibility.md").read_text()
    table = text.split("## Better than Kafka")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        assert NAMED.search(row), row
