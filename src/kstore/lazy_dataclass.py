"""``@lazy_dataclass``: a dataclass with slots, whose methods are generated at its first use.

``dataclasses.dataclass`` compiles a class's methods, which takes most of a millisecond. A broker's
modules have hundreds of such classes, of which a process uses a few; to compile the methods of all
of them was a third of the processor time of its start.
"""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from inspect import get_annotations
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_origin

Class = TypeVar("Class")

_DATACLASS_ATTRIBUTES = (
    "__dataclass_fields__",
    "__dataclass_params__",
    "__eq__",
    "__hash__",
    "__init__",
    "__match_args__",
    "__repr__",
    *(("__replace__",) if sys.version_info >= (3, 13) else ()),  # of copy.replace
)
# Reentrant: a finalizer or a signal handler may use another class while methods are generated.
_lock = threading.RLock()


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@dataclass_transform(field_specifiers=(field,))
def lazy_dataclass(
    *, frozen: bool = False, kw_only: bool = False
) -> Callable[[type[Class]], type[Class]]:
    """Like ``dataclass(slots=True, ...)``, for a class without bases."""

    def decorate(plain: type[Class]) -> type[Class]:
        return defer(plain, frozen=frozen, kw_only=kw_only)

    return decorate


def defer(plain: type[Class], *, frozen: bool = False, kw_only: bool = False) -> type[Class]:
    """The lazy form of ``dataclass(slots=True, ...)(plain)``."""
    assert plain.__bases__ == (object,), plain
    names = tuple(name for name, kind in get_annotations(plain).items() if not _is_shared(kind))
    omitted = {*names, "__dict__", "__weakref__"}
    body = {name: value for name, value in plain.__dict__.items() if name not in omitted}
    body["__slots__"], body["__qualname__"] = names, plain.__qualname__
    for name in _DATACLASS_ATTRIBUTES:
        body[name] = _LazyAttribute(plain, frozen=frozen, kw_only=kw_only)
    if frozen:
        body |= {
            "__setattr__": _refuse_change,
            "__delattr__": _refuse_deletion,
            "__getstate__": _state,
            "__setstate__": _set_state,
        }
    return type(plain.__name__, (), body)


def _is_shared(kind: object) -> bool:
    """Whether an annotation, perhaps as text, is that of an attribute of the class itself."""
    if isinstance(kind, str):
        return kind.startswith("ClassVar")
    return kind is ClassVar or get_origin(kind) is ClassVar


class _LazyAttribute:
    """Placeholder for a generated attribute of a dataclass; its first use generates all of them."""

    __slots__ = ("_made", "_name", "_options", "_plain")

    def __init__(self, plain: type[Any], **options: bool) -> None:
        self._plain, self._options = plain, options

    def __set_name__(self, made: type[Any], name: str) -> None:
        self._made, self._name = made, name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """``owner`` may be a subclass, even one that overrides the attribute and calls this one."""
        with _lock:
            if self._made.__dict__[self._name] is self:
                made = dataclass(**self._options)(_copy(self._plain))
                for name in _DATACLASS_ATTRIBUTES:
                    setattr(self._made, name, made.__dict__[name])
        found = self._made.__dict__[self._name]
        bind = getattr(type(found), "__get__", None)
        return found if bind is None else bind(found, instance, owner)


def _copy(plain: type[Any]) -> type[Any]:
    """A copy for ``dataclass()``, which changes its argument: one that is interrupted, by Ctrl-C
    or by a lack of memory, is repeated on a class that is as it was."""
    omitted = ("__dict__", "__weakref__")
    body = {name: value for name, value in plain.__dict__.items() if name not in omitted}
    return type(plain.__name__, (), body)


def _refuse_change(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    """What pickle stores: a frozen object refuses that its attributes are set one by one."""
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)
