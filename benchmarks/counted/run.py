"""Runs operations in separate processes and parses the output of valgrind and the counters."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Paths that valgrind supports, slowest first; it does not support AVX-512.
PATHS = ("table", "sse42", "pclmul", "avx2")
BEST = PATHS[-1]
LONGEST = 600  # seconds for one process, on a busy machine too
# No system calls outside of valgrind (vDSO), or memory and threads instead of files. mincore is
# repeated by the clock, once a second (tests/unit/native/test_walks_without_gil.py counts it).
NO_CALLS = re.compile(
    r"clock_\w+|gettimeofday|time|getcpu|brk|munmap|mremap|madvise|mprotect|mincore|futex|rt_sig\w+"
    r"|clone3?|gettid|set_robust_list|rseq|exit|sched_\w+|getrandom"
)
MOVES = re.compile(r"p?(read|write)(64|v|v2)?|sendfile|copy_file_range|splice")

_CALL = re.compile(r"SYSCALL\[\d+,(\d+)\]\( *\d+\) (?:sys|__NR)_(\w+)[^(]*\((.*)")
_RESULT = re.compile(r"(?:Success\(0x([0-9a-f]+)\)|Failure)")
_MARK = re.compile(r"\*\*\d+\*\* mark (.*)")

Counts = dict[str, Any]  # of one operation: see docs/testing.md
Found = dict[str, Counts]


class MissingToolError(Exception):
    """A tool for counting is missing; the text says what to install."""


def check_tools() -> None:
    if os.uname().machine != "x86_64":
        raise MissingToolError("instructions are counted on x86-64 only: the baseline is of it")
    if shutil.which("valgrind") is None:
        raise MissingToolError("valgrind is missing. On Debian: apt-get install valgrind")


def build(directory: Path) -> tuple[Path, Path]:
    """Compile the two small libraries: marks for valgrind, counters in front of libc."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    made = []
    for name in ("marks", "counters"):
        made.append(directory / f"{name}.so")
        flags = ["-O2", "-shared", "-fPIC", "-fno-builtin", "-fno-tree-loop-distribute-patterns"]
        _run([*compiler, *flags, "-o", str(made[-1]), str(HERE / f"{name}.c")], os.environ)
    return made[0], made[1]


def _run(command: Sequence[str], environment: Any, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=LONGEST
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def environment(package: Path | None, path: str) -> dict[str, str]:
    """A constant environment; package: the directory of kstore, if not the imported one."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    first = [str(package)] if package else []
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join([*first, str(HERE.parent), *filter(None, sys.path)]),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "KSTORE_CPU": path,
    }


class Counting:
    """Counts with one build of the libraries; a context manager."""

    def __init__(self, package: Path | None = None) -> None:
        check_tools()
        self._package = package
        self._kept = tempfile.TemporaryDirectory(prefix="kstore-counting-")
        self._base = Path(self._kept.name)
        self._marks, self._counters = build(self._base)

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.cleanup()

    def _python(self, how: str, library: Path, names: Iterable[str]) -> list[str]:
        return [sys.executable, "-m", "counted.measure", how, str(library), *names]

    def dumps(self, names: Sequence[str], path: str, *, lines: bool = False) -> dict[str, Path]:
        """Callgrind's dump of each operation; deleted with this object."""
        directory = Path(tempfile.mkdtemp(dir=self._base))
        command = [
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--compress-pos=no"),
            f"--dump-line={'yes' if lines else 'no'}",
            f"--callgrind-out-file={directory / 'callgrind'}",
            f"--log-file={directory / 'log'}",
            *self._python("instructions", self._marks, names),
        ]
        _run(command, environment(self._package, path))
        found = {trigger(dump): dump for dump in sorted(directory.glob("callgrind.*"))}
        if missing := set(names) - found.keys():
            raise RuntimeError(f"callgrind left no dump of {', '.join(missing)}")
        return found

    def instructions(self, names: Sequence[str], path: str) -> dict[str, dict[str, int]]:
        """Of each operation: how many in each object file, named by its module or ``other``."""
        return {name: read_dump(dump) for name, dump in self.dumps(names, path).items()}

    def calls(self, names: Sequence[str]) -> dict[str, tuple[Counter[str], int]]:
        """Of each operation: its system calls by name, and the bytes that they moved."""
        log = self._base / "calls"
        tracer = ["valgrind", "--tool=none", "--trace-syscalls=yes", f"--log-file={log}"]
        _run(
            [*tracer, *self._python("calls", self._marks, names)],
            environment(self._package, BEST),
        )
        return read_calls(log.read_text(errors="replace").splitlines())

    def memory(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Of each operation: allocations, copies of 64 bytes and more, bytecodes."""
        given = environment(self._package, BEST)
        given |= {"LD_PRELOAD": str(self._counters), "PYTHONMALLOC": "malloc"}
        found: dict[str, dict[str, int]] = json.loads(
            _run(self._python("memory", self._counters, names), given)
        )
        return found

    def count(
        self,
        names: Sequence[str],
        paths: Sequence[str] = PATHS,
        measures: Set[str] = frozenset(("instructions", "calls", "memory")),
    ) -> Found:
        """What is asked for of each operation, two processes at a time."""
        from counted.operation import OPERATIONS

        by_path = [name for name in names if OPERATIONS[name].by_path]
        with ThreadPoolExecutor(2) as pool:
            instructions = {
                path: pool.submit(self.instructions, names if path == BEST else by_path, path)
                for path in reversed(PATHS)
                if "instructions" in measures and path in paths and (path == BEST or by_path)
            }
            calls = pool.submit(self.calls, names) if "calls" in measures else None
            memory = pool.submit(self.memory, names) if "memory" in measures else None
            found: Found = {name: {} for name in names}
            for name, counts in found.items():
                rounds = OPERATIONS[name].rounds
                of_path = {path: each.result().get(name) for path, each in instructions.items()}
                counts |= _instructions(rounds, {p: of for p, of in of_path.items() if of})
                counts |= _calls(rounds, *calls.result()[name]) if calls else {}
                counts |= _memory(rounds, memory.result()[name]) if memory else {}
        return found


def _each(number: int, rounds: int) -> float:
    return round(number / rounds, 2)


def _instructions(rounds: int, counted: dict[str, dict[str, int]]) -> Counts:
    """By path, in kstore's modules; and by the best path, with everybody's else."""
    if not counted:
        return {}
    of_modules = {
        path: {name: _each(count, rounds) for name, count in sorted(of.items()) if name != "other"}
        for path, of in counted.items()
    }
    return {
        "instructions": {path: round(sum(of.values()), 2) for path, of in of_modules.items()},
        "with_python": _each(sum(counted[BEST].values()), rounds),
        "modules": of_modules[BEST],
    }


def _calls(rounds: int, calls: Counter[str], moved: int) -> Counts:
    return {
        "moved": _each(moved, rounds),
        "calls": {name: _each(count, rounds) for name, count in sorted(calls.items())},
    }


def _memory(rounds: int, counted: dict[str, int]) -> Counts:
    kinds = ("bytecodes", "allocations", "copied")
    return {kind: _each(counted[kind], rounds) for kind in kinds}


_TRIGGER = "desc: Trigger: Client Request: "


def trigger(path: Path) -> str:
    """The name of the operation of a dump; empty for the last one, at the end of the process."""
    with path.open(errors="replace") as file:
        for line in file:
            if line.startswith(_TRIGGER):
                return line.removeprefix(_TRIGGER).rstrip("\n")
    return ""


def read_dump(path: Path) -> dict[str, int]:
    """Instructions of each module of kstore, from callgrind's dump."""
    names: dict[str, str] = {}
    found: dict[str, int] = defaultdict(int)
    module = ""
    called = False
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith(("ob=", "cob=")):
            number, _, name = line.partition("=")[2].partition(" ")
            if name:
                names[number] = module_of(name)
            if line.startswith("ob="):
                module = names[number]
        elif line.startswith("calls="):
            called = True  # the next line is the cost of the callee
        elif line[:1].isdigit():
            if not called:
                found[module] += int(line.split()[1])
            called = False
    return dict(found)


def module_of(path: str) -> str:
    """The module of an object file: for example ``decode`` for a kernel, else ``other``."""
    parts = Path(path).parts
    return parts[-1].partition(".")[0] if parts[-4:-2] == ("kstore", "_native") else "other"


def read_calls(lines: Iterable[str]) -> dict[str, tuple[Counter[str], int]]:
    """From valgrind's trace: the system calls after each mark, and the bytes they moved."""
    found: dict[str, tuple[Counter[str], int]] = {}
    for name, group in _marked(lines):
        calls: Counter[str] = Counter()
        moved = 0
        waiting: dict[str, str] = {}
        for line in group:
            if call := _CALL.match(line):
                thread, called, rest = call.groups()
                called = _named(called, rest)
                if called:
                    calls[called] += 1
                waiting[thread] = called
            elif line.startswith("SYSCALL["):
                thread, rest = line.partition(",")[2].partition("]")[0], line
            else:
                continue
            if (result := _RESULT.search(rest)) and MOVES.fullmatch(waiting.get(thread, "")):
                moved += int(result[1] or "0", 16)
        found[name] = calls, moved
    return found


def _named(name: str, arguments: str) -> str:
    """The call's name; empty if it is not counted, such as an anonymous mmap."""
    if NO_CALLS.fullmatch(name):
        return ""
    if name == "mmap":
        parts = arguments.partition(")")[0].split(",")
        return "" if int(parts[4], 0) in (-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) else name
    return name


def _marked(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    name, group = "-", []
    for line in lines:
        if mark := _MARK.match(line):
            if name != "-":
                yield name, group
            name, group = mark[1], []
        elif name != "-":
            group.append(line)
