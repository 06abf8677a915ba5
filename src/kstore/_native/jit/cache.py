"""Caches machine code across processes: of the functions here, and of a fused predicate.

Numba keys a cached closure by the pickled contents of its cells; a jitted function pickles
differently in every process, so its cache would never hit. Here the key is the predicate's code
and the values of the names it uses.
"""

from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.extending import is_jitted

_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def compiled(function: Any) -> Any:
    """``numba.njit`` without the GIL, cached on disk where a directory for that is writable."""
    found = njit(nogil=True)(function)
    enable_cache(found)
    return found


def enable_cache(function: Any) -> bool:
    """Cache a jitted function on disk, and return True; False if no directory can be written.

    Numba looks for ``NUMBA_CACHE_DIR``, the directory of the source, and the user's cache. A
    service may have none of them: a read-only installation, and no home. Each process compiles
    its functions then, which takes seconds.
    """
    try:
        function.enable_caching()
    except RuntimeError:  # "cannot cache function ...: no locator available"
        return False
    return True


def _code(code: CodeType) -> list[object]:
    parts: list[object] = [code.co_code, code.co_names, code.co_varnames, code.co_freevars]
    for constant in code.co_consts:
        parts.append(_code(constant) if isinstance(constant, CodeType) else repr(constant))
    return parts


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _value(value: Any, seen: set[int]) -> object:
    """A value's contribution to the key; None if it has no identity by value."""
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if isinstance(value, ModuleType):
        return ("module", value.__name__, str(getattr(value, "__version__", "")))
    if isinstance(value, (BuiltinFunctionType, type)):
        return ("builtin", value.__module__, value.__qualname__)
    if is_jitted(value):
        return _function(value.py_func, seen)
    if isinstance(value, tuple):
        parts = [_value(item, seen) for item in value]
        return None if None in parts else ("tuple", parts)
    return None


def _function(function: FunctionType, seen: set[int]) -> object:
    if id(function) in seen:
        return "itself"
    seen.add(id(function))
    parts: list[object] = [_code(function.__code__), repr(function.__defaults__)]
    outer: dict[str, object] = {
        name: function.__globals__[name]
        for name in sorted(_names(function.__code__))
        if name in function.__globals__
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        outer[name] = cell.cell_contents
    for name, value in outer.items():
        part = _value(value, seen)
        if part is None:
            return None
        parts.append((name, part))
    return parts


def fingerprint(function: FunctionType) -> str | None:
    """A key for what a function computes; None if it has none."""
    parts = _function(function, set())
    return None if parts is None else sha256(repr(parts).encode()).hexdigest()


class PredicateCache(FunctionCache):
    """Numba's cache of one function, keyed by a predicate's fingerprint instead of its pickle."""

    def __init__(self, function: Any, mark: str) -> None:
        super().__init__(function)
        self._mark = mark

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The cached code; None, so that Numba compiles again, if its module does not exist."""
        try:
            return super().load_overload(sig, target_context)
        except ImportError:  # a predicate from exec, or from a script that was moved
            return None

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        code = sha256(self._py_func.__code__.co_code).hexdigest()
        return (signature, codegen.magic_tuple(), (code, self._mark))
