"""What operations cost, in numbers that repeat, against the committed ones (``make counts``).

The slow half needs valgrind and carries the mark ``counted``; what reads valgrind's words and
compares numbers is tested without it.
"""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counted import (  # noqa: F401
    baseline,
    broker,
    kernels,
    paths,
    planted,
    profile,
    run,
    system_calls,
)
from counted.operation import OPERATIONS
from counted.run import BEST, PATHS, Counting, Found

NATIVE = planted.SOURCES / "_native"
CEILINGS = {path.stem for path in (NATIVE / "bench").glob("*.pyx")}  # C loops, not kernels
HERE = {
    "python": "3.11.2, GCC 12.2.0",
    "compiler": "gcc (X) 12.2.0",
    "valgrind": "valgrind-3.19.0",
    "libc": "glibc 2.36",
}
COUNTS: dict[str, Any] = {
    "instructions": {"table": 1000.0, "avx2": 100.0},
    "with_python": 4000.0,
    "modules": {"decode": 100.0},
    "bytecodes": 30.0,
    "allocations": 3.0,
    "copied": 100.0,
    "moved": 170.0,
    "calls": {"write": 1.0},
}


# --- the guard itself -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    with Counting() as counting:
        yield counting.count(list(OPERATIONS))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return planted.untouched(tmp_path_factory.mktemp("untouched"))


@pytest.mark.counted
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("default::counted.baseline.FellWarning")
@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_costs_more_than_its_baseline(found: Found, name: str) -> None:
    given = {name: found[name]}, baseline.load(), baseline.made_with()
    for line in baseline.below(*given).get(name, []):
        warnings.warn(
            f"{name}, {line}: make baseline guards it again", baseline.FellWarning, stacklevel=1
        )
    left = baseline.compare(*given)
    assert left == {}, "if this is meant: make baseline, and commit what it prints"


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", planted.SLOWDOWNS)
def test_a_planted_slowdown_is_seen(tmp_path: Path, untouched: Found, name: str) -> None:
    kind = planted.SLOWDOWNS[name].kind
    lines = planted.caught(tmp_path, name, untouched)
    assert any(line.startswith(baseline.LABELS.get(kind, kind)) for line in lines), lines


@pytest.mark.counted
@pytest.mark.timeout(1500)
def test_a_copy_without_a_slowdown_is_not(found: Found, untouched: Found) -> None:
    assert planted.differences(found, untouched) == {}


@pytest.mark.counted
@pytest.mark.timeout(600)
def test_where_it_lies_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the length of TMPDIR, nor that of kstore's own path."""
    names = ["create a topic", "open a store to write, and close it", "open after a kill"]
    counted = []
    for length in (1, 150):
        directory = tmp_path / ("d" * length)
        directory.mkdir()
        monkeypatch.setenv("TMPDIR", str(directory))
        package = planted.copy_sources(directory)
        counted.append(planted.count(package, names, {"copied"}))
    assert planted.differences(*counted) == {}
    assert planted.differences(*reversed(counted)) == {}


@pytest.mark.counted
def test_a_path_that_the_processor_lacks_is_an_import_error() -> None:
    code = "from kstore._native.format import crc"
    done = subprocess.run(
        ["valgrind", "-q", "--tool=none", sys.executable, "-c", code],
        env={**os.environ, "KSTORE_CPU": "avx512", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = "KSTORE_CPU: this CPU has no path 'avx512'; it has: table, sse42, pclmul, avx2"
    assert said in done.stderr


# --- what is counted ------------------------------------------------------------------------


def test_the_baseline_has_every_operation_on_every_path() -> None:
    known = baseline.load()["operations"]
    assert known.keys() == OPERATIONS.keys()
    for name, operation in OPERATIONS.items():
        there = set(known[name]["instructions"])
        assert there == (set(PATHS) if operation.by_path else {BEST}), name


def test_every_kernel_is_counted() -> None:
    """A new module of the compiled half needs an operation that runs it."""
    known = baseline.load()["operations"].values()
    counted = {module for counts in known for module in counts["modules"]}
    assert counted == {path.stem for path in NATIVE.rglob("*.pyx")} - CEILINGS


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_does_what_it_says(tmp_path: Path, name: str) -> None:
    from counted.operation import Workspace

    workspace = Workspace(tmp_path)
    with workspace.stack:
        action, expected = OPERATIONS[name].make(workspace)
        assert action() == expected
        assert action() == expected  # again, as it is counted in rounds


@pytest.mark.parametrize("name", planted.SLOWDOWNS)
def test_a_slowdown_can_still_be_planted(name: str) -> None:
    slowdown = planted.SLOWDOWNS[name]
    assert (planted.SOURCES / slowdown.source).read_text().count(slowdown.before) == 1
    assert slowdown.operation in OPERATIONS
    assert slowdown.kind in baseline.BOUNDS


def test_profiled_functions_exist() -> None:
    assert set(profile.PROFILED) <= OPERATIONS.keys()


# --- comparing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({}, []),
        ({"instructions": {"table": 1029.0, "avx2": 103.0}}, []),
        (
            {"instructions": {"table": 1031.0, "avx2": 50.0}},
            ["instructions table: 1,000 -> 1,031 (+3.1%)"],
        ),
        ({"instructions": {"avx2": 100.0}}, []),  # only one path was asked for
        ({"with_python": 4900.0}, []),
        ({"with_python": 5200.0}, ["instructions with Python's: 4,000 -> 5,200 (+30.0%)"]),
        ({"bytecodes": 33.0}, ["bytecodes: 30 -> 33 (+10.0%)"]),
        ({"allocations": 5.0}, ["allocations: 3 -> 5 (+66.7%)"]),
        ({"copied": 200.0}, ["bytes copied in memory: 100 -> 200 (+100.0%)"]),
        ({"moved": 160.0}, ["bytes moved by system calls: 170 -> 160 (-5.9%)"]),
        ({"calls": {"write": 1.0, "fstat": 1.0}}, ["calls fstat: 0 -> 1"]),
        ({"calls": {}}, ["calls write: 1 -> 0 (-100.0%)"]),
        ({"bytecodes": 3.0, "copied": 36.0}, []),  # better
        ({"bytecodes": 0.0}, ["bytecodes: 30 -> 0 (-100.0%)"]),  # or no longer counted
        ({"modules": {}}, ["no instruction of decode is counted any more"]),
    ],
)  # fmt: skip
def test_counts_out_of_bounds_are_reported(changed: dict[str, Any], lines: list[str]) -> None:
    bound = baseline.bounds(HERE, HERE)
    assert baseline.differences(COUNTS, {**COUNTS, **changed}, bound) == lines


@pytest.mark.parametrize(
    ("here", "wide"),
    [
        ({}, ()),
        ({"compiler": "x86_64-linux-gnu-gcc (Y) 12.2.0"}, ()),
        ({"compiler": "gcc (Y) 14.1.0"}, baseline.DEPENDS_ON["compiler"]),
        ({"compiler": "Debian clang version 12.2.0"}, baseline.DEPENDS_ON["compiler"]),
        ({"compiler": "unknown"}, baseline.DEPENDS_ON["compiler"]),
        ({"valgrind": "valgrind-3.24.0"}, baseline.DEPENDS_ON["valgrind"]),
        ({"python": "3.12.1, GCC 12.2.0"}, baseline.DEPENDS_ON["python"]),
        ({"python": "3.11.9, GCC 12.2.0"}, baseline.DEPENDS_ON["python"]),
        ({"python": "3.11.2, Clang 18.1"}, baseline.DEPENDS_ON["python"]),
        ({"libc": "glibc 2.41"}, baseline.DEPENDS_ON["libc"]),
    ],
)
def test_bounds_are_wider_elsewhere(here: dict[str, str], wide: tuple[str, ...]) -> None:
    chosen = baseline.bounds(HERE, {**HERE, **here})
    assert {kind for kind in chosen if chosen[kind] != baseline.BOUNDS[kind]} == set(wide)
    assert all(chosen[kind] == baseline.WIDER_BOUNDS[kind] for kind in wide)


def test_calls_that_have_other_names_elsewhere_are_compared_in_sum() -> None:
    bound = baseline.bounds(HERE, {**HERE, "libc": "glibc 2.41"})
    before = {**COUNTS, "calls": {"write": 8.0, "newfstatat": 4.0}}
    for calls, lines in (
        ({"write": 8.0, "stat": 4.0, "ioctl": 3.0}, []),
        ({"write": 16.0, "stat": 4.0}, ["calls in all: 12 -> 20 (+66.7%)"]),
    ):
        assert baseline.differences(before, {**COUNTS, "calls": calls}, bound) == lines


def test_counts_far_below_the_baseline_are_reported() -> None:
    known = {"made_with": HERE, "operations": {"a": COUNTS, "b": COUNTS}}
    now = {"a": {**COUNTS, "bytecodes": 20.0, "allocations": 2.5}, "b": COUNTS}
    assert baseline.below(now, known, HERE) == {"a": ["bytecodes: 30 -> 20 (-33.3%)"]}


def test_a_missing_tool_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who counts nothing needs neither valgrind nor a compiler of that name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    made = baseline.made_with()
    assert (made["compiler"], made["valgrind"]) == ("unknown", "unknown")
    assert baseline.first_line([sys.executable, "-c", "raise SystemExit(1)"]) == "unknown"


def test_the_compiler_is_the_one_that_builds_kstore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -O2")
    assert baseline.made_with()["compiler"].startswith("Python 3.")


def test_a_new_baseline_says_what_changed() -> None:
    known = {"made_with": HERE, "operations": {"a": COUNTS, "b": COUNTS}}
    now = {"a": {**COUNTS, "bytecodes": 29.0}, "c": COUNTS}
    assert baseline.changes(now, known, {**HERE, "libc": "glibc 2.41"}) == [
        "b: gone",
        "a: bytecodes: 30 -> 29 (-3.3%)",
        "c: new",
        "libc: glibc 2.36 -> glibc 2.41",
    ]


def test_a_baseline_is_kept(tmp_path: Path) -> None:
    baseline.save({"a": COUNTS}, HERE, tmp_path / "kept.json")
    assert baseline.load(tmp_path / "kept.json") == {"made_with": HERE, "operations": {"a": COUNTS}}
    text = baseline.FILE.read_text()
    assert text == json.dumps(json.loads(text), indent=1) + "\n"


# --- reading valgrind -----------------------------------------------------------------------

DUMP = """\
# callgrind format
desc: Trigger: Client Request: append one record
positions: line
events: Ir

ob=(1) /x/kstore/_native/read/decode.cpython-311-x86_64-linux-gnu.so
fl=(1) src/kstore/_native/read/decode.pyx
fn=(1) __pyx_f_6kstore_7_native_4read_6decode_walk
10 200
fi=(2) src/kstore/_native/format/cursor.pxd
7 30
cob=(2) /usr/lib/libc.so.6
cfn=(2) memcpy
calls=3 0
10 999

ob=(2)
fl=(3) ???
fn=(2)
0 900
"""


def test_a_dump_is_read(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.1"
    path.write_text(DUMP)
    assert run.trigger(path) == "append one record"
    assert run.read_dump(path) == {"decode": 230, "other": 900}
    found = {(line.module, Path(line.file).name, line.line): n for line, n in profile.costs(path)}
    assert found == {
        ("decode", "decode.pyx", 10): 200,
        ("decode", "cursor.pxd", 7): 30,
        ("other", "???", 0): 900,
    }  # fmt: skip
    text = "\n".join(profile.summarize("it", path, rounds=1, amount=10))
    assert "113 instructions, 23 of them in kstore's kernels: decode 23" in text
    assert "| decode | `decode_walk` | 23.0 | 100.0% |" in text
    assert "| decode.pyx:10 | 20.0 |" in text


CALLS = """\
SYSCALL[7,1](0) sys_read ( 3, 0x1, 9 )[sync] --> Success(0x9)
**7** mark append
SYSCALL[7,1](228) sys_clock_gettime( 1, 0x1 )[sync] --> Success(0x0)
SYSCALL[7,1](1) sys_write ( 5, 0x45, 170 ) --> [async] ...
SYSCALL[7,1](1) ... [async] --> Success(0xaa)
SYSCALL[7,1](9) sys_mmap ( 0x0, 4096, 3, 34, -1, 0 ) --> [pre-success] Success(0x4)
SYSCALL[7,1](9) sys_mmap ( 0x0, 4096, 1, 1, 5, 0 ) --> [pre-success] Success(0x4)
SYSCALL[7,2](17) sys_pread64 ( 5, 0x45, 64, 0 ) --> [async] ...
SYSCALL[7,1](1) sys_write ( 5, 0x45, 170 ) --> [async] ...
SYSCALL[7,2](17) ... [async] --> Success(0x10)
SYSCALL[7,1](1) ... [async] --> Failure(0x1c)
SYSCALL[7,1](72) sys_fcntl[ARG3=='arg'] ( 5, 1030, 0 )[sync] --> Success(0x8)
**7** mark -
SYSCALL[7,1](3) sys_close ( 5 )[sync] --> Success(0x0)
"""


def test_system_calls_are_read() -> None:
    calls, moved = run.read_calls(CALLS.splitlines())["append"]
    assert calls == {"write": 2, "mmap": 1, "pread64": 1, "fcntl": 1}
    assert moved == 170 + 16
