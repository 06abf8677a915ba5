"""Each compiled module has a hand-written stub with the same public names and parameters."""

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from kstore.hints.missing_names import is_answer
from tidy.sources import NATIVE, ROOT, module_name

SOURCES = sorted(NATIVE.rglob("*.pyx"))


def public(name: str) -> bool:
    return not name.startswith("_")


def stub_names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Public names a stub defines, each with its first definition."""
    names: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.setdefault(node.name, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.setdefault(node.target.id, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, node)
    return {name: node for name, node in names.items() if public(name)}


def module_names(module: ModuleType) -> set[str]:
    """Public functions and classes that the module itself defines."""
    return {
        name
        for name, value in vars(module).items()
        if public(name) and getattr(value, "__module__", None) == module.__name__
    }


def parameters(function: object) -> list[str] | None:
    """Names of the parameters, or None where a compiled method does not show them."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    return [name for name in signature.parameters if name not in ("self", "cls")]


def stub_parameters(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        named.append(arguments.vararg)
    named += arguments.kwonlyargs
    if arguments.kwarg:
        named.append(arguments.kwarg)
    return [argument.arg for argument in named if argument.arg not in ("self", "cls")]


def is_overload(node: ast.FunctionDef) -> bool:
    return any("overload" in ast.unparse(decorator) for decorator in node.decorator_list)


def differences(module: ModuleType, stub: ast.Module) -> list[str]:
    declared = stub_names(stub.body)
    found = [f"{name} is missing in the stub" for name in module_names(module) - set(declared)]
    found += [f"{name} is only in the stub" for name in declared if not hasattr(module, name)]
    for name, node in declared.items():
        value = getattr(module, name, None)
        if isinstance(node, ast.FunctionDef):
            found += parameter_differences(name, node, value)
        elif isinstance(node, ast.ClassDef) and value is not None:
            members = stub_names(node.body)
            own = {
                name for name, each in vars(value).items() if public(name) and not is_answer(each)
            }
            is_enum = any("Enum" in ast.unparse(base) for base in node.bases)
            found += [f"{name}.{member} is missing in the stub" for member in own - set(members)]
            found += [
                f"{name}.{member} is only in the stub"
                for member in members
                if not hasattr(value, member) and not is_enum
            ]
            for member, inner in members.items():
                if isinstance(inner, ast.FunctionDef) and not inner.decorator_list:
                    found += parameter_differences(
                        f"{name}.{member}", inner, getattr(value, member, None)
                    )
    return sorted(found)


def parameter_differences(name: str, node: ast.FunctionDef, value: object) -> list[str]:
    real = parameters(value)
    if real is None or is_overload(node) or real == stub_parameters(node):
        return []
    return [f"{name} takes {real}, the stub says {stub_parameters(node)}"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_stub_has_the_same_signatures(source: Path) -> None:
    stub = source.with_suffix(".pyi")
    assert stub.exists(), f"{source.relative_to(ROOT)} needs a hand-written {stub.name}"
    module = importlib.import_module(module_name(source))
    assert differences(module, ast.parse(stub.read_text())) == []


def test_no_stub_without_its_source() -> None:
    assert {path.stem for path in NATIVE.rglob("*.pyi")} - {path.stem for path in SOURCES} == set()


def test_a_stub_that_differs_from_its_module_is_found() -> None:
    module = ModuleType("made_up")
    exec("def f(a, b): ...\ndef g(): ...\nclass C:\n    def m(self, x): ...", vars(module))
    for name in ("f", "g", "C"):
        getattr(module, name).__module__ = "made_up"
    stub = ast.parse("def f(a): ...\ndef h(): ...\nclass C:\n    def m(self, y): ...\n    z: int")
    assert differences(module, stub) == [
        "C.m takes ['x'], the stub says ['y']",
        "C.z is only in the stub",
        "f takes ['a', 'b'], the stub says ['a']",
        "g is missing in the stub",
        "h is only in the stub",
    ]
