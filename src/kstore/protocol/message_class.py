"""``@message_class``: the dataclass of a Kafka message, whose methods are generated at its first
use."""

from dataclasses import field
from typing import TypeVar, dataclass_transform

from kstore.lazy_dataclass import defer

Class = TypeVar("Class")


@dataclass_transform(field_specifiers=(field,))
def message_class(plain: type[Class]) -> type[Class]:
    """Like ``dataclass(slots=True)``, for a class without bases."""
    return defer(plain)
