"""The examples of the pages on Spark run, as those of the other pages do (tests/docs)."""

from pathlib import Path
from typing import Any

import pytest

from docs.test_pages import ROOT, run

PAGES = sorted((ROOT / "docs").rglob("spark*.md"))


def test_the_spark_pages_are_found() -> None:
    assert ROOT / "docs/guide/spark.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_the_spark_pages_runs(
    page: Path, registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of its own; Spark's JVM stays where it was started, so paths are absolute."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text().replace('"data"', f'"{tmp_path}/data"')
    text = text.replace('badRecordsPath="bad"', f'badRecordsPath="{tmp_path}/bad"')
    text = text.replace('"checkpoint"', f'"{tmp_path}/checkpoint"')
    assert run(page, text) > 0
