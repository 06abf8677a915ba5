"""Interop tests that fail run once more (`make interop`): what passes, and what is written down."""

import pytest

from interop import once_more

FIRST = """
from pathlib import Path
def test_steady(): pass
def test_unsteady():
    ran = Path("ran")
    seen = ran.exists()
    ran.touch()
    assert seen
"""
ALWAYS = "def test_broken(): assert False\n"
MANY = "".join(f"def test_{n}(): assert False\n" for n in range(once_more.MOST + 1))


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Runs pytest on a file of tests; returns the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def _run(source):
        (tmp_path / "test_it.py").write_text(source)
        status = once_more.main(["-m", "pytest", "test_it.py"])
        return status, capfd.readouterr().out

    return _run


def test_what_passes_at_once_runs_once(run):
    status, printed = run("def test_steady(): pass\n")
    assert (status, printed.count("1 passed"), once_more.UNSTEADY.exists()) == (0, 1, False)


def test_what_passes_alone_is_written_down(run):
    status, printed = run(FIRST)
    assert status == 0
    assert "1 failed, 1 passed" in printed
    assert "unsteady, failed once and passed alone:\n    test_it.py::test_unsteady\n" in printed
    assert once_more.UNSTEADY.read_text() == "test_it.py::test_unsteady\n"
    assert run("def test_steady(): pass\n")[0] == 0
    assert not once_more.UNSTEADY.exists()


def test_what_fails_twice_fails(run):
    status, printed = run(FIRST + ALWAYS)
    assert (status, once_more.UNSTEADY.exists()) == (1, False)
    assert "2 failed: once more, alone" in printed


@pytest.mark.parametrize("source", [MANY, "import nothing_of_that_name\n"])
def test_a_common_cause_is_not_repeated(run, source):
    status, printed = run(source)
    assert status in {1, 2}
    assert "once more" not in printed
