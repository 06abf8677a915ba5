"""Compiled loops over a log's files and columns, by Numba.

``from kstore import jit`` imports numba (and only that does). The functions may be called from
Python and inside a ``numba.njit`` function; the guide "Your own loops" shows how.
"""

from kstore._native.jit import *  # noqa: F403
from kstore._native.jit import __all__ as __all__
from kstore._native.jit.refused_type import refuse_type as _refuse_type
from kstore.record.columns import Ragged as _Ragged
from kstore.record.guessed_names import IN_A_PREDICATE as _IN_A_PREDICATE

_refuse_type(_Ragged, f"compiled functions take one row, not a Ragged: {_IN_A_PREDICATE}")

_GUESSED = {
    **dict.fromkeys(("prefix", "startswith"), "use starts_with(row.value, b'...')"),
    **dict.fromkeys(("endswith", "ends_with"), "use equals(row.value[-3:], b'...')"),
    **dict.fromkeys(("eq", "equal", "is_equal"), "use equals(row.key, b'...')"),
    **dict.fromkeys(("find", "has", "search"), "use contains(row.value, b'...')"),
    **dict.fromkeys(("compile", "predicate"), "use compile_predicate(), or scan(where=...)"),
}


def __getattr__(name: str) -> object:
    """Name the function that a guessed one stands for."""
    import sys

    from kstore.hints.missing_names import missing_of_module

    raise missing_of_module("kstore.jit", name, _GUESSED.get(name), sys._getframe(1))
