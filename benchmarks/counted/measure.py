"""The counted process: ``python -m counted.measure HOW DIRECTORY [operation...]``.

HOW is ``instructions`` or ``calls`` (both under valgrind; marks.c reports the start and end of an
operation) or ``memory`` (with counters.c preloaded). Prints one JSON object.
"""

import ctypes
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import counted.broker
import counted.kernels
import counted.paths
import counted.system_calls  # noqa: F401
from counted.operation import OPERATIONS, Action, Operation, Workspace

WARM = 3
# Operations copy paths, too: their length must be constant, so ignore TMPDIR.
DIRECTORY = "/tmp"


def in_turn(
    _: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **named: Any
) -> Future[Any]:
    """Replaces ``submit``: a pool's number of threads depends on the disk's speed."""
    done: Future[Any] = Future()
    try:
        done.set_result(function(*given, **named))
    except Exception as error:
        done.set_exception(error)
    return done


def rounds(action: Action, count: int) -> None:
    for _ in range(count):
        action()


def count_instructions(marks: Any, operation: Operation, action: Action) -> None:
    marks.mark_begin()
    rounds(action, operation.rounds)
    marks.mark_end(operation.name.encode())


def count_calls(marks: Any, operation: Operation, action: Action) -> None:
    marks.mark_calls(operation.name.encode())
    rounds(action, operation.rounds)
    marks.mark_calls(b"-")


def count_memory(counters: Any, operation: Operation, action: Action) -> dict[str, int]:
    found = (ctypes.c_int64 * 4)()
    counters.counters_start()
    rounds(action, operation.rounds)
    counters.counters_stop(found)
    return dict(zip(("allocations", "allocated", "copies", "copied"), found, strict=True))


def count_bytecodes(action: Action, count: int) -> int:
    """Number of bytecodes that the interpreter executes, in all Python modules."""
    executed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal executed
        if event == "opcode":
            executed += 1
        else:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace

    sys.settrace(trace)
    try:
        rounds(action, count)
    finally:
        sys.settrace(None)
    return executed


def measure(how: str, library: Any, operation: Operation) -> dict[str, int]:
    """Set up the operation in a new directory, warm up, count, and check the result."""
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="kstore-counted-", dir=DIRECTORY) as base:
        workspace = Workspace(Path(base))
        with workspace.stack:
            action, expected = operation.make(workspace)
            rounds(action, WARM)
            gc.collect()
            if how == "instructions":
                count_instructions(library, operation, action)
            elif how == "calls":
                count_calls(library, operation, action)
            else:
                found = count_memory(library, operation, action)
                found["bytecodes"] = count_bytecodes(action, operation.rounds)
            result = action()
            if result != expected:
                raise AssertionError(f"{operation.name}: {result!r} instead of {expected!r}")
    return found


def main(how: str, library: str, names: Iterable[str]) -> None:
    ThreadPoolExecutor.submit = in_turn  # type: ignore[method-assign]
    gc.disable()  # its timing depends on imports
    loaded = ctypes.PyDLL(library)
    found = {name: measure(how, loaded, OPERATIONS[name]) for name in names}
    json.dump(found, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # do not count the exit of the process


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
