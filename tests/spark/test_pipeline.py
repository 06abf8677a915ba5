"""The pipeline of ``make pipeline``: its own comparison says whether it is right."""

import math
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kstore
from spark.driver import JAVA, SRC

HOME = Path(__file__).resolve().parents[2] / "docs" / "pipeline"


def test_the_pipeline_finds_the_same_as_plain_python(
    registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
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


def test_the_first_charts_of_the_report_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each panel shows another figure of the hour: bars, lines, dots; the join's has no times."""
    monkeypatch.setattr(sys, "path", [str(HOME), *sys.path])
    import report

    topics = [report.WEB, report.METRICS, report.QUAKES]
    hours = {
        f"{topic} {n}": {"topic": topic, "hour": f"2026-01-05T{n:02}", "count": 2, "total": 2e6 * n,
                         "highest": 1.5e6 * n}
        for topic in topics
        for n in (1, 2, 3, 7)
    }  # fmt: skip
    served, cpu, quakes = report._hours(hours).axes
    heights = [float(bar.get_height()) for bar in served.patches]
    assert [height for height in heights if not math.isnan(height)] == [2, 4, 6, 14]
    highest, mean = (line.get_ydata().tolist() for line in cpu.lines)
    assert (highest[2], mean[2]) == (4.5e6, 3e6)
    assert math.isnan(mean[3])  # no line across the hours without a reading
    assert len(quakes.collections) == 1
    (failed,) = report._incidents([(datetime(2026, 1, 5), load) for load in (40.1, 40.9, 55)]).axes
    assert [text.get_text() for text in failed.texts] == ["2", "1"]
    assert (failed.get_xlabel(), failed.get_ylabel()) == ("CPU, %", "requests")
    ran = [report.Batch(name, 0, started, 1.0, 10) for started, name in enumerate("abc")]
    (rows,) = report._run(ran, killed=[1.5]).axes
    assert [label.get_text() for label in rows.get_yticklabels()] == ["a", "b", "c"]
    assert rows.yaxis_inverted()  # the first query on top


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_the_pipeline_finds_the_same_on_a_cluster_whose_executors_die(
    java: None, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]),
        "JDK_JAVA_OPTIONS": JAVA,
    }
    ran = subprocess.run(
        [sys.executable, str(HOME / "pipeline.py"), "--weeks", "1", "--rows", "6000",
         "--cluster", "--kill-executors", "3", "--out", str(tmp_path / "out")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    said = ran.stdout + ran.stderr[-5000:]
    assert ran.returncode == 0, said
    assert re.search(r"[1-3] executors were killed", said)  # as many as were replaced in time
    assert len(re.findall(r"\bequal$", ran.stdout, re.MULTILINE)) == 9
    assert (tmp_path / "out" / "report.html").exists()
