"""The pipeline of ``make pipeline``, in this session: its own comparison says whether it is right.

The same on a cluster, with executors that die, is in test_cluster.py.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

import kstore

HOME = Path(__file__).resolve().parents[2] / "docs" / "pipeline"


def test_it_comes_to_what_plain_python_finds(
    registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "path", [str(HOME), *sys.path])
    import pipeline
    import report

    out = tmp_path / "out"
    out.mkdir()
    assert pipeline.run(registered, out, weeks=1, rows=20_000), capsys.readouterr().out
    html = (out / "report.html").read_text()
    assert html.count("data:image/png") == 3
    assert "WRONG" not in html
    with kstore.open(out / "store", mode="r") as store:
        assert sum(store["web-access"].end_offsets().values()) == 10_000
        keys = [record.key for record in store["hourly"][0]]
        assert len(keys) == len(set(keys)) > 300  # compacted
    assert not report.Check("a figure", 3, 4).ok
