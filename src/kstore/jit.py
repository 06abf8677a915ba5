"""Compiled loops over a log's files and columns, by Numba.

``from kstore import jit`` imports numba (and only that does). The functions may be called from
Python and inside a ``numba.njit`` function; the guide "Your own loops" shows how.
"""

from kstore._native.jit import *  # noqa: F403
from kstore._native.jit import __all__ as __all__
