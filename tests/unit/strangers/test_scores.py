"""What the runner of the suites of Kafka's clients calls right and wrong."""

import re
from pathlib import Path

import pytest

from strangers import expectations, librdkafka
from strangers.__main__ import SUITES, main
from strangers.expectations import Expectations, Score, judge, read_expectations, to_run_again
from strangers.franz_go import read_output
from strangers.junit import read_results
from strangers.librdkafka import read_report
from strangers.suite import FAILED, PASSED, SKIPPED, NotRun, Target, run_command
from strangers.table import Run, lines_of

ENTRIES = """
[[failure]]
test = "test_a::*"
why = "as Kafka"
[[failure]]
test = "test_b[one]"
why = "only there"
on = ["3.9.2"]
[[unsteady]]
test = "test_c"
why = "a matter of time"
[[retried]]
test = "test_d"
why = "a race in the client"
"""


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Expectations:
    monkeypatch.setattr(expectations, "FOLDER", tmp_path)
    (tmp_path / "suite.toml").write_text(ENTRIES)
    return read_expectations("suite", "suite", "kstore")


def test_a_failure_that_is_expected_is_right(expected: Expectations) -> None:
    score = judge({"test_a::one": FAILED, "test_x": PASSED, "test_y": SKIPPED}, [], expected)
    assert score == Score(passed=1, failed=1, expected=1, skipped=1)


def test_a_new_failure_and_a_new_pass_are_wrong(expected: Expectations) -> None:
    score = judge({"test_a::one": PASSED, "test_b[one]": FAILED}, [], expected)
    assert score.wrong == [
        "test_a::one passed, and a failure was expected",
        "test_b[one] failed",
    ]


def test_an_expected_failure_that_no_longer_exists_is_wrong(expected: Expectations) -> None:
    score = judge({"test_x": PASSED}, [], expected)
    assert score.wrong == ["test_a::* did not run, and a failure was expected"]


def test_unsteady_tests_are_shown_three_times(expected: Expectations) -> None:
    again = [{"test_c": PASSED}, {"test_c": FAILED}]
    score = judge({"test_a::one": FAILED, "test_c": FAILED}, again, expected)
    assert score.wrong == []
    assert score.unsteady == {"test_c": [FAILED, PASSED, FAILED]}
    lines = lines_of([Run("suite", "kstore", 1, score)])
    assert lines[-1] == "suite at kstore: unsteady, failed, passed, failed: test_c"


def test_a_retried_test_has_to_pass_once(expected: Expectations) -> None:
    results = {"test_a::one": FAILED, "test_c": PASSED, "test_d": FAILED}
    assert to_run_again(results, expected) == ["test_c", "test_d"]
    assert to_run_again({"test_d": PASSED}, expected) == []
    score = judge(results, [{"test_d": FAILED}, {"test_d": PASSED}], expected)
    assert score.wrong == []
    assert score.unsteady["test_d"] == [FAILED, FAILED, PASSED]
    score = judge(results, [{"test_d": FAILED}, {"test_d": FAILED}], expected)
    assert score.wrong == ["test_d failed each time"]


def test_a_failure_that_is_expected_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expectations, "FOLDER", tmp_path)
    (tmp_path / "suite.toml").write_text(
        '[[failure]]\ntest = "m::a"\nwhy = "as Kafka"\n[[retried]]\ntest = "m::*"\nwhy = "a race"\n'
    )
    expected = read_expectations("suite", "suite", "kstore")
    results = {"m::a": FAILED, "m::b": FAILED}
    assert to_run_again(results, expected) == ["m::b"]
    score = judge(results, [{"m::b": PASSED}], expected)
    assert (score.wrong, score.expected) == ([], 2)
    assert judge({"m::a": PASSED}, [], expected).wrong == [
        "m::a passed, and a failure was expected"
    ]


def test_many_failures_are_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "FOLDER", tmp_path)
    (tmp_path / "suite.toml").write_text('[[retried]]\ntest = "m::*"\nwhy = "a race"\n')
    expected = read_expectations("suite", "suite", "kstore")
    results = {f"m::{number}": FAILED for number in range(expectations.MOST_RETRIED + 1)}
    assert to_run_again(results, expected) == []
    assert len(judge(results, [], expected).wrong) == len(results)
    results["m::0"] = PASSED
    assert len(to_run_again(results, expected)) == expectations.MOST_RETRIED


def test_entries_count_at_their_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Expectations
) -> None:
    at_kafka = read_expectations("suite", "suite", "3.9.2")
    assert at_kafka.is_failure("test_b[one]")
    assert not expected.is_failure("test_b[one]")
    (tmp_path / "suite.toml").write_text('[[failure]]\ntest = "test_a"\n')
    with pytest.raises(ValueError, match="a reason"):
        read_expectations("suite", "suite", "kstore")


@pytest.mark.parametrize(
    ("run", "is_right"),
    [
        (Run("s", "kstore", 1, Score(passed=1)), True),
        (Run("s", "kstore", 1, Score(wrong=["test_a failed"])), False),
        (Run("s", "kstore", 1, Score(passed=1), broker_errors=("Traceback",)), False),
        (Run("s", "kstore", 0, None, "no source tree"), False),
        (Run("s", "kstore", 0, None, "no source tree", may_be_missing=True), True),
    ],
)
def test_what_turns_a_run_red(run: Run, is_right: bool) -> None:
    assert run.is_right is is_right
    assert any("kstore" in line for line in lines_of([run]))


def test_a_missing_source_tree_is_an_error_unless_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    suite = next(each for each in SUITES if each.needs_source)
    assert main([suite.name]) == 1
    assert "NOT RUN" in capsys.readouterr().out
    assert main([suite.name, "--missing-sources"]) == 0
    assert re.search(r"kstore +0  not run", capsys.readouterr().out)


def test_a_suite_runs_at_each_broker_that_has_what_it_tests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, brokers in (
        ("librdkafka", ["kstore", "3.9.2", "4.3.0"]),
        ("confluent-kafka-python KIP-848", ["kstore", "4.3.0"]),
    ):
        assert main([name, "--missing-sources"]) == 0
        assert re.findall(rf"{name} at (\S+): not run", capsys.readouterr().out) == brokers


def test_every_file_of_expectations_is_read_and_has_a_suite() -> None:
    names = {suite.expected for suite in SUITES}
    for path in expectations.FOLDER.glob("*.toml"):
        assert path.stem in names
        variants = [suite.name for suite in SUITES if suite.expected == path.stem]
        for suite in variants:
            for broker in ("kstore", "3.9.2", "4.3.0"):
                for entry in read_expectations(path.stem, suite, broker).failures:
                    assert set(entry.of) <= set(variants)
                    assert set(entry.on) <= {"kstore", "3.9.2", "4.3.0"}


def test_reports_of_pytest_are_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="test.it.test_one" name="a"/>'
        '<testcase classname="test.it.test_one" name="b[1]"><failure/></testcase>'
        '<testcase classname="test.it.test_one" name="b[1]"/>'
        '<testcase classname="test.it.test_one" name="c"><skipped/></testcase>'
        '<testcase classname="test.it.test_two" name="d"><error/></testcase>'
        "</testsuite></testsuites>"
    )
    assert read_results(report) == {
        "test_one::a": PASSED,
        "test_one::b[1]": FAILED,
        "test_one::c": SKIPPED,
        "test_two::d": FAILED,
    }
    report.write_text("<testsuites/>")
    with pytest.raises(NotRun):
        read_results(report)
    with pytest.raises(NotRun):
        read_results(tmp_path / "none.xml")


def test_reports_of_librdkafka_are_read(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text(
        '{"tests": {"<MAIN>": {"state": "FAILED"}, "0001_a": {"state": "PASSED"},'
        ' "0002_b": {"state": "RUNNING"}, "0003_c": {"state": "SKIPPED"}}}'
    )
    found = read_report(report)
    assert found == {"0001_a": PASSED, "0002_b": FAILED, "0003_c": SKIPPED}
    with pytest.raises(NotRun):
        read_report(tmp_path / "none")


def test_a_go_test_that_never_ended_has_failed() -> None:
    text = (
        "=== RUN   TestA\n=== RUN   TestA/one\n    --- PASS: TestA/one (0.10s)\n"
        "--- PASS: TestA (0.10s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\n"
        "=== RUN   TestC\npanic: test timed out\n"
    )
    assert read_output(text) == {
        "TestA": PASSED, "TestA/one": PASSED, "TestB": SKIPPED, "TestC": FAILED,
    }  # fmt: skip
    with pytest.raises(NotRun):
        read_output("build failed")


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_command(["sh", "-c", "echo a; sleep 600 & sleep 600"], log, limit=0.5) is None
    assert log.read_text().startswith("a\n")
    assert run_command(["sh", "-c", "exit 3"], log, limit=60) == 3


@pytest.mark.parametrize(
    ("only", "asked"),
    [
        ((), [("3.9.2", [], "0081"), ("4.0.0", ["0081"], "")]),
        (("0118_x",), [("3.9.2", ["0118_x"], "0081")]),
        (("0081_admin",), [("4.0.0", ["0081"], "")]),
    ],
)
def test_librdkafka_assumes_kafka_4_where_kstore_is_like_it(
    only: tuple[str, ...],
    asked: list[tuple[str, list[str], str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def run(target: Target, version: str, only: list[str], without: str = "") -> dict[str, str]:
        seen.append((version, only, without))
        return {"0081_admin": FAILED if without else PASSED, "0118_x": SKIPPED}

    monkeypatch.setattr(librdkafka, "_run", run)
    results = librdkafka.SUITES[0].run(Target("kstore", "h:1", tmp_path / "log"), only)
    assert seen == asked
    assert results["0081_admin"] == (FAILED if only == ("0118_x",) else PASSED)
