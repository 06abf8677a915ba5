"""Compiled loops over a log's files and columns, by Numba.

``from kstore import jit`` imports numba (and only that does). The functions may be called from
Python and inside a ``numba.njit`` function; the guide "Your own loops" shows how.
"""

from kstore._native.jit import *  # noqa: F403
from kstore._native.jit import __all__ as __all__


def __getattr__(name: str) -> object:
    """Name the function that a guessed one stands for."""
    import sys

    from kstore.kafka_names import OF_JIT, missing_of_module

    raise missing_of_module("kstore.jit", name, OF_JIT.get(name), sys._getframe(1))
