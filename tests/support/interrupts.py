"""Raises an exception at the n-th line that chosen modules execute, like an interrupt.

It counts lines, not bytecodes, since a signal handler or a failed allocation interrupts calls, and
each call is on a line. It skips lines without calls where no exception can occur: the end of a
``with`` block (the interpreter checks for signals before it, not between the end of the block and
the release of a lock), the keyword ``try``, and, in a ``finally``, assignments without a call and
releases of locks.
"""

import ast
import sys
from collections.abc import Callable
from functools import cache
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any


@cache
def _lines(path: str) -> tuple[frozenset[int], frozenset[int]]:
    """(lines where a with statement starts, lines where nothing can be raised)"""
    withs, quiet = set(), set()
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.With):
            withs.add(node.lineno)
        if isinstance(node, ast.Try):
            quiet.add(node.lineno)
            for line in node.finalbody:
                calls = any(isinstance(inner, ast.Call) for inner in ast.walk(line))
                releases = ast.unparse(line).endswith(".release()")
                if releases or (isinstance(line, ast.Assign | ast.AugAssign) and not calls):
                    quiet.add(line.lineno)
    return frozenset(withs), frozenset(quiet)


class Interrupt:
    """A context in which the n-th line event inside ``modules`` raises; n < 0 only counts."""

    def __init__(
        self,
        modules: list[ModuleType],
        at: int = -1,
        error: Callable[[], BaseException] = KeyboardInterrupt,
    ) -> None:
        self._paths = {str(module.__file__) for module in modules}
        self._at = at
        self._error = error
        self._open: dict[FrameType, set[int]] = {}
        self.count = 0
        self.where = ""

    def __enter__(self) -> "Interrupt":
        sys.settrace(self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(None)
        self._open.clear()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        # a generator being closed would swallow the exception
        if frame.f_code.co_flags & CO_GENERATOR:
            return None
        return self._line if frame.f_code.co_filename in self._paths else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line":
            return self._line
        path, line = frame.f_code.co_filename, frame.f_lineno
        withs, quiet = _lines(path)
        if line in quiet:
            return self._line
        if line in withs:
            entered = self._open.setdefault(frame, set())
            if line in entered:
                entered.remove(line)
                return self._line
            entered.add(line)
        number = self.count
        self.count += 1
        if number == self._at:
            self.where = f"{Path(path).name}:{line}"
            raise self._error()
        return self._line
