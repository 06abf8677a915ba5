"""Bugs planted in the compiled half: in a copy of the sources, one extension of it built again.

The copy replaces kstore in a process of its own, which runs a short form of the part
named beside the bug, or some unit tests where no part reaches the kernel. A process that dies by
a signal has caught it as well: that is how a read out of bounds shows.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import kstore
from torture import planted_bugs
from torture.parts import Budget, Figures

GOAL = None
LONGEST = 120.0  # seconds for the part, building not counted
SOURCES = Path(kstore.__file__).parent
TESTS = Path(__file__).parents[1]
CYTHON = "boundscheck=True,wraparound=False,cdivision=True,embedsignature=False"
COMPILE = "-shared -fPIC -O1 -std=c11 -D_GNU_SOURCE -w"


class NativeBug(NamedTuple):
    source: str  # in kstore/_native
    before: str
    after: str
    part: str  # or, below tests/, a test
    scenarios: tuple[str, ...] = ()
    models: tuple[str, ...] = ("kill", "ordered", "hostile")
    builds: tuple[str, ...] = ()  # extensions; none: the source's own


EACH = ("append, sync each",)
BUGS: dict[str, NativeBug] = {
    "the checksum of a new batch begins a byte late": NativeBug(
        "format/batch_header.pxd",
        "put_u32(at + V2_CRC_POSITION, crc32c(0, at + V2_CRC_START, header.size - V2_CRC_START))",
        "put_u32(at + V2_CRC_POSITION, crc32c(0, at + 22, header.size - 22))",
        "crash-states", EACH, builds=("append/encode",),
    ),
    "recovery checks no checksum": NativeBug(
        "recovery/segment_scan.pyx",
        "if state.check_crc and not crc_matches(chunk, batch):", "if False:",
        "crash-states", ("append, no sync",), ("hostile",),
    ),
    "an old block behind the end is taken for new batches": NativeBug(
        "recovery/segment_scan.pyx", "batch.base_offset <= state.last_offset",
        "batch.base_offset < state.base_offset",
        "crash-states", EACH, ("hostile",),
    ),
    "recovered index entries point behind their batch": NativeBug(
        "recovery/segment_scan.pyx", "put_i32(at + 4, <int32_t>position)",
        "put_i32(at + 4, <int32_t>(position + batch.size))",
        "crash-states", ("append, no sync",),
    ),
    "a batch is published before it is written": NativeBug(
        "append/record_appender.pyx",
        "self._write(buffer.data, buffer.size, NULL, 0)\n"
        "        self._publish(buffer.size, last, buffer.max_timestamp)",
        "self._publish(buffer.size, last, buffer.max_timestamp)\n"
        "        self._write(buffer.data, buffer.size, NULL, 0)",
        "io-errors", EACH,
    ),
    "compaction keeps the oldest of a key": NativeBug(
        "compaction/record_filter.pyx",
        "retain = offset >= found and", "retain = offset < found and",
        "crash-states", ("compaction",), ("kill",),
    ),
    "a sequence does not begin again at 0": NativeBug(
        "append/producer_table.pyx",
        "(0 if last == INT32_MAX else last + 1)", "(<int64_t>last + 1)",
        "unit/producer_state/test_producer_state.py",
    ),
    "a seal skips the leader epoch": NativeBug(
        "recovery/header_checksums.pyx",
        "crc32c(self._crc, data + at, PREFIX)", "crc32c(self._crc, data + at, 12)",
        "unit/segment/test_header_checksums.py",
    ),
}  # fmt: skip

PROGRAM = """
import sys
from torture import planted_native_bugs
sys.exit(planted_native_bugs.try_in_here(sys.argv[1], int(sys.argv[2])))
"""


def copy_sources(base: Path) -> Path:
    """The package with what was built, times kept."""
    shutil.copytree(SOURCES, base / "kstore", ignore=shutil.ignore_patterns("__pycache__"))
    return base / "kstore" / "_native"


def plant(native: Path, bug: NativeBug) -> None:
    path = native / bug.source
    text = path.read_text()
    assert bug.before in text, f"{bug.source} has no longer: {bug.before}"
    path.write_text(text.replace(bug.before, bug.after))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_path("include")
    for name in bug.builds or (bug.source.removesuffix(".pyx"),):
        made = native / f"{name}.c"
        made.unlink(missing_ok=True)
        cython = [sys.executable, "-m", "cython", "-3", "-I", str(native.parents[1])]
        _run([*cython, "-X", CYTHON, str(native / f"{name}.pyx"), "-o", str(made)])
        compiler = shlex.split(os.environ.get("CC", sysconfig.get_config_var("CC") or "cc"))
        to = native / f"{name}{suffix}"
        to.unlink(missing_ok=True)  # not in place: it may be mapped
        flags = [*shlex.split(COMPILE), f"-I{include}", f"-I{native}"]
        _run([*compiler, *flags, str(made), "-o", str(to)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def try_in_here(name: str, seed: int) -> int:
    """Run the part on the kstore of this process; 1 where it found a violation."""
    bug = BUGS[name]
    short = planted_bugs.Bug(nullcontext, bug.part, bug.scenarios, bug.models)
    budget = Budget(LONGEST, seed, until_violation=True)
    found = planted_bugs.SHORT_FORMS[bug.part](budget, short)
    for violation in found.violations[:1]:
        print(violation)
    return int(found.violation_count > 0)


def caught(base: Path, name: str, seed: int = 1) -> bool:
    """Build the bug below base and run its part; raises where the part cannot be run."""
    bug = BUGS[name]
    plant(copy_sources(base), bug)
    path = os.pathsep.join([str(base), str(TESTS)])
    command = [sys.executable, "-c", PROGRAM, name, str(seed)]
    if bug.part.endswith(".py"):
        options = ["-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(TESTS)]
        command = [sys.executable, "-m", "pytest", *options, str(TESTS / bug.part)]
    kept = base / "tmp"  # what a part keeps of its findings goes with the base
    kept.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(kept)}
    done = subprocess.run(command, env=env, cwd=base, capture_output=True, text=True)
    status, output = done.returncode, done.stdout + done.stderr
    assert status <= 1, output
    assert "ImportError" not in output, output
    return status != 0


def plant_all(budget: Budget) -> Figures:
    """Every bug, one after another; a bug that is not caught is a violation."""
    figures = Figures()
    for name, bug in BUGS.items():
        if budget.over:
            figures.violated("not tried in the time:", name)
            continue
        with tempfile.TemporaryDirectory(prefix="kstore-planted-") as base:
            found = caught(Path(base), name, budget.seed)
        figures.counts["planted"] += 1
        figures.counts["caught"] += found
        if not found:
            figures.violated("not caught:", name, "by", bug.part)
    return figures
