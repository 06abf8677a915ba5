"""The page of ``kstore bench --html``: the command, the plots, and what was not checked."""

from itertools import pairwise

import numpy as np
import pytest

from kstore.bench import suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.machine.figures import Figure, as_tree
from kstore.bench.machine.sizes import size_text
from kstore.bench.report import html_page, plots
from kstore.bench.runner import estimate
from kstore.bench.workload import Workload

BYTES = "bytes of a request"


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


def test_the_page_shows_the_command_level_and_scale(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["kstore", "bench", "--quick", "--dir", "/a b"])
    html = html_page.html(of(contests, tmp_path).run())
    assert "<code>kstore bench --quick --dir &#x27;/a b&#x27;</code>" in html
    assert "level quick, scale 0.005 of its sizes" in html
    assert "was interrupted" not in html


def test_the_page_of_an_interrupted_run_begins_by_saying_so(tmp_path):
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


def test_tables_are_folded_and_wanted_ratios_are_for_developers(tmp_path):
    tree = of(contests, tmp_path).run()
    (result,) = tree["results"]
    result["bars"] = [
        {"ours": "peer", "peer": "roof", "wanted": 0.909, "ratio": 0.25, "low": 0.2, "high": 0.3}
    ]
    page = html_page.html(tree)
    assert "<details><summary>disk/some</summary>" in page
    assert "wanted" not in page
    assert "wanted 0.909x" in html_page.html(tree, targets=True)


def test_the_page_begins_with_the_verdict(tmp_path):
    tree = of(contests, tmp_path).run()
    assert "<pre>" not in html_page.html(tree)
    tree["figures"] = as_tree([Figure("commit p50", 1e-3, None, 1000)])
    page = html_page.html(tree)
    assert page.index("<pre>") < page.index("NO VERDICT") < page.index("<h2>Pictures")


# --- the plots --------------------------------------------------------------------------------


def sized(axis, *sizes, ways=("way",), kind="", workload="disk/some"):
    """Contests of some sizes."""
    entries = [
        {"name": name, "contestant": name, "median": 0.5, "low": 0.25, "high": 1.0, "rate": 2e9}
        for name in ways
    ]
    return [
        {
            "contest": f"of {size_text(size) if axis == BYTES else size} {axis}{kind}",
            "size": size,
            "axis": axis,
            "unit": "B",
        }
        | {"workload": workload, "contestants": entries, "amount": 1e9}
        for size in sizes
    ]


def text_of(results):
    """The plots of some results."""
    drawing = plots.Plots()
    return [drawing.draw(each) for each in plots.chosen(results)]


def test_contests_are_plotted_over_their_own_axes():
    partitions, threads = text_of([*sized("partitions", 1, 2), *sized("threads", 1, 2)])
    assert ">partitions<" in partitions
    assert ">threads<" in threads


def test_every_kind_of_receiver_has_a_plot():
    copies, drops = (
        sized(BYTES, 4096, 65536, kind=f" to a receiver that {kind}")
        for kind in ("copies", "drops")
    )
    found = plots.chosen([*copies, *drops])
    assert [each.results for each in found] == [tuple(copies), tuple(drops)]


def test_lines_are_named_in_print_and_axes_have_units():
    (svg,) = text_of(sized(BYTES, 4096, 65536, ways=("sendfile", "splice")))
    for wanted in (">sendfile<", ">splice<", ">GB/s<", ">4 KiB<", ">64 KiB<", "size of a request"):
        assert wanted in svg
    assert "grey: the fastest at each size" in svg


def test_names_are_joined_to_the_ends_of_their_lines():
    (candidate,) = plots.chosen(sized(BYTES, 4096, 65536, ways=("sendfile", "splice")))
    (axes,) = plots.Plots().figure_of(candidate).axes
    ends = {each.get_text(): each.xy for each in axes.texts if each.arrow_patch is not None}
    assert list(ends) == ["sendfile", "splice"]
    assert list(ends.values()) == [pytest.approx((65536, 2.0), rel=0.01)] * 2
    joined = {each.get_text(): each.arrow_patch.get_edgecolor() for each in axes.texts}
    assert joined["sendfile"] != joined["splice"]


def test_intervals_of_lines_stand_beside_each_other():
    steps = [plots.sidestep(number, 3, [1, 1024]) for number in range(3)]
    assert steps[0] < steps[1] == 1 < steps[2]
    assert [plots.sidestep(number, 2, [7]) for number in range(2)] == [1, 1]


def test_an_interval_of_seconds_becomes_one_of_rates():
    entry = {"median": 0.5, "low": 0.25, "high": 1.0}
    assert plots.interval(entry, 1e9) == (2e9, 1e9, 4e9)
    assert plots.interval(entry, 0) == (0.5, 0.25, 1.0)
    assert plots.interval({"median": 0.5, "low": None, "high": None}, 1e9) == (2e9, 2e9, 2e9)


def test_rows_of_single_sizes_show_their_figures():
    (svg,) = text_of(sized(BYTES, 0, ways=("mmap", "pread")))
    for wanted in (">mmap<", ">pread<", ">2 GB/s<", ">GB/s<"):
        assert wanted in svg


def test_a_curve_ends_where_ten_samples_remain():
    samples = [np.arange(1, 5001)]
    (*_, (share, ns)) = estimate.curve(samples)
    assert (share, ns) == (99.8, 4991.0)
    assert estimate.curve([np.arange(5)])[-1][0] == 50.0


def test_latencies_are_drawn_in_their_unit(tmp_path):
    tree = of(contests, tmp_path).run()
    (svg,) = text_of(tree["results"])
    for wanted in (">latency<", ">p50<", ">p99<", ">kstore &lt;1&gt;<", " us<"):
        assert wanted in svg
    assert ">p99.9<" not in svg


def test_at_most_ten_plots_of_as_many_workloads_as_possible():
    made = []
    for number in range(7):
        for kind in ("", " there", " back"):
            made += sized("threads", 1, 2, kind=kind, workload=f"disk/{number}")
    found = plots.chosen(made)
    assert len(found) == 10
    titles = [each.results[0]["workload"] for each in found]
    assert set(titles) == {f"disk/{number}" for number in range(7)}
    assert titles == sorted(titles)  # in the order of the run


def test_no_two_lines_look_alike():
    looks = [plots.look(number) for number in range(40)]
    assert len({tuple(look.values()) for look in looks}) == 40


@pytest.mark.parametrize("heights", [[0.5] * 9, [0.98, 0.99, 1.0], [0.0, 0.9], [], [0.5] * 40])
def test_names_do_not_overlap(heights):
    placed = plots.spread_apart(heights)
    ordered = sorted(placed)
    gap = min(0.045, 1 / max(len(placed), 1))
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(ordered))
    assert all(-1e-9 <= each <= 1 + 1e-9 for each in placed)


def test_names_keep_the_order_of_their_lines():
    placed = plots.spread_apart([0.5, 0.2, 0.51])
    assert placed[1] < placed[0] < placed[2]
