"""Explains a type of argument that compiled functions do not take."""

from typing import Any, Never

from numba.extending import typeof_impl


def refuse_type(kind: type, text: str) -> None:
    """Let compiled functions that get an instance of kind raise TypeError with text.

    Numba's own hook, not a ``_numba_type_`` that raises: CPython 3.13 prints that error before
    Numba sees it.
    """

    @typeof_impl.register(kind)  # type: ignore[untyped-decorator, unused-ignore]
    def refuse(value: Any, context: Any) -> Never:
        raise TypeError(text)
