"""The public kernels of the compiled half, and which of them were called."""

import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kstore import _native

NATIVE = Path(_native.__path__[0])


def public() -> set[str]:
    """Every function and class of the compiled half, as ``module.name`` (``jit.name``)."""
    found = set()
    for stub in NATIVE.rglob("*.pyi"):
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.add(f"{stub.stem}.{node.name}")
    return found | {f"jit.{name}" for name in _exported(NATIVE / "jit" / "__init__.py")}


def _exported(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise AssertionError(f"{path} has no __all__")


def named_in(path: Path, module: str) -> set[str]:
    """What a source file says of a module: the names in ``module.name``."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module
    }


class _Seen:
    """Stands for a kernel wherever Python knows it by name; notes that it is called."""

    def __init__(self, name: str, kernel: Any, seen: set[str]) -> None:
        self.__dict__.update(_name=name, _kernel=kernel, _seen=seen)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._seen.add(self._name)
        return self._kernel(*arguments, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a function does: a log's methods are kernels."""
        return self if instance is None else partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __instancecheck__(self, thing: object) -> bool:
        return isinstance(thing, self._kernel)

    def __or__(self, other: Any) -> Any:
        return self._kernel | other

    __ror__ = __or__


@contextmanager
def seen() -> Iterator[set[str]]:
    """The kernels that are called from Python within, in this process; classes: that are made.

    Not those that numba has: they are called from compiled code.
    """
    called: set[str] = set()
    stand_ins: dict[int, _Seen] = {}
    for path in sorted(NATIVE.rglob("*.pyi")):
        name = path.stem
        module = importlib.import_module(f"kstore._native.{path.parent.name}.{name}")
        for attribute, kernel in vars(module).items():
            own = getattr(kernel, "__module__", None) == module.__name__
            if own and callable(kernel) and not attribute.startswith("_"):
                stand_ins[id(kernel)] = _Seen(f"{name}.{attribute}", kernel, called)
    for module, attribute, value in _attributes():
        if (stand_in := stand_ins.get(id(value))) is not None:
            setattr(module, attribute, stand_in)
    try:
        yield called
    finally:
        for module, attribute, value in _attributes():
            if isinstance(value, _Seen):
                setattr(module, attribute, value._kernel)


def _attributes() -> list[tuple[Any, str, Any]]:
    """Attributes of kstore's modules, and of the Python classes in them."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("kstore") and module is not None
    ]
    classes = {
        value
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, type) and value.__module__.startswith("kstore.")
    }
    python_classes = [each for each in classes if "_native" not in each.__module__]
    return [
        (owner, attribute, value)
        for owner in (*modules, *python_classes)
        for attribute, value in list(vars(owner).items())
    ]
