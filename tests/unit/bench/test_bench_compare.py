"""``kstore bench compare``: what is called slower, and what is not."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from kstore.bench.report import compare, results
from kstore.cli import main
from kstore.errors import KStoreError

MIB = ", MiB"


def run_like(ours, roof, noise=0.01, level="quick"):
    entries = [
        {"name": name, "contestant": name, "seconds": [value] * 5}
        for name, value in (("roof", roof), ("ours", ours))
    ]
    return {
        "kstore_bench": results.FORMAT,
        "level": level,
        "noise": {"disk": noise},
        "environment": {"cpu": {"model": "a"}},
        "failed": [],
        "results": [
            {
                "workload": "disk/some",
                "group": "disk",
                "contest": "one",
                "ceiling": "roof",
                "contestants": entries,
            }
        ],
    }


def verdicts(before, after, **options):
    found = compare.compare(before, after, **options)
    return {figure.name: figure.verdict for figure in found.figures}


def test_a_slower_machine_makes_only_the_ceiling_slower():
    before, after = run_like(2.0, 1.0), run_like(4.0, 2.0)
    assert verdicts(before, after) == {"roof": "slower", "ours": "same"}
    assert verdicts(before, after, absolute=True) == {"roof": "slower", "ours": "slower"}


def test_a_lower_fraction_of_the_ceiling_is_slower():
    assert verdicts(run_like(2.0, 1.0), run_like(2.4, 1.0))["ours"] == "slower"
    assert verdicts(run_like(2.4, 1.0), run_like(2.0, 1.0))["ours"] == "faster"


def test_changes_within_the_noise_are_the_same():
    assert verdicts(run_like(2.0, 1.0), run_like(2.3, 1.0, noise=0.2))["ours"] == "same"
    assert verdicts(run_like(2.0, 1.0), run_like(2.18, 1.0))["ours"] == "same"  # 9 %: never sure


def test_compare_on_the_command_line(tmp_path, capsys):
    paths = []
    for name, ours in (("a", 2.0), ("b", 2.6)):
        paths.append(str(tmp_path / name))
        results.write(Path(paths[-1]), run_like(ours, 1.0, level=name))
    assert main(["bench", "compare", *paths]) == 3
    out = capsys.readouterr().out
    assert "not the same: level: a; then b" in out
    assert "slower: ours: 0.769x as fast of its ceiling" in out
    assert "2 figures compared: 1 slower, 0 faster, 1 the same within the noise" in out
    assert main(["bench", "compare", paths[0], paths[0], "--all"]) == 0
    assert "same: roof" in capsys.readouterr().out
    assert main(["bench", "compare", paths[0]]) == 1
    assert "compare needs two files" in capsys.readouterr().err


def test_failed_and_missing_contestants_are_listed(tmp_path, capsys):
    before, after = run_like(2.0, 1.0), run_like(2.0, 1.0)
    before["results"].append(before["results"][0] | {"contest": "two"})
    del after["results"][0]["contestants"][1]
    assert compare.losses(before, after) == ["gone: disk/some: one: ours", "gone: disk/some: two"]
    after["failed"] = [{"workload": "disk/some", "reason": "a wrong result"}]
    for name, tree in (("a", before), ("b", after)):
        results.write(tmp_path / name, tree)
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "failed: disk/some: a wrong result" in capsys.readouterr().out


# --- hundreds of figures ----------------------------------------------------------------------

# Contests of a quick run on two cores by group: how many, how many contestants, rounds of them.
# Spreads of rounds are a run's too: 4 % in the middle, 17 % of one figure in ten, and 5 % of noise.
SHAPE = (
    ("disk", 33, 4, (3, 3, 3, 5)),
    ("memory", 12, 3, (3, 5, 7)),
    ("page-cache", 14, 4, (3, 4, 9)),
    ("sockets", 20, 5, (1, 3, 5)),
    ("engine", 90, 5, (2, 3, 3, 5, 9, 15, 15)),
)
NOISE = {"cpu": 0.008, "memory": 0.049, "disk": 0.056}


def a_run(seed, slower="", factor=1.0, of=lambda name: True, drift=0.02):
    """A run of the same thing on the same machine as any other; ``slower``: what has changed."""
    draw = np.random.default_rng(seed)
    tree = run_like(1.0, 1.0) | {"noise": NOISE, "results": []}
    for group, contests, contestants, rounds in SHAPE:
        for number in range(contests):
            title = f"{group}/{number % 3}"
            entries = []
            for name in ["roof", *(f"way {way}" for way in range(1, contestants))]:
                spread = 0.17 if draw.random() < 0.1 else 0.04
                size = rounds[number % len(rounds)]
                own = draw.normal(0, drift) + spread * draw.standard_t(5, size)
                if slower in (group, title) and of(name):
                    own += math.log(factor)
                seconds = np.exp(own).tolist()
                entries.append({"name": name, "contestant": name, "seconds": seconds})
            tree["results"].append(
                {"workload": title, "group": group, "contest": f"{number}", "ceiling": "roof"}
                | {"contestants": entries}
            )
    return tree


def test_two_equal_runs_are_slower_less_than_once_in_twenty_times():
    wrong = doubtful = figures = 0
    for seed in range(40):
        found = compare.compare(a_run(seed), a_run(seed + 1000))
        wrong += found.is_slower
        doubtful += not found.is_slower and found.is_unsure
        figures = len(found.figures)
    assert figures > 700
    assert wrong <= 2
    assert doubtful <= 4


@pytest.mark.parametrize("group", [group for group, *_ in SHAPE])
def test_a_group_at_a_third_of_its_speed_is_slower(group):
    found = compare.compare(a_run(1), a_run(2, group, 3.0))
    assert found.is_slower
    slower = [each for each in found.combined if each.verdict == "slower"]
    assert group in [each.title for each in slower]
    assert all(each.title.startswith(group) for each in slower)
    assert 0.3 < slower[0].speed < 0.37
    assert f"slower, taken together: {group}: typically 0.3" in "\n".join(compare.lines(found))
    better = compare.compare(a_run(1, group, 3.0), a_run(2))
    assert not better.is_slower
    assert group in [each.title for each in better.combined if each.verdict == "faster"]


def test_a_contestant_with_lower_fractions_everywhere_is_slower():
    found = compare.compare(a_run(1), a_run(2, "engine/1", 2.0, lambda name: name == "way 2"))
    slower = {each.title: each for each in found.combined if each.verdict == "slower"}
    assert slower["engine/1: way 2"].against == "ceiling"
    assert "engine/1: way 1" not in slower


def test_a_single_figure_of_many_rounds_is_slower():
    found = compare.compare(a_run(1), a_run(2))
    before, after = a_run(1), a_run(2)
    one = next(each for each in after["results"] if len(each["contestants"][0]["seconds"]) == 15)
    own = one["contestants"][1]
    own["seconds"] = [2 * value for value in own["seconds"]]
    assert not found.is_slower
    found = compare.compare(before, after)
    (slower,) = [change for change in found.figures if change.verdict == "slower"]
    assert (slower.contest, slower.name) == (one["contest"], "way 1")


def test_a_much_slower_figure_of_three_rounds_has_its_own_exit_status(tmp_path, capsys):
    before, after = a_run(1), a_run(2)
    assert not compare.compare(before, after).is_unsure
    one = next(each for each in after["results"] if each["contest"] == "1")
    one["contestants"][1]["seconds"] = [9 * x for x in one["contestants"][1]["seconds"]]
    for name, tree in (("a", before), ("b", after)):
        results.write(tmp_path / name, tree)
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 4
    assert "unsure, MUCH SLOWER IF SO: way 1: 0.0" in capsys.readouterr().out


def test_noise_that_hides_everything_is_reported(tmp_path, capsys):
    for name, ours in (("a", 2.0), ("b", 2.6)):
        results.write(tmp_path / name, run_like(ours, 1.0, noise=16.1))
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 4
    out = capsys.readouterr().out
    assert "nothing can be concluded about disk/some: its A/A noise is 1610%" in out


# --- combined figures -------------------------------------------------------------------------


def with_contests(count, factor):
    """A run of contests of three rounds, in which one contestant takes ``factor`` as long."""
    tree = run_like(2.0, 1.0)
    tree["results"] = [
        tree["results"][0]
        | {
            "contest": f"{number}",
            "contestants": [
                {"name": "roof", "contestant": "roof", "seconds": [1.0] * 3},
                {"name": "ours", "contestant": "ours", "seconds": [2.0 * factor] * 3},
            ],
        }
        for number in range(count)
    ]
    return tree


def test_three_contests_of_three_rounds_are_enough_combined():
    for count, is_slower in ((2, False), (3, True)):
        found = compare.compare(with_contests(count, 1.0), with_contests(count, 1.5))
        assert found.is_slower is is_slower
        assert all(figure.verdict != "slower" for figure in found.figures)
    found = compare.compare(with_contests(9, 1.0), with_contests(9, 1.2))
    assert not found.is_slower  # a change of less than 25 %


@pytest.mark.parametrize(("rounds", "figures", "verdict"), [(5, 2, "slower"), (5, 800, "unsure")])
def test_more_figures_need_more_rounds(rounds, figures, verdict):
    was, now = np.full(rounds, 1.0), np.full(rounds, 1.5)
    figure = compare.Figure("a/b", "c", "d", was, now, 0.1, "time", True)
    assert compare._judge(figure, figures) == verdict


def test_one_outlier_among_many_rounds_does_not_hide_a_change():
    was, now = np.full(30, 1.0), np.full(30, 1.5)
    now[0] = 0.5
    figure = compare.Figure("a/b", "c", "d", was, now, 0.1, "time", True)
    assert compare._judge(figure, 800) == "slower"


# --- like with like ---------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "value"), [("scale", 0.1), ("part", 0.5)])
def test_contests_of_other_sizes_are_listed_and_not_compared(what, value):
    before, after = run_like(2.0, 1.0), run_like(9.0, 1.0)
    after["results"][0][what] = value
    assert compare.compare(before, after).figures == []
    (difference,) = compare.differences(before, after)
    assert difference.startswith("size of disk/some: scale 1, 100% of its size; then scale ")
    assert difference.endswith("1 contests not compared")
    before["results"][0][what] = value
    assert verdicts(before, after)["ours"] == "slower"


def with_figure(name, value, roof):
    tree = run_like(2.0, roof)
    entry = {"name": f"ours {name}", "contestant": "ours", "seconds": [value] * 5}
    tree["results"][0]["contestants"].append(entry)
    return tree


@pytest.mark.parametrize("name", ["memory, MiB", "sender CPU"])
def test_memory_and_processor_time_are_compared_directly(name):
    found = verdicts(with_figure(name, 100.0, 1.0), with_figure(name, 100.0, 3.0))
    assert found[f"ours {name}"] == "same"
    worse = compare.compare(with_figure(name, 100.0, 1.0), with_figure(name, 150.0, 3.0))
    assert [each.verdict for each in worse.figures if each.name.startswith("ours ")] == ["slower"]
    assert f"ours {name}: 1.5x the " in "\n".join(compare.lines(worse))


# --- odd files --------------------------------------------------------------------------------


def refused(change):
    tree = json.loads(json.dumps(run_like(2.0, 1.0)))
    change(tree)
    return tree


def put(*way):
    *path, name, value = way

    def change(tree):
        for each in path:
            tree = tree[each]
        tree[name] = value

    return change


ENTRY = ("results", 0, "contestants", 1)


@pytest.mark.parametrize(
    "tree",
    [
        {"kstore_bench": 1},
        *(
            refused(put(*way))
            for way in (
                ("results", None),
                ("results", [1]),
                ("results", 0, "contestants", {}),
                ("results", 0, "workload", 3),
                ("results", 0, "ceiling", None),
                ("results", 0, "scale", "a"),
                (*ENTRY, "seconds", []),
                (*ENTRY, "seconds", None),
                (*ENTRY, "seconds", [1.0, "a"]),
                (*ENTRY, "seconds", [1.0, float("nan")]),
                (*ENTRY, "seconds", [-1.0] * 5),
                (*ENTRY, "name", None),
                ("noise", {"disk": None}),
                ("noise", []),
                ("environment", {"cpu": 1}),
                ("failed", [{}]),
                ("level", None),
            )
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(tmp_path, tree, capsys):
    path = tmp_path / "odd"
    path.write_text(json.dumps(tree))
    with pytest.raises(KStoreError, match="odd is no result of 'kstore bench --json'"):
        results.read(path)
    assert main(["bench", "compare", str(path), str(path)]) == 1
    assert "is no result of" in capsys.readouterr().err


def test_a_missing_file_is_named_in_the_error(tmp_path):
    with pytest.raises(KStoreError, match=r"none.json cannot be read"):
        results.read(tmp_path / "none.json")


@pytest.mark.parametrize("which", ["ours", "roof"])
def test_zero_seconds_and_different_round_counts_are_compared(which):
    tree = run_like(2.0, 1.0)
    for entry in tree["results"][0]["contestants"]:
        if entry["name"] == which:
            entry["seconds"] = [0.0] * 7
    for pair in ((tree, tree), (tree, run_like(2.0, 1.0)), (run_like(2.0, 1.0), tree)):
        assert set(verdicts(*pair)) == {"ours", "roof"}
        assert "\n".join(compare.lines(compare.compare(*pair), every=True))
