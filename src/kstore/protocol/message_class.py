"""``@message_class``: a dataclass with slots, whose methods are generated at its first use.

``dataclasses.dataclass`` compiles a class's methods, which takes most of a millisecond. Kafka's
messages have 310 classes, of which a process uses a few; to compile the methods of all of them was
a third of the processor time of a broker's start.
"""

import threading
from dataclasses import dataclass, field
from inspect import get_annotations
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class")

_DATACLASS_ATTRIBUTES = (
    "__dataclass_fields__",
    "__dataclass_params__",
    "__eq__",
    "__hash__",
    "__init__",
    "__match_args__",
    "__repr__",
)
_lock = threading.Lock()  # held while methods are generated: dataclass() changes its argument


@dataclass_transform(field_specifiers=(field,))
def message_class(plain: type[Class]) -> type[Class]:
    """Like ``dataclass(slots=True)``, for a class without bases whose annotations are strings."""
    kinds = get_annotations(plain)
    names = tuple(name for name, kind in kinds.items() if not kind.startswith("ClassVar"))
    omitted = {*names, "__dict__", "__weakref__"}
    body = {name: value for name, value in plain.__dict__.items() if name not in omitted}
    body["__slots__"] = names
    for name in _DATACLASS_ATTRIBUTES:
        body[name] = _LazyAttribute(plain)
    return type(plain.__name__, (), body)


class _LazyAttribute:
    """Placeholder for a generated attribute of a dataclass; its first use generates all of them."""

    __slots__ = ("_made", "_name", "_plain")

    def __init__(self, plain: type[Any]) -> None:
        self._plain = plain

    def __set_name__(self, made: type[Any], name: str) -> None:
        self._made, self._name = made, name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """``owner`` may be a subclass, even one that overrides the attribute and calls this one."""
        with _lock:
            if self._made.__dict__[self._name] is self:
                made = dataclass(self._plain)
                for name in _DATACLASS_ATTRIBUTES:
                    setattr(self._made, name, made.__dict__[name])
        found = self._made.__dict__[self._name]
        bind = getattr(type(found), "__get__", None)
        return found if bind is None else bind(found, instance, owner)
