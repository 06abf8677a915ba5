"""How classes and modules answer names that they lack: the error says what to use instead.

The names and their answers are in :mod:`kstore.hints.kafka_names`.
"""

from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # not typing's: `import kstore` does without it
if TYPE_CHECKING:
    from types import FrameType
    from typing import Never


class _Answer:
    """An attribute that a class has not: an AttributeError that names kstore's call.

    It is set on the class, because a class with ``__getattr__`` finds every attribute by a slower
    way: an append took 27 % more instructions. The error has no ``name``, from which Python would
    suggest an attribute that looks alike.
    """

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __repr__(self) -> str:
        """What ``help`` of the class shows behind the name."""
        return f"<not in kstore: {self._instead}>"

    def __get__(self, owner: object, _: type) -> "_Answer":
        if owner is None:
            return self
        sentence = f"{type(owner).__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(f"{sentence}: {self._instead}", obj=owner)


def answer_names(owner: type, instead: Mapping[str, str]) -> None:
    """Let the instances of a class answer guessed names: which call to use instead.

    ``dir`` of an instance leaves these names out.
    """
    for name, call in instead.items():
        setattr(owner, name, _Answer(name, call))
    setattr(owner, "__dir__", _names_without_answers)  # noqa: B010


def _names_without_answers(owner: object) -> list[str]:
    members = type(owner)
    return [name for name in object.__dir__(owner) if not is_answer(getattr(members, name, None))]


def is_answer(member: object) -> bool:
    """Whether a member of a class only answers a guessed name."""
    return isinstance(member, _Answer)


def missing_of_module(
    module: str, name: str, instead: str | None, caller: "FrameType"
) -> AttributeError | ImportError:
    """The error of a module's ``__getattr__`` for a name that it has not.

    ``from module import`` hides the text of an AttributeError, so there it is an ImportError:
    ``caller`` is the frame that called ``__getattr__``.
    """
    sentence = f"module {module!r} has no attribute {name!r}"
    if not instead:
        return AttributeError(sentence)
    if _is_import_from(caller):  # hasattr() passes on all other errors
        return ImportError(f"{module} has no {name!r}: {instead}", name=module)
    # With obj Python adds no name that looks alike, which need not be the right one.
    return AttributeError(f"{sentence}: {instead}", obj=module)


def _is_import_from(caller: "FrameType") -> bool:
    """Whether a frame runs ``from module import``: importlib for a package, the program itself."""
    from opcode import opmap

    code = caller.f_code
    return (
        code.co_name == "_handle_fromlist" or code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]
    )


def no_asyncio(instead: str, what: str = "") -> "Callable[..., Never]":
    """A method in the name of ``__aenter__`` or ``__aiter__`` that raises TypeError.

    ``what`` is for threads: by default an object of the method's class.
    """

    def refuse(owner: object, *_: object) -> "Never":
        raise TypeError(f"{what or f'a {type(owner).__name__}'} is for threads: {instead}")

    return refuse
