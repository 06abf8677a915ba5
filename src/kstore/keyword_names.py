"""Keyword arguments that callers guess: the error says what to write instead."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def explain_keywords(**instead: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a method so that keywords it lacks raise a TypeError which names kstore's.

    Each call costs a check of the keywords: not for methods of a record's path.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            for name in keywords:
                if name in instead:
                    raise TypeError(f"{method.__name__}() has no {name}=: {instead[name]}")
            return method(*args, **keywords)

        return call

    return decorate
