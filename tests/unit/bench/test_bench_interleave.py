"""``kstore bench compare --run``: the rounds of two installations take turns."""

import io
import json
import sys
from collections import deque
from pathlib import Path

import pytest

import kstore
from kstore.bench.contest import Contest
from kstore.bench.report import compare, results
from kstore.bench.runner import interleave, rounds, turns
from kstore.bench.runner.interleave import Installation
from kstore.bench.runner.rounds import LEAST_ROUNDS
from kstore.cli import main
from kstore.errors import KStoreError

CHECKOUT = Path(kstore.__file__).parents[2]


class Side(interleave._Side):
    """A process that takes its steps from a list: titles before contests, round numbers before
    calls. ``calls``: of a round."""

    def __init__(self, name, *contests, steps, calls=1):
        super().__init__(Installation(Path(name)), None)
        self.name, self.steps = name, steps
        self.left = deque(
            (title, number // calls)
            for name, rounds in contests
            for number, title in [(0, name), *((each, "") for each in range(rounds * calls))]
        )
        self.listen()

    def step(self, word=""):
        self.steps.append((self.name, self.title if word == "" else f"{word} {self.title}"))
        if word in (interleave.SKIP, interleave.END):
            while self.left and self.left[0][0] == "":
                self.left.popleft()
        self.listen()

    def listen(self):
        self.is_done = not self.left
        self.title, self.round = self.left.popleft() if self.left else ("", 0)


def steps_of(one, other, calls=(1, 1), seconds=60.0):
    steps = []
    sides = [
        Side(name, *contests, steps=steps, calls=count)
        for name, contests, count in zip("ab", (one, other), calls, strict=True)
    ]
    interleave._take_turns(*sides, seconds, lambda text: None)
    return steps


def names(steps):
    return "".join(name for name, _ in steps)


def test_each_call_is_followed_by_the_same_call_of_the_other():
    steps = steps_of([("one", 40)], [("one", 40)])
    assert steps[:2] == [("a", "one"), ("b", "one")]
    pairs = [names(steps[at : at + 2]) for at in range(2, len(steps), 2)]
    assert len(pairs) == 40
    assert set(pairs) == {"ab", "ba"}


def test_both_use_the_number_of_calls_that_the_first_one_measured():
    """A neighbour that interrupts the measurement of one would give it shorter rounds, whose
    caches are cold."""
    steps = []
    sides = Side("a", ("one", 1), steps=steps), Side("b", ("one", 1), steps=steps)
    sides[0].calls = {"kstore": 64}
    interleave._take_turns(*sides, 60.0, lambda text: None)
    assert steps[:2] == [("a", "one"), ("b", '{"kstore": 64} one')]


def test_the_number_of_calls_is_given_or_measured():
    calls_seen = []
    contest = Contest(name="one", calls={"kstore": lambda: 1, "other": lambda: 1})

    def before_call(number, calls):
        calls_seen.append((number, dict(calls)))
        return number < 1

    outcome = rounds.run(contest, calls={"kstore": 7}, before_call=before_call)
    assert [number for number, _ in calls_seen] == [0, 0, 1]
    assert calls_seen[0][1]["kstore"] == 7
    assert calls_seen[0][1]["other"] > 7
    assert len(outcome.times["kstore"]) == 1


def test_one_interruption_does_not_shorten_a_round(monkeypatch):
    """Of several tries the fastest one decides."""
    clock = [0.0]
    waits = iter([5.0])

    def call():
        clock[0] += next(waits, 1e-5)

    monkeypatch.setattr(rounds, "perf_counter", lambda: clock[0])
    assert rounds._calls_for(call) == 256


@pytest.mark.parametrize("contestants", [1, 2, 3, 4, 6])
def test_both_orders_of_a_contestant_are_equally_frequent(contestants):
    """The second of two calls may find a cache that the first one filled."""
    steps = steps_of([("one", 100)], [("one", 100)], calls=(contestants,) * 2)
    pairs = [names(steps[at : at + 2]) for at in range(2, len(steps), 2)]
    for at in range(contestants):
        assert 35 <= pairs[at::contestants].count("ab") <= 65


def test_an_installation_with_more_contestants_ends_its_round_alone():
    steps = steps_of([("one", 2)], [("one", 2)], calls=(3, 1))
    rounds = names(steps[2:6]), names(steps[6:])
    assert all(sorted(each[:2]) == ["a", "b"] and each[2:] == "aa" for each in rounds)


def test_a_contest_ends_after_its_seconds_with_the_rounds_of_an_interval():
    steps = steps_of([("one", 20), ("two", 3)], [("one", 20), ("two", 3)], seconds=0.0)
    ends = [number for number, step in enumerate(steps) if step[1].startswith("end")]
    assert ends == [2 + 2 * LEAST_ROUNDS, 3 + 2 * LEAST_ROUNDS]
    assert names(steps[ends[-1] + 3 :]).count("a") == 3


def test_a_contest_starts_when_both_have_ended_the_one_before():
    steps = steps_of([("one", 1), ("two", 1)], [("one", 4), ("two", 1)])
    last_round = max(number for number, step in enumerate(steps) if step == ("b", ""))
    assert steps.index(("a", "two")) > steps.index(("b", ""), 3)
    assert last_round > steps.index(("b", "two"))


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_contest_of_one_installation_only_is_skipped(extra, is_first):
    common = [("one", 2), ("two", 2)]
    more = [*common[:extra], ("more", 2), *common[extra:]]
    steps = steps_of(more, common) if is_first else steps_of(common, more)
    skipped = {title for _, title in steps if title.startswith("skip")}
    assert "skip more" in skipped
    assert not any(title == "more" for _, title in steps)
    assert ("a", "two") in steps or extra == 1  # the one after it may be lost


def result(contest, **seconds):
    entries = [
        {"name": name, "contestant": name, "seconds": each} for name, each in seconds.items()
    ]
    return {"workload": "disk/a", "contest": contest, "ceiling": "a", "contestants": entries}


def test_rounds_of_sittings_are_joined_as_pairs():
    merged = ({}, {})
    for before, after in (([1.0, 2.0, 3.0], [4.0, 5.0]), ([6.0], [7.0, 8.0])):
        sides = [Side(name, steps=[]) for name in "ab"]
        for side, seconds in zip(sides, (before, after), strict=True):
            side.results.append(result("one", a=seconds))
        sides[0].results.append(result("gone", a=[1.0]))
        interleave._merge(merged, *sides)
    found = [each["disk/a: one"]["contestants"][0]["seconds"] for each in merged]
    assert found == [[1.0, 2.0, 6.0], [4.0, 5.0, 7.0]]
    assert all(list(each) == ["disk/a: one"] for each in merged)


def test_two_installations_are_measured_and_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")
    words = ["--dir", str(tmp_path), "--json", str(tmp_path / "x.json"), "--sittings", "2"]
    pair = [str(CHECKOUT)] * 2
    command = ["bench", "compare", "--run", *words, "--seconds", "1", *pair, "memory/bandwidth"]
    assert main(command) in (0, 3, 4)
    out = capsys.readouterr().out
    assert "figures compared" in out
    assert "not the same" not in out
    before, after = (results.read(tmp_path / f"x.{name}.json") for name in ("before", "after"))
    assert before["paired"] == after["paired"]
    figures = compare.compare(before, after).figures
    assert len(figures) == 2
    assert all(figure.least == compare.LEAST for figure in figures)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.after.json", "x.before.json"]
    assert main(command) == 1
    assert "exists; --force replaces it" in capsys.readouterr().err


def test_what_is_no_installation_is_named(tmp_path, capsys):
    words = ["bench", "compare", "--run", "--dir", str(tmp_path)]
    assert main([*words, str(tmp_path), str(CHECKOUT), "memory/bandwidth"]) == 1
    assert f"{tmp_path} is neither a Python interpreter nor a checkout" in capsys.readouterr().err
    assert main([*words, str(CHECKOUT)]) == 1
    assert "compare --run needs two Python interpreters or checkouts" in capsys.readouterr().err


def test_a_process_that_fails_ends_the_run(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    pair = Installation(broken), Installation(CHECKOUT)
    with pytest.raises(KStoreError, match=r"python ended with status 3"):
        interleave.interleave(pair, ["memory/bandwidth"], tmp_path)


def test_an_interpreter_uses_its_own_kstore(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT / "src"))
    installation = Installation(Path(sys.executable))
    assert str(CHECKOUT / "src") not in installation.environment(tmp_path)["PYTHONPATH"]
    assert installation.command() == [str(Path(sys.executable).absolute())]


@pytest.mark.parametrize(
    ("workload", "names", "goals", "ours"),
    [
        ("engine/a", ["kstore", "kstore, columns", "write"], ["write"], "kstore|kstore, columns"),
        ("engine/a", ["one core", "NumPy"], ["one core"], "one core"),
        ("engine/a", ["one core", "NumPy"], [], "one core|NumPy"),
        ("sockets/send", ["sendfile", "read+send"], ["sendfile"], "sendfile|read+send"),
        ("disk/commit", ["kstore, append", "O_DSYNC"], ["O_DSYNC"], "kstore, append"),
    ],
)
def test_which_contestants_are_of_kstore(workload, names, goals, ours):
    assert turns.of_kstore(workload, names, goals) == set(ours.split("|"))


def test_only_the_contestants_of_kstore_take_turns():
    calls = dict.fromkeys(["a", "kstore", "kstore, b", "roof", "goal"], lambda: None)
    contest = Contest(name="one", calls=calls, ceiling="roof", targets=frozenset({"goal"}))
    assert list(turns.only_kstore("disk/a", contest).calls) == ["kstore", "kstore, b"]
    raw = Contest(name="two", calls={"write": lambda: None, "mmap": lambda: None})
    assert turns.only_kstore("disk/a", raw).calls == raw.calls


def test_messages_are_lines_of_json(tmp_path, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")
    monkeypatch.setattr(sys, "stdin", io.StringIO("skip\n" * 10))
    channel = io.StringIO()
    turns.in_turn(["memory/bandwidth"], "quick", channel)
    messages = [json.loads(line) for line in channel.getvalue().splitlines()]
    assert len(messages) == 1
    assert all(message["waits"].startswith("memory/bandwidth: ") for message in messages)
