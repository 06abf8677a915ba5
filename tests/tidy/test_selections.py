"""Every test runs in exactly one step of ``.ci/run``, or in a longer run that is named here.

What the steps select is read from the Makefile, and which tests there are is asked of pytest with
nothing deselected, so that a test that no step runs is seen, as one that two steps run.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tidy.sources import ROOT

# Markers of what takes minutes: `make interop-all` and `make spark-all` run it before a release.
LONG = {"all_versions", "connector", "cluster"}
# Paths and marker expression of a pytest command; its other options select nothing.
_COMMAND = re.compile(r"-m pytest\b(?P<words>.*)\$\(PYTEST_ARGS\)")
_EXPRESSION = re.compile(r"\s-m\s+(?:'([^']*)'|(\w+))")
_PLUGIN = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    everything.extend(items)

everything = []

def pytest_collection_finish(session):
    with open({target!r}, "w") as file:
        for item in everything:
            names = sorted(mark.name for mark in item.iter_markers())
            print(item.path, *names, sep="\\t", file=file)
"""


def steps() -> dict[str, tuple[list[str], str]]:
    """Of each step of .ci/run that runs tests: the paths, and the marker expression."""
    makefile = (ROOT / "Makefile").read_text()
    steps_of_ci = (ROOT / ".ci/run").read_text()
    named = re.findall(r"^\s*step \w+ .*?\bmake (?:--\S+ )?([a-z-]+)\b", steps_of_ci, re.M)
    found = {}
    for name in named:
        recipe = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", makefile, re.M)
        command = None if recipe is None else _COMMAND.search(recipe[1])
        if command is not None:
            given = _EXPRESSION.search(command["words"])
            paths = re.findall(r"\b((?:tests|benchmarks)\S*)", command["words"])
            found[name] = (paths, "" if given is None else given[1] or given[2])
    return found


def collected(target: Path) -> Iterator[tuple[str, set[str]]]:
    """Path and markers of every test, those included that conftest files deselect."""
    (target / "listing.py").write_text(_PLUGIN.format(target=str(target / "tests")))
    settings = {"KSTORE_SPARK_ALL": "1", "KSTORE_INTEROP_ALL": "1"}
    paths = os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "listing",
         "-p", "no:cacheprovider", "tests"],
        cwd=ROOT, env={**os.environ, **settings, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    for line in (target / "tests").read_text().splitlines():
        path, *markers = line.split("\t")
        within = Path(path).relative_to(ROOT)
        yield str(within), {*markers, *({"interop", "spark"} & set(within.parts))}


def is_selected(path: str, markers: set[str], paths: list[str], expression: str) -> bool:
    if not any(path == each or path.startswith(each + "/") for each in paths):
        return False
    return not expression or Expression.compile(expression).evaluate(
        lambda name, **_: name in markers
    )


def test_every_test_runs_in_one_step(tmp_path: Path) -> None:
    chosen = steps()
    assert {"test", "interop", "spark", "spark-connector", "counts"} <= set(chosen)
    wrong: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for path, markers in collected(tmp_path):
        by = [name for name, step in chosen.items() if is_selected(path, markers, *step)]
        counts[" ".join(by)] += 1
        if len(by) != 1:
            wrong[f"{path} {sorted(markers & (LONG | {'spark', 'interop'}))}: {by}"] += 1
    assert not wrong, wrong
    assert sum(counts.values()) > 5000
    assert all(counts[name] for name in ("test", "interop", "spark", "counts"))


@pytest.mark.parametrize(
    ("markers", "steps_of_it"),
    [(set(), ["test"]), ({"spark"}, ["spark"]), ({"counted"}, []), ({"interop"}, [])],
)
def test_selections_are_read_as_pytest_reads_them(
    markers: set[str], steps_of_it: list[str]
) -> None:
    path = "tests/unit/test_x.py"
    assert [
        name for name, step in steps().items() if is_selected(path, markers, *step)
    ] == steps_of_it
