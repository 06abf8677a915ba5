"""The page of ``kstore bench --html``: the command, the plots, and what was not checked."""

from html import unescape

import pytest

from kstore.bench import suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.report import html_page
from kstore.bench.workload import Workload


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.005")


def contests(setting):
    calls = {
        "roof": lambda: Timed(1.0, result="of another kind"),
        "kstore <1>": lambda: Timed(2.0, result=1, samples=range(1, 2001)),
        "peer": lambda: Timed(4.0, result=1),
    }
    yield Contest(
        name="one", calls=calls, amount=10, ceiling="roof", unchecked=frozenset(["roof"]), rounds=2
    )


def interrupted(setting):
    yield from contests(setting)
    raise KeyboardInterrupt


def of(make, directory):
    workload = Workload(
        group="disk", name="some", about="", ceiling="", sizes=(1, 2, 3), contests=make, copies=1
    )
    return suite.Suite([workload], directory, "quick", 2)


def test_points_and_lines_have_titles(tmp_path):
    html = html_page.html(of(contests, tmp_path).run())
    titles = [unescape(part.split("</title>")[0]) for part in html.split("<title>")[2:]]
    assert "kstore <1>: 0.50 of roof (2 s)" in titles
    assert "peer: 0.25 of roof (2.5 B/s)" in titles
    assert titles[-1] == "kstore <1>"  # the line of its latencies
    assert html.count('id="title-') == len(titles) == len(set(html.split('id="title-'))) - 1


def test_the_page_shows_the_command_level_and_scale(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["kstore", "bench", "--quick", "--dir", "/a b"])
    html = html_page.html(of(contests, tmp_path).run())
    assert "<code>kstore bench --quick --dir &#x27;/a b&#x27;</code>" in html
    assert "level quick, scale 0.005 of its sizes" in html
    assert "was interrupted" not in html


def test_the_page_of_an_interrupted_run_starts_with_that(tmp_path):
    running = of(interrupted, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        running.run()
    html = html_page.html(running.tree)
    assert html.index("was interrupted: KeyboardInterrupt") < html.index("<table>")


def test_unchecked_contestants_are_marked(tmp_path):
    html = html_page.html(of(contests, tmp_path).run())
    assert "every result was checked" not in html
    assert "<td>roof (not compared)</td>" in html
    assert "<td>peer</td>" in html


def test_contests_are_plotted_over_their_own_axes():
    made = [
        {"contest": f"of {size} {axis}", "size": size, "axis": axis, "unit": "B"}
        | {"contestants": [{"name": "way", "contestant": "way", "rate": size}]}
        for axis in ("partitions", "threads")
        for size in (1, 2)
    ]
    html = html_page._Pictures().by_size(made)
    assert html.count("<svg") == 2
    for axis in (">partitions<", ">threads<"):
        assert axis in html


def test_no_two_lines_look_alike():
    looks = [html_page._look(number) for number in range(40)]
    assert len({tuple(look.values()) for look in looks}) == 40


def test_lines_of_a_plot_look_different():
    entries = [{"name": f"way {n}", "contestant": f"way {n}", "rate": n + 1} for n in range(13)]
    made = [
        {"contest": f"of {size} B", "size": size, "axis": "bytes", "unit": "B"}
        | {"contestants": entries}
        for size in (1, 2)
    ]
    html = html_page._Pictures().by_size(made)
    strokes = html.split('id="title-')[1:]
    assert len(strokes) == 13
    dashed = [number for number, part in enumerate(strokes) if "stroke-dasharray" in part]
    assert {10, 11, 12} <= set(dashed)
    assert 0 not in dashed
