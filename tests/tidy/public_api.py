"""The public face of kstore as text: every name reachable from ``kstore.__all__``, signed.

Run as a script it rewrites ``public_api.txt``; ``test_public_api`` compares with that file.
"""

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from kstore.hints.missing_names import is_answer
from kstore.log.guessed_names import GuessedNames

LIST = Path(__file__).with_name("public_api.txt")


def describe() -> str:
    """One line a name, sorted within its owner."""
    import kstore

    lines: list[str] = []
    for name in sorted(kstore.__all__):
        lines += describe_value(f"kstore.{name}", getattr(kstore, name))
    return "\n".join(lines) + "\n"


def describe_value(name: str, value: object) -> Iterator[str]:
    if isinstance(value, ModuleType) and callable(value):
        yield f"def {name}{signature(value)}"
    elif isinstance(value, ModuleType):
        for inner, member in sorted(vars(value).items()):
            if getattr(member, "__module__", None) == value.__name__ and inner[0] != "_":
                yield from describe_value(f"{name}.{inner}", member)
    elif isinstance(value, type):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        if not issubclass(value, Exception):
            yield from describe_class(name, value)
    elif callable(value):
        yield f"def {name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def describe_class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, enum.Enum):
        yield from (f"{name}.{member}" for member in value.__members__)
        return
    private = (base for base in reversed(value.__mro__) if is_unnamed(base))
    getattr(value, "__dataclass_fields__", None)  # generates the methods of a lazy dataclass
    members = {inner: member for base in (*private, value) for inner, member in vars(base).items()}
    if "__init__" in members:
        yield f"def {name}.__init__{signature(members['__init__'])}"
    for inner, member in sorted(members.items()):
        special = inner in SPECIAL
        if (inner.startswith("_") and not special) or is_answer(member):
            continue
        target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(target, property) or not callable(target):
            yield f"{name}.{inner}"
        elif special:
            yield f"def {name}.{inner}"
        else:
            yield f"def {name}.{inner}{signature(target)}"


def is_unnamed(base: type) -> bool:
    """Whether a class of kstore is visible to users only through the public classes that extend
    it."""
    import kstore

    home = base.__module__
    is_named = base.__name__ in kstore.__all__ or home == GuessedNames.__module__
    return home.startswith("kstore.") and not is_named


SPECIAL = {
    "__aiter__",
    "__contains__",
    "__enter__",
    "__aenter__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
}


def signature(value: object) -> str:
    """Parameters with their kinds and whether they have a default, as one line of text."""
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return "(...)"
    parts = []
    star = False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        if parameter.default is not parameter.empty:
            plain = isinstance(parameter.default, int | str | bytes | float | None | tuple)
            text += f"={parameter.default!r}" if plain else "=..."
        parts.append(text)
    return f"({', '.join(parts)})"


if __name__ == "__main__":
    LIST.write_text(describe())
    print(f"wrote {LIST}")
