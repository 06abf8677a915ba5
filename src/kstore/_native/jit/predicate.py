"""Selects rows of columns by a range, or by a user's predicate, in one compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError, TypingError
from numba.extending import is_jitted, overload
from numpy.typing import NDArray

from kstore._native.jit.cache import PredicateCache, compiled, enable_cache, fingerprint
from kstore._native.jit.check_predicate import RESULT, explain, refuse_comparisons
from kstore._native.jit.views import Bytes, part

Int64s = NDArray[np.int64]


class Row(NamedTuple):
    """The argument of a predicate: one record."""

    offset: int
    timestamp: int  # milliseconds
    key: Bytes  # a view of the record's bytes, empty if null; valid only during the call
    value: Bytes
    key_length: int  # -1: null
    value_length: int  # -1: null, a tombstone


@compiled
def rows_between(column: Int64s, start: int, stop: int) -> Any:
    """Rows whose value (a timestamp or offset) is at least ``start`` and below ``stop``.

    Returns int64 row numbers in ascending order; the column need not be sorted.
    """
    rows = np.empty(column.size, np.int64)
    found = 0
    for n in range(column.size):
        rows[found] = n
        found += start <= column[n] < stop
    return rows[:found].copy()


def is_true(result: Any) -> bool:
    """Whether a predicate's result keeps the row; :func:`_is_true` is its compiled variant."""
    return bool(result)


@overload(is_true)
def _is_true(result: Any) -> Any:
    kind = result.type if isinstance(result, types.Optional) else result
    if not isinstance(kind, types.Boolean | types.Number | types.NoneType):
        raise TypingError(f"{RESULT} {kind}")

    def implementation(result: Any) -> Any:
        return result is not None and result != 0  # Numba has no bool() of an optional number

    return implementation


def _loop_over(predicate: Any) -> Any:
    """A scan loop that inlines the predicate."""

    @njit(nogil=True)
    def select(
        offsets: Int64s,
        timestamps: Int64s,
        key_data: Bytes,
        key_positions: Int64s,
        key_lengths: NDArray[np.int32],
        value_data: Bytes,
        value_positions: Int64s,
        value_lengths: NDArray[np.int32],
        rows: Int64s,
    ) -> int:
        found = 0
        for n in range(rows.size):
            key_length = int(key_lengths[n])
            value_length = int(value_lengths[n])
            row = Row(
                offsets[n],
                timestamps[n],
                part(key_data, key_positions[n], key_length),
                part(value_data, value_positions[n], value_length),
                key_length,
                value_length,
            )
            if is_true(predicate(row)):
                rows[found] = n
                found += 1
        return found

    return select


class Predicate:
    """A user's predicate, fused into one loop over columns; see ``compile_predicate``.

    Compiles at the first call, then runs without the GIL; safe to share between threads.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        jitted: Any = function if is_jitted(function) else njit(nogil=True)(function)
        self._code = jitted.py_func.__code__
        refuse_comparisons(self._code)
        self.loop = _loop_over(jitted)
        mark = fingerprint(jitted.py_func)
        if mark is not None and enable_cache(self.loop):
            self.loop._cache = PredicateCache(self.loop.py_func, mark)

    def rows(self, columns: Any) -> Int64s:
        """Row numbers (int64, ascending) of ``Columns`` for which the predicate is true.

        Temporary memory: 8 bytes for each row. Raises ``TypeError`` if the predicate does not
        compile, with Numba's explanation, which is long and not shown, as its ``__context__``,
        and any exception of the predicate.
        """
        offsets = np.asarray(columns.offsets, np.int64)
        arrays = [offsets, np.asarray(columns.timestamps, np.int64)]
        for ragged in (columns.keys, columns.values):
            arrays.append(np.frombuffer(ragged.data, np.uint8))
            arrays.append(np.asarray(ragged.positions, np.int64))
            arrays.append(np.asarray(ragged.lengths, np.int32))
        if any(arrays[n].size != offsets.size for n in (1, 3, 4, 6, 7)):
            raise ValueError("the columns differ in length")
        rows = np.empty(offsets.size, np.int64)
        try:
            found = self.loop(*(np.ascontiguousarray(array) for array in arrays), rows)
        except NumbaError as error:
            reason = explain(error, self._code)
            raise TypeError(f"the predicate cannot be compiled: {reason}") from None
        return rows[:found].copy()


def compile_predicate(function: Callable[[Any], Any]) -> Predicate:
    """Compile a filter from a function of one ``Row`` that returns whether to keep the record.

    ``function`` is a function or lambda in the subset of Python that Numba compiles, or a
    ``numba.njit`` function::

        compile_predicate(lambda row: row.timestamp >= start and equals(row.key, b"alice"))

    Outer variables have their values at compile time. Numba caches the loop across processes if
    the function's outer names are numbers, strings, bytes, modules or jitted functions; else it
    compiles once in each process.

    It returns a bool, a number (0 drops the record), or None, which drops it. At its first use a
    result of another type raises TypeError, such as ``row.key`` itself: bytes have no truth value.

    Raises TypeError for a comparison of ``row.key`` or ``row.value`` by ``==``, ``in`` or ``is``,
    and names :func:`kstore.jit.equals` or what else to write.
    """
    return Predicate(function)
