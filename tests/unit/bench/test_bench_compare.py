"""``kstore bench compare``: what is called slower, and what is not."""

import json
from pathlib import Path

import numpy as np
import pytest

from kstore.bench.report import compare, results
from kstore.cli import main
from kstore.errors import KStoreError

MIB = ", MiB"


def run_like(ours, roof, level="quick", rounds=7):
    entries = [
        {"name": name, "contestant": name, "seconds": [value] * rounds}
        for name, value in (("roof", roof), ("kstore", ours))
    ]
    return {
        "kstore_bench": results.FORMAT,
        "level": level,
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


def test_what_a_contest_shares_is_not_charged_to_kstore():
    before, after = run_like(2.0, 1.0), run_like(4.0, 2.0)
    assert verdicts(before, after) == {"kstore": "same"}
    text = "\n".join(compare.lines(compare.compare(before, after)))
    assert "the machine: disk/some: contestants that are not judged" in text
    assert "took 2x the time; this is not charged to kstore" in text
    assert verdicts(before, after, absolute=True) == {"roof": "slower", "kstore": "slower"}


def test_a_contestant_beside_unchanged_ones_is_slower():
    assert verdicts(run_like(2.0, 1.0), run_like(2.6, 1.0)) == {"kstore": "slower"}
    assert verdicts(run_like(2.6, 1.0), run_like(2.0, 1.0)) == {"kstore": "faster"}


@pytest.mark.parametrize("roof", [0.5, 2.0])
def test_an_untouched_peer_never_decides(roof):
    assert verdicts(run_like(2.0, 1.0), run_like(2.0, roof))["kstore"] != "slower"


@pytest.mark.parametrize(
    ("took_turns", "factor", "verdict"),
    [(True, 1.08, "same"), (True, 1.12, "slower"), (False, 1.18, "same"), (False, 1.22, "slower")],
)
def test_runs_that_did_not_take_turns_show_larger_changes_only(took_turns, factor, verdict):
    runs = run_like(2.0, 1.0), run_like(2.0 * factor, 1.0)
    for tree in runs if took_turns else ():
        tree["paired"] = "a"
    assert verdicts(*runs)["kstore"] == verdict


def test_contestants_that_took_turns_are_not_judged_beside_each_other():
    """All of kstore may have become slower; without turns that would be the machine's."""
    before, after = run_like(1.0, 1.0), run_like(1.3, 1.3)
    for tree in (before, after):
        for entry in tree["results"][0]["contestants"]:
            entry["name"] = entry["contestant"] = f"kstore, {entry['name']}"
    expected = {"kstore, roof": "same", "kstore, kstore": "same"}
    assert verdicts(before, after) == expected
    before["paired"] = after["paired"] = "a"
    assert verdicts(before, after) == dict.fromkeys(expected, "slower")


def test_two_runs_of_other_pairs_did_not_take_turns():
    before, after = run_like(2.0, 1.0) | {"paired": "a"}, run_like(2.3, 1.0) | {"paired": "b"}
    assert verdicts(before, after)["kstore"] == "same"


def test_compare_on_the_command_line(tmp_path, capsys):
    paths = []
    for name, ours in (("a", 2.0), ("b", 2.6)):
        paths.append(str(tmp_path / name))
        results.write(Path(paths[-1]), run_like(ours, 1.0, level=name))
    assert main(["bench", "compare", *paths]) == 3
    out = capsys.readouterr().out
    assert "not the same: level: a; then b" in out
    assert "slower: kstore: 1.3x the time (1.3 to 1.3, 7 rounds)" in out
    assert "1 figure compared: 1 slower, 0 faster, 0 the same, 0 without a verdict" in out
    assert main(["bench", "compare", paths[0]]) == 1
    assert "compare needs two files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["compare --all A B", "compare A --all B", "compare A B --all", "--all compare A B"],
)
def test_the_options_of_compare_stand_anywhere(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for name in ("A", "B"):
        results.write(Path(name), run_like(2.0, 1.0))
    assert main(["bench", *words.split()]) == 0
    assert "same: kstore" in capsys.readouterr().out


def test_failed_and_missing_contestants_are_listed(tmp_path, capsys):
    before, after = run_like(2.0, 1.0), run_like(2.0, 1.0)
    before["results"].append(before["results"][0] | {"contest": "two"})
    del after["results"][0]["contestants"][1]
    assert compare.losses(before, after) == [
        "gone: disk/some: one: kstore",
        "gone: disk/some: two",
    ]
    after["failed"] = [{"workload": "disk/some", "reason": "a wrong result"}]
    for name, tree in (("a", before), ("b", after)):
        results.write(tmp_path / name, tree)
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "failed: disk/some: a wrong result" in capsys.readouterr().out


# --- few rounds -------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "status"), [(1, 4), (4, 4), (5, 3)])
def test_few_rounds_have_an_exit_status_of_their_own(tmp_path, capsys, rounds, status):
    for name, ours in (("a", 2.0), ("b", 9.0)):
        results.write(tmp_path / name, run_like(ours, 1.0, rounds=rounds))
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == status
    out = capsys.readouterr().out
    few = "1 round" if rounds == 1 else f"{rounds} rounds"
    line = f"cannot say: disk/some: 1 figure of {few} or more: 5 are needed"
    assert (line in out) is (status == 4)


def test_a_few_contests_without_a_verdict_do_not_hide_the_others():
    before, after = run_like(2.0, 1.0), run_like(2.0, 1.0)
    for tree in (before, after):
        one = tree["results"][0]
        tree["results"] = [one | {"contest": name} for name in "abc"]
        tree["results"].append(run_like(2.0, 1.0, rounds=2)["results"][0])
    found = compare.compare(before, after)
    assert not found.is_unsure
    assert [figure.verdict for figure in found.figures] == ["same"] * 3 + ["few rounds"]


# --- noise as of a shared machine -------------------------------------------------------------


def neighbours(seed, count):
    """In which rounds another program runs: it comes and goes, half of the time."""
    draw = np.random.default_rng(seed)
    found, is_busy = [], False
    for _ in range(count):
        if draw.random() < 0.2:
            is_busy = draw.random() < 0.5
        found.append(is_busy)
    return found


def rounds_of(draw, busy, factor=1.0, drift=0.0):
    """Rounds of a shared machine: a neighbour slows most of them, up to twice. The noise of a round
    resembles that of the round before, the clock drifts, and the layout of a process changes its
    speed by two per cent."""
    found, noise = [], 0.0
    for number, is_busy in enumerate(busy):
        noise = 0.7 * noise + draw.normal(0, 0.03)
        slowed = draw.uniform(1.0, 2.0) if is_busy and draw.random() < 0.8 else 1.0
        found.append(slowed * np.exp(abs(noise) + drift * number / len(busy)))
    return (factor * np.exp(draw.normal(0, 0.02)) * np.array(found)).tolist()


def a_run(seed, weather, factor=1.0, peer=1.0, clock=1.0, drift=0.0, count=90):
    """Contests of kstore and three peers. ``factor``: how much slower kstore is in the first."""
    draw = np.random.default_rng(seed)
    tree = run_like(1.0, 1.0)
    tree["results"] = []
    for number in range(12):
        busy = [False] * count if weather is None else neighbours((weather, number), count)
        entries = []
        for name in ("kstore", "roof", "sqlite", "pwrite"):
            own = factor if name == "kstore" and number == 0 else 1.0
            own *= peer if name == "sqlite" else 1.0
            times = rounds_of(draw, busy, own * clock, drift)
            entries.append({"name": name, "contestant": name, "seconds": times})
        tree["results"].append(
            {"workload": "engine/a", "contest": f"{number}", "ceiling": "roof"}
            | {"contestants": entries}
        )
    return tree


def pair(seed, is_paired, **changed):
    """Two runs, of which the second one has changed; paired ones have the same neighbours."""
    before = a_run(seed, seed)
    after = a_run(seed + 1000, seed if is_paired else seed + 1000, **changed)
    if is_paired:
        before["paired"] = after["paired"] = "a"
    return before, after


def slower(before, after):
    found = compare.compare(before, after)
    return [figure.contest for figure in found.figures if figure.verdict == "slower"]


@pytest.mark.parametrize("is_paired", [True, False], ids=["paired", "one by one"])
class TestNoise:
    def test_fifty_equal_runs_have_at_most_two_alarms(self, is_paired):
        assert sum(bool(slower(*pair(seed, is_paired))) for seed in range(50)) <= 2

    def test_a_slowdown_of_1_3_is_found_in_nine_of_ten(self, is_paired):
        found = [slower(*pair(seed, is_paired, factor=1.3)) for seed in range(20)]
        assert sum("0" in each for each in found) >= 18
        assert sum(each not in ([], ["0"]) for each in found) <= 1

    @pytest.mark.parametrize("clock", [0.7, 1.4])
    def test_another_clock_is_not_charged_to_kstore(self, is_paired, clock):
        found = [slower(*pair(seed, is_paired, clock=clock)) for seed in range(9)]
        assert found == [[]] * 9

    def test_a_clock_that_drifts_within_a_run_is_not_charged_to_kstore(self, is_paired):
        assert [slower(*pair(seed, is_paired, drift=0.4)) for seed in range(9)] == [[]] * 9

    @pytest.mark.parametrize("peer", [0.5, 2.0])
    def test_an_untouched_peer_that_moves_is_no_alarm(self, is_paired, peer):
        assert [slower(*pair(seed, is_paired, peer=peer)) for seed in range(9)] == [[]] * 9


def test_on_a_quiet_machine_fifteen_rounds_are_enough():
    found = 0
    for seed in range(20):
        before = a_run(seed, None, count=15)
        assert slower(before, a_run(seed + 99, None, count=15)) == []
        found += slower(before, a_run(seed + 99, None, 1.3, count=15)) == ["0"]
    assert found >= 18


def test_rounds_that_differ_too_much_have_no_verdict(tmp_path, capsys):
    draw = np.random.default_rng(1)
    for name in ("a", "b"):
        tree = run_like(1.0, 1.0)
        for entry in tree["results"][0]["contestants"]:
            entry["seconds"] = np.exp(draw.normal(0, 1.5, 9)).tolist()
        results.write(tmp_path / name, tree)
    assert main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 4
    assert "whose rounds differ too much" in capsys.readouterr().out


# --- like with like ---------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "value"), [("scale", 0.1), ("part", 0.5)])
def test_contests_of_other_sizes_are_listed_and_not_compared(what, value):
    before, after = run_like(2.0, 1.0), run_like(9.0, 1.0)
    after["results"][0][what] = value
    assert compare.compare(before, after).figures == []
    (difference,) = compare.differences(before, after)
    assert difference.startswith("size of disk/some: scale 1, 100% of its size; then scale ")
    assert difference.endswith("1 contest not compared")
    before["results"][0][what] = value
    assert verdicts(before, after)["kstore"] == "slower"


def with_figure(name, value, roof):
    tree = run_like(2.0, roof)
    entry = {"name": f"kstore {name}", "contestant": "kstore", "seconds": [value] * 9}
    tree["results"][0]["contestants"].append(entry)
    return tree


@pytest.mark.parametrize("name", ["memory, MiB", "sender CPU"])
def test_memory_and_processor_time_are_compared_directly(name):
    found = verdicts(with_figure(name, 100.0, 1.0), with_figure(name, 100.0, 3.0))
    assert found[f"kstore {name}"] == "same"
    worse = compare.compare(with_figure(name, 100.0, 1.0), with_figure(name, 150.0, 3.0))
    assert [each.verdict for each in worse.figures if each.name.startswith("kstore ")] == ["slower"]
    assert f"kstore {name}: 1.5x the " in "\n".join(compare.lines(worse))


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
                ("results", 0, "bars", [{}]),
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


@pytest.mark.parametrize("which", ["kstore", "roof"])
def test_zero_seconds_and_different_round_counts_are_compared(which):
    tree = run_like(2.0, 1.0)
    for entry in tree["results"][0]["contestants"]:
        if entry["name"] == which:
            entry["seconds"] = [0.0] * 7
    for pair in ((tree, tree), (tree, run_like(2.0, 1.0)), (run_like(2.0, 1.0), tree)):
        assert set(verdicts(*pair)) == {"kstore"}
        assert "\n".join(compare.lines(compare.compare(*pair), every=True))
