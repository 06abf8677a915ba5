"""The table of every wanted figure: its lines, and a small run."""

import json

import pytest

import goals
from engine.workloads import CATALOG
from kstore.bench.contest import Contest, Timed
from kstore.bench.report import results
from kstore.bench.runner.rounds import run
from kstore.bench.workload import workloads
from kstore.errors import KStoreError

BY_TITLE = {workload.title: workload for workload in workloads(catalog=CATALOG)}


def timed(*seconds, **also):
    """A contestant that takes so long in its rounds; the first call checks."""
    left = iter((seconds[0], *seconds))
    return lambda: Timed(next(left), result=1, also=also)


def raced(**given):
    given.setdefault("rounds", 5)
    contest = Contest(name="work", amount=1000, unit="records", **given)
    return results.as_tree("engine", "engine/append", run(contest))


def cells(result):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in goals.rows(result)]


def tree():
    """The results of a run with one contest, in which another one failed."""
    result = raced(
        calls={"kstore": timed(*[0.001] * 5), "peer": timed(*[0.001] * 5)},
        bars=(("kstore", "peer", 1.0),),
    )
    return {
        "results": [result],
        "missing": {"peer x": "not\n  installed"},
        "failed": [{"workload": "engine/append", "reason": "broke"}],
        "environment": {
            "cpu": {"model": "m", "cores": "2"},
            "memory": {"total": "1 GiB"},
            "system": {"kernel": "k", "load": "0.1 0.2 0.3"},
            "disk": {"file system": "ext4"},
            "software": {"python": "3"},
        },
        "started": "2001-02-03T04:05:06",
        "seconds": 7.0,
        "scale": 0.5,
    }


def test_each_wanted_figure_has_a_line():
    result = raced(
        calls={
            "kstore, fast": timed(*[0.002] * 5, CPU=0.001),
            "bare": timed(*[0.001] * 5, CPU=0.003),
            "a|peer": timed(*[0.006] * 5),
            "10 ms": timed(*[0.010] * 5),
        },
        bars=(
            ("kstore, fast", "a|peer", 2.5),
            ("kstore, fast", "bare", None),
            ("kstore, fast CPU", "bare CPU", 4),
            ("kstore, fast", "bare", 0.6),
            ("kstore, fast", "10 ms", 5),
        ),
        ceiling="bare",
        targets=frozenset(["10 ms"]),
    )
    ours = "fast: 500 k records/s, 0.50 (CPU 1 ms)"
    floor = "bare: 1 M records/s (CPU 3 ms)"
    assert cells(result) == [
        ["work", floor, ours, "a/peer: 167 k records/s", "3 (3 to 3)", "2.5", "met"],
        ["", "", "", "the floor", "0.5 (0.5 to 0.5)", "0.6", "**missed**"],
        ["", "", "", "10 ms", "5 (5 to 5)", "5", "met"],
        ["", "", "fast CPU: 1 ms", "bare CPU: 3 ms", "3 (3 to 3)", "4", "**missed**"],
    ]


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [(0.9, "met"), (1.0, "met"), (1.5, "open"), (2.5, "open"), (3.1, "**missed**")],
)
def test_a_wanted_ratio_within_the_interval_is_neither_met_nor_missed(wanted, verdict):
    result = raced(
        calls={"kstore": timed(*[0.001] * 5), "peer": timed(0.001, 0.002, 0.002, 0.002, 0.003)},
        bars=(("kstore", "peer", wanted),),
    )
    assert cells(result)[0][-1] == verdict


def test_every_heading_has_existing_workloads():
    assert set(goals.SECONDS) <= set(BY_TITLE)
    assert [workload.title for workload in goals.chosen([])] == list(goals.SECONDS)
    assert len(goals.SECONDS) == sum(map(len, goals.SECTIONS.values()))
    assert 600 < sum(workload.weight for workload in goals.chosen([])) < 1500
    assert goals.chosen(["engine/read"])[0].weight == goals.SECONDS["engine/read"]


def test_the_table_replaces_only_the_lines_between_its_marks(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{goals.BEGIN}\nold\n{goals.END}\nafter\n")
    path.write_text(goals.with_table("new\n", path))
    assert path.read_text() == f"before\n{goals.BEGIN}\n\nnew\n\n{goals.END}\nafter\n"
    path.write_text("no marks\n")
    with pytest.raises(KStoreError, match="needs two lines"):
        goals.with_table("new\n", path)
    with pytest.raises(SystemExit):  # before anything is measured
        goals.main(["--table", str(path)])


def test_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.005")
    monkeypatch.setattr("engine.peers.kafka._provider", None)
    page, kept = tmp_path / "page.md", tmp_path / "goals.json"
    page.write_text(f"{goals.BEGIN}\n{goals.END}\n")
    work = tmp_path / "work"
    work.mkdir()
    asked = ["engine/append", "disk/commit", "--rounds", "1", "--dir", str(work)]
    assert goals.main([*asked, "--table", str(page), "--json", str(kept)]) == 0
    tree = json.loads(kept.read_text())
    assert {result["workload"] for result in tree["results"]} == {"engine/append", "disk/commit"}
    assert all(goals.wanted(result) for result in tree["results"])
    text = page.read_text()
    at = [text.index(f"**{heading}**") for heading in ("Appending, page cache", "On disk")]
    assert at == sorted(at)
    assert "Apache Kafka: takes part in a checkout" in text
    assert not list(work.iterdir())
    page.write_text(f"{goals.BEGIN}\n{goals.END}\n")
    assert goals.main(["--again", str(kept), "--table", str(page)]) == 0
    assert page.read_text() == text


def test_an_interrupted_run_leaves_the_page_alone(tmp_path, monkeypatch, capsys):
    def stop(suite):
        suite.tree = tree() | {"ended_by": "KeyboardInterrupt"}
        raise KeyboardInterrupt

    monkeypatch.setattr("goals.Suite.run", stop)
    page, kept = tmp_path / "page.md", tmp_path / "goals.json"
    page.write_text(f"{goals.BEGIN}\n{goals.END}\n")
    with pytest.raises(KeyboardInterrupt):
        goals.main(["--table", str(page), "--json", str(kept)])
    assert page.read_text() == f"{goals.BEGIN}\n{goals.END}\n"
    assert json.loads(kept.read_text())["results"]
    assert "| work |" in capsys.readouterr().out


def test_failed_workloads_are_listed():
    text = list(goals.markdown(tree()))
    assert "2001-02-03" in text[0]
    assert "at 0.5 of full size" in text[0]
    assert "Of 1 figures that are wanted 1 are met, 0 missed, and 0 open" in text[2]
    assert text[-8:] == [
        "",
        "Not there:",
        "",
        "- peer x: not installed",
        "",
        "Failed:",
        "",
        "- engine/append: broke",
    ]
