"""The counted process: ``python -m counted.measure HOW DIRECTORY [operation...]``.

HOW is ``instructions`` or ``calls`` (both under valgrind, to which marks.c reports where an
operation begins and ends) or ``memory`` (behind counters.c). Prints one JSON object.
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

import counted.kernels
import counted.paths  # noqa: F401
from counted.operation import OPERATIONS, Action, Operation, Place

WARM = 3
# Paths are copied too: their length must be the same everywhere, whatever TMPDIR says.
ROOM = "/tmp"


def in_turn(
    _: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **named: Any
) -> Future[Any]:
    """In place of ``submit``: how many threads a pool starts hangs on how slow the disk is."""
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
    """How many bytecodes the interpreter runs, in whichever Python module."""
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
    """Make the operation in a directory of its own, warm it, count it, check it."""
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="kstore-counted-", dir=ROOM) as base:
        place = Place(Path(base))
        with place.stack:
            action, expected = operation.make(place)
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
    gc.disable()  # when it runs depends on what was imported
    loaded = ctypes.PyDLL(library)
    found = {name: measure(how, loaded, OPERATIONS[name]) for name in names}
    json.dump(found, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the exit of the process belongs to no operation


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
