"""Slowdowns planted in a copy of kstore, to verify that the counts detect them.

Each increases one kind of count of one operation; kernels are rebuilt with setup.py's flags. The
counts are compared with those of an unchanged copy, built and counted in the same environment, so
strict bounds apply for any baseline. The unchanged copy must have the counts of kstore itself.
"""

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import kstore
from counted import baseline
from counted.run import BEST, Counting, Found

SOURCES = Path(kstore.__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[2]


class Slowdown(NamedTuple):
    source: str  # in kstore
    before: str
    after: str
    operation: str
    kind: str  # of what is counted
    build: str = ""  # the extension to rebuild


SLOWDOWNS: dict[str, Slowdown] = {
    "a checksum reads half of its bytes twice": Slowdown(
        "_native/format/crc.h",
        "    return ~crc32c_pclmul_state(",
        "    volatile uint32_t twice = crc32c_pclmul_state(&crc_castagnoli, 0, data, size / 2);\n"
        "    (void)twice;\n"
        "    return ~crc32c_pclmul_state(",
        "crc32c of 65536 bytes", "instructions", "format/crc",
    ),
    "an append encodes its record twice": Slowdown(
        "_native/append/record_appender.pyx",
        "        to.buffer.put(value, key, headers, to._timestamp(timestamp))\n",
        "        to.buffer.put(value, key, headers, to._timestamp(timestamp))\n"
        "        to.buffer.reset()\n"
        "        to.buffer.put(value, key, headers, to._timestamp(timestamp))\n",
        "append one record", "instructions", "append/record_appender",
    ),
    "a read looks for its segment twice": Slowdown(
        "log/writable_log.py",
        "            return self._state.segments.read(offset, max_bytes, up_to, min_one_batch)\n",
        "            self._state.segments.read(offset, max_bytes, up_to, min_one_batch)\n"
        "            return self._state.segments.read(offset, max_bytes, up_to, min_one_batch)\n",
        "read a slice at an offset", "bytecodes",
    ),
    "a view copies what it reads": Slowdown(
        "log/view.py",
        "            yield from scan_records(data, ",
        "            len(bytes(data))\n            yield from scan_records(data, ",
        "iterate a view", "copied",
    ),
    "an object more for each record": Slowdown(
        "log/view.py",
        "            yield from scan_records(data, **self._options("
        "data, offset, stop, mark, check_crc))",
        "            options = self._options(data, offset, stop, mark, check_crc)\n"
        "            for each in scan_records(data, **options):\n"
        "                yield (each, object())[0]",
        "iterate a view", "allocations",
    ),
    "a flush asks for the file's size": Slowdown(
        "log/flush.py",
        "                base = opened.base_offset\n",
        "                base = opened.base_offset\n                state.files.size(fd)\n",
        "append one record and flush", "calls",
    ),
    "a flush reads another file": Slowdown(
        "log/flush.py",
        "                base = opened.base_offset\n",
        "                base = opened.base_offset\n"
        "                open(__file__, 'rb', 0).read(100)\n",
        "append one record and flush", "moved",
    ),
    "a read does something long in few bytecodes": Slowdown(
        "log/writable_log.py",
        "            return self._state.segments.read(offset, max_bytes, up_to, min_one_batch)\n",
        "            sum(range(256))\n"
        "            return self._state.segments.read(offset, max_bytes, up_to, min_one_batch)\n",
        "read a slice at an offset", "with_python",
    ),
}  # fmt: skip
MEASURED_BY = {
    "bytecodes": "memory",
    "copied": "memory",
    "allocations": "memory",
    "moved": "calls",
    "with_python": "instructions",
}


def compile_flags() -> list[str]:
    """setup.py's own, for a compiler called without it."""
    with (
        mock.patch("setuptools.setup"),
        mock.patch("Cython.Build.cythonize"),
        mock.patch.object(os, "environ", {}),
    ):
        made = runpy.run_path(str(ROOT / "setup.py"))
    flags: list[str] = made["compile_flags"]()
    return [*flags, *made["link_flags"]()]


def copy_sources(base: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.c")
    shutil.copytree(SOURCES, base / "kstore", ignore=ignored)
    return base / "kstore"


def build(package: Path, name: str) -> None:
    """Rebuild one extension of the copy in place."""
    native = package / "_native"
    source, made = native / f"{name}.pyx", native / f"{name}.c"
    directives = "boundscheck=True,wraparound=False,cdivision=True,embedsignature=False"
    cython = [sys.executable, "-m", "cython", "-3", "-I", str(package.parent), "-X", directives]
    _run([*cython, str(source), "-o", str(made)])
    target = native / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    target.unlink()
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    given = shlex.split(sysconfig.get_config_var("CFLAGS") or "")
    include = [f"-I{sysconfig.get_path('include')}", f"-I{native}"]
    shared = ["-shared", "-fPIC", "-o", str(target)]
    _run([*compiler, *given, *compile_flags(), *include, str(made), *shared])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stderr}")


def plant(package: Path, slowdown: Slowdown) -> None:
    path = package / slowdown.source
    text = path.read_text()
    if slowdown.before not in text:
        raise AssertionError(f"{slowdown.source} has no longer: {slowdown.before}")
    path.write_text(text.replace(slowdown.before, slowdown.after))
    if slowdown.build:
        build(package, slowdown.build)


def count(package: Path, operations: list[str], kinds: set[str]) -> Found:
    """The counts of a copy. Kinds as the baseline names them."""
    with Counting(package.parent) as counting:
        return counting.count(
            operations, paths=(BEST,), measures={MEASURED_BY.get(kind, kind) for kind in kinds}
        )


def differences(before: Found, now: Found) -> dict[str, list[str]]:
    """Differences between two counts of one environment, by operation; empty: none."""
    differing = {
        name: baseline.differences(before[name], now[name], baseline.BOUNDS) for name in now
    }
    return {name: lines for name, lines in differing.items() if lines}


def untouched(base: Path) -> Found:
    """A copy without a slowdown, with rebuilt kernels: each slowdown is compared with it."""
    package = copy_sources(base)
    for name in sorted({each.build for each in SLOWDOWNS.values() if each.build}):
        build(package, name)
    operations = sorted({each.operation for each in SLOWDOWNS.values()})
    return count(package, operations, {each.kind for each in SLOWDOWNS.values()})


def caught(base: Path, name: str, before: Found) -> list[str]:
    """Plant a slowdown below base; what the guard says of its operation."""
    slowdown = SLOWDOWNS[name]
    package = copy_sources(base)
    plant(package, slowdown)
    now = count(package, [slowdown.operation], {slowdown.kind})
    return differences(before, now).get(slowdown.operation, [])
