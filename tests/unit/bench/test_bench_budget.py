"""``kstore bench``: how it keeps to its time, and contestants that fail."""

import json
import os
import random
import signal
import time

import pytest

from kstore.bench import contest, suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.peers import availability
from kstore.bench.report import compare, results, text_table
from kstore.bench.runner import rounds
from kstore.bench.runner.rounds import NO_ROUND, NO_TIME, run
from kstore.bench.workload import LEVELS, Workload
from support.clock import Clock


class WorkClock(Clock):
    """Time that passes only where work takes it."""

    def __init__(self):
        super().__init__(0.0)
        self.longest = 0.0

    def work(self, seconds, result=1):
        self.now += seconds
        self.longest = max(self.longest, seconds)
        return Timed(seconds, result=result)


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    clock = WorkClock()
    for module in (contest, rounds, suite):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


def workload(name, make, *, weight=1.0, count=1):
    return Workload(
        group="disk",
        name=name,
        about="",
        ceiling="",
        sizes=(1 << 20, 1 << 20, 1 << 20),
        contests=make,
        copies=0,
        weight=weight,
        count=(count,) * len(LEVELS),
    )


def steady(clock, contests, contestants, seconds, prepared=0.0):
    """So many contests of so many contestants that each take so long, as large as they are."""

    def make(setting):
        for number in range(contests):
            clock.now += prepared
            calls = {
                f"{who}": lambda part=setting.part: clock.work(seconds * part)
                for who in range(contestants)
            }
            yield Contest(name=f"{number}", calls=calls, rounds=15)

    return make


# --- the time of a contest --------------------------------------------------------------------


def test_a_contest_has_as_many_rounds_as_fit(clock):
    calls = {name: lambda: clock.work(1.0) for name in "ab"}
    given = Contest(name="a", calls=calls, rounds=15)
    made = run(given, seconds=15)
    assert len(made.times["a"]) == 6  # 2 s of checks and 6 times 2 s
    assert (made.wanted, made.seconds) == (15, 14)
    assert len(run(given, seconds=3, most=9).times["a"]) == 3
    assert len(run(given, seconds=3, most=7).times["a"]) == 2
    assert len(run(given, seconds=3).times["a"]) == 5  # as many as an interval needs
    assert len(run(given).times["a"]) == 15


def test_the_first_call_is_a_warm_up_and_no_figure(clock):
    taken = iter([9.0, 1.0, 2.0, 3.0])
    calls = {"a": lambda: clock.work(next(taken))}
    made = run(Contest(name="a", calls=calls, rounds=3))
    assert made.times == {"a": [1.0, 2.0, 3.0]}


def test_if_no_round_fits_the_contest_has_no_figure(clock):
    calls = {name: lambda: clock.work(1.0) for name in "ab"}
    made = run(Contest(name="a", calls=calls, rounds=15), seconds=1, most=3)
    assert made.times == {}
    assert made.left_out == {"a": NO_ROUND, "b": NO_ROUND}
    assert clock.now == 2


def test_a_contestant_that_would_start_too_late_is_skipped(clock):
    calls = {name: lambda: clock.work(1.0) for name in "abcd"}
    made = run(Contest(name="a", calls=calls, rounds=15, ceiling="d"), seconds=1, most=1.5)
    assert clock.now == 2
    assert made.left_out == {"a": NO_ROUND, "b": NO_ROUND, "c": NO_TIME, "d": NO_TIME}


def test_the_table_shows_how_many_rounds_were_planned_and_made():
    assert text_table.rounds({"rounds": 5, "rounds_wanted": 5}) == "5 rounds"
    shown = text_table.rounds({"rounds": 6, "rounds_wanted": 9})
    assert shown == "6 rounds of 9, for want of time"
    shown = text_table.rounds({"rounds": 1, "rounds_wanted": 5})
    assert shown == "1 round of 5, for want of time: no interval"


def test_accepted_records_are_not_compared_with_a_durable_ceiling():
    calls = {"a": lambda: Timed(1.0, also={"accepted": 0.1, "wait": 0.5})}
    outcome = run(Contest(name="a", calls=calls), rounds=5)
    tree = results.as_tree("disk", "disk/some", outcome)
    assert [entry["name"] for entry in tree["contestants"] if "of_ceiling" in entry] == [
        "a", "a wait",
    ]  # fmt: skip
    assert {entry["name"] for entry in tree["contestants"]} == {"a", "a wait", "a accepted"}


@pytest.mark.parametrize(("rounds", "has_interval"), [(4, False), (5, True)])
def test_fewer_than_five_rounds_have_no_interval(rounds, has_interval):
    calls = {"a": lambda: Timed(1.0), "b": lambda: Timed(2.0)}
    contest = Contest(name="a", calls=calls, bars=(("a", "b", None),))
    outcome = run(contest, rounds=rounds)
    tree = json.loads(json.dumps(results.as_tree("disk", "disk/some", outcome)))
    entries = [*tree["contestants"], *tree["bars"]]
    entries += [entry["of_ceiling"] for entry in tree["contestants"]]
    assert len(entries) == 5
    for entry in entries:
        assert (entry["low"] is not None, entry["high"] is not None) == (has_interval,) * 2
    assert ("no interval" in "\n".join(text_table.lines(tree))) is not has_interval


# --- the time of a run ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("level", suite.STRICT)
def test_a_run_keeps_to_its_time_however_slow_the_machine_is(tmp_path, clock, level, seed):
    draw = random.Random(seed)
    given = []
    for number in range(draw.randint(1, 12)):
        contests = draw.randint(1, 9)
        make = steady(
            clock, contests, draw.randint(1, 8), draw.choice((0.01, 1, 20)), draw.choice((0, 3))
        )
        expected = draw.choice((contests, 1, 20))
        given.append(workload(f"{number}", make, weight=draw.choice((0.5, 4)), count=expected))
    tree = suite.Suite(given, tmp_path, level).run()
    assert tree["results"] or tree["missing"]
    assert clock.now <= suite.SECONDS[level] + 3 + clock.longest
    assert suite.SECONDS[level] + suite.STRICT[level] < {"quick": 120, "default": 600}[level]


def test_the_running_call_is_stopped_when_the_time_is_over(tmp_path):
    ended = []

    def time_is_up():
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        os.kill(os.getpid(), signal.SIGALRM)
        time.sleep(60)

    def make(setting):
        try:
            yield Contest(name="one", calls={"kstore": time_is_up})
        finally:
            ended.append("server")

    tree = suite.Suite([workload("some", make), workload("never", make)], tmp_path, "quick").run()
    assert (tree["results"], tree["failed"], ended) == ([], [], ["server"])
    assert tree["missing"]["the workload in progress, and the rest"] == NO_TIME
    assert "ended_by" not in tree
    assert list(tmp_path.iterdir()) == []
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_reduced_size_is_a_multiple_of_a_mebibyte():
    given = workload("some", steady(None, 1, 1, 1))
    object.__setattr__(given, "sizes", (100 << 20,) * 3)
    assert given.size("quick", 0.333) == 33 << 20
    assert given.size("quick") == 100 << 20
    assert given.size("quick", 0.001) == (100 << 20) // 1000


def test_time_is_shared_by_weight(tmp_path, clock):
    light, heavy = (steady(clock, 1, 1, 0.1) for _ in range(2))
    given = [workload("light", light), workload("heavy", heavy, weight=3)]
    for each in given:  # as many rounds as there is time for
        object.__setattr__(each, "contests", endless(each.contests))
    tree = suite.Suite(given, tmp_path, "quick").run()
    few, many = (result["rounds"] for result in tree["results"])
    assert 2.9 < many / few < 3.1


def endless(make):
    def contests(setting):
        for made in make(setting):
            yield Contest(name=made.name, calls=made.calls, rounds=1 << 30)

    return contests


def test_a_late_workload_is_smaller_and_reports_it(tmp_path, clock):
    first = steady(clock, 1, 2, 0.1, prepared=95)
    given = [workload("first", first), workload("second", steady(clock, 1, 2, 1.0), weight=0.2)]
    tree = suite.Suite(given, tmp_path, "quick").run()
    assert tree["missing"]["disk/second: its full size"].endswith("of it: the run is late")
    given = [workload(name, steady(clock, 1, 2, 0.1)) for name in ("first", "second")]
    tree = suite.Suite(given, tmp_path, "quick").run()
    assert not any("full size" in name for name in tree["missing"])


def test_contests_that_are_not_started_are_reported(tmp_path, clock):
    given = [workload("slow", steady(clock, 50, 1, 10.0), count=50)]
    tree = suite.Suite(given, tmp_path, "quick").run()
    assert 0 < len(tree["results"]) < 50
    assert tree["missing"]["disk/slow: further contests"] == NO_TIME
    given = [
        workload("slow", steady(clock, 1, 1, 1, prepared=200)),
        workload("late", steady(clock, 1, 1, 1)),
    ]
    tree = suite.Suite(given, tmp_path, "quick").run()
    own = {name: why for name, why in tree["missing"].items() if name.startswith("disk/")}
    assert own == {"disk/slow: 0: 0": NO_ROUND, "disk/late: all of it": NO_TIME}


def test_rounds_given_by_the_user_are_always_made(tmp_path, clock):
    given = [workload("slow", steady(clock, 1, 1, 60.0))]
    tree = suite.Suite(given, tmp_path, "quick", rounds=7).run()
    assert [result["rounds"] for result in tree["results"]] == [7]


def test_a_full_run_leaves_nothing_out(tmp_path, clock):
    given = [workload("slow", steady(clock, 4, 2, 900.0), count=4)]
    tree = suite.Suite(given, tmp_path, "full").run()
    assert [result["rounds"] for result in tree["results"]] == [5] * 4


def test_a_run_of_chosen_contests_has_its_own_time(tmp_path, clock):
    given = [workload("some", steady(clock, 4, 1, 1.0), count=4)]
    tree = suite.Suite(given, tmp_path, "full", seconds=40, chosen=lambda one: one.name > "1").run()
    assert [result["contest"] for result in tree["results"]] == ["2", "3"]
    # The first may take half of it; what it does not need the second has.
    assert [result["rounds"] for result in tree["results"]] == [15, 15]
    assert clock.now == 2 * 16
    tree = suite.Suite(given, tmp_path, "full", seconds=20, chosen=lambda one: one.name > "1").run()
    assert [result["rounds"] for result in tree["results"]] == [9, 9]


@pytest.mark.parametrize("level", suite.STRICT)
def test_the_disk_gets_its_rounds_before_other_groups_start(tmp_path, clock, level):
    """Also if its contests take more than their share of the time."""
    each = suite.SECONDS[level] / 40
    order = []

    def noted(group, make):
        def contests(setting):
            for made in make(setting):
                order.append((group, clock.now))
                yield made

        return contests

    disk = workload("disk", noted("disk", steady(clock, 3, 2, each)), weight=0.5, count=3)
    memory = workload("memory", noted("memory", steady(clock, 2, 1, each)), weight=4, count=2)
    object.__setattr__(memory, "group", "memory")
    tree = suite.Suite([disk, memory], tmp_path, level).run()
    rounds_of = {"disk": [], "memory": []}
    for result in tree["results"]:
        rounds_of[result["group"]].append(result["rounds"])
    assert [group for group, _ in order] == sorted(group for group, _ in order)
    assert rounds_of["disk"][:2] == [5, 5]
    assert rounds_of["memory"]
    assert clock.now <= suite.SECONDS[level] + clock.longest


# --- who breaks -------------------------------------------------------------------------------


def breaking(after):
    """A contestant that fails in a later call."""
    calls = []

    def call():
        calls.append(1)
        if len(calls) > after:
            raise ConnectionResetError("the server is gone")
        return Timed(1.0, result=1, also={"wait": 2.0}, samples=[1, 2, 3])

    return call


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_failing_peer_is_reported_and_the_others_continue(tmp_path, after):
    def make(setting):
        calls = {
            "kstore": lambda: Timed(1.0, result=1),
            "peer": breaking(after),
            "peer two": lambda: Timed(3.0, result=1),
        }
        bars = (("kstore", "peer", 2.0), ("kstore", "peer two", 2.0))
        yield Contest(name="one", calls=calls, bars=bars, rounds=5, ceiling="peer")
        yield Contest(name="two", calls={"kstore": lambda: Timed(1.0, result=1)}, rounds=5)

    reported = []
    given = suite.Suite([workload("some", make)], tmp_path, "quick", rounds=5)
    given.listener.on_failure = lambda title, reason: reported.append((title, reason))
    tree = given.run()
    (failed,) = tree["failed"]
    assert failed["reason"] == "one: peer: ConnectionResetError: the server is gone"
    assert reported == [("disk/some", failed["reason"])]
    one, two = tree["results"]
    assert [entry["name"] for entry in one["contestants"]] == ["kstore", "peer two"]
    assert (one["rounds"], one["ceiling"], two["rounds"]) == (5, "kstore", 5)
    assert [bar["peer"] for bar in one["bars"]] == ["peer two"]
    assert f"failed: disk/some: {failed['reason']}" in compare.losses(tree, tree)


def test_a_contest_fails_if_all_its_contestants_fail(tmp_path):
    def make(setting):
        yield Contest(name="one", calls={"a": breaking(0)}, rounds=5)

    tree = suite.Suite([workload("some", make)], tmp_path, "quick", rounds=5).run()
    assert tree["results"] == []
    assert [failed["workload"] for failed in tree["failed"]] == ["disk/some"] * len(tree["failed"])


def test_check_raises_the_error_of_a_contestant():
    with pytest.raises(ConnectionResetError):
        Contest(name="one", calls={"a": breaking(0)}).check()


def test_a_peer_that_does_not_start_is_reported(tmp_path):
    def make(setting):
        def serve():
            raise OSError("no port")

        assert availability.attempt("Redis", serve) is None
        yield Contest(name="one", calls={"kstore": lambda: Timed(1.0, result=1)}, rounds=5)

    tree = suite.Suite([workload("some", make)], tmp_path, "quick", rounds=5).run()
    assert len(tree["results"]) == 1
    assert [failed["reason"] for failed in tree["failed"]] == ["Redis: OSError: no port"]


def test_servers_of_an_interrupted_workload_are_stopped(tmp_path):
    ended = []

    def interrupted():
        raise KeyboardInterrupt

    def make(setting):
        try:
            yield Contest(name="one", calls={"kstore": interrupted}, rounds=5)
        finally:
            ended.append("server")

    given = suite.Suite([workload("some", make)], tmp_path, "quick", rounds=5)
    with pytest.raises(KeyboardInterrupt):
        given.run()
    assert ended == ["server"]
    assert list(tmp_path.iterdir()) == []
