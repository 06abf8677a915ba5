"""Which peers take part in a run: those that are missing or fail are reported by name."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from kstore.bench.contest import describe_error

missing: dict[str, str] = {}  # peer or figure: why it is missing; cleared before each workload
failed: dict[str, str] = {}  # peer: the error that prevented its contest; cleared as well
T = TypeVar("T")


def optional(module: str, package: str) -> Any:
    """Import a peer's module; None, recorded in ``missing``, if its package is not installed."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # raised by some packages on import
        try:
            return import_module(module)
        except ImportError:
            missing[package] = f"not installed: pip install {package}"
            return None


def attempt(name: str, call: Callable[[], T]) -> T | None:
    """Prepare a peer; None, recorded in ``failed``, if the call raises."""
    try:
        return call()
    except Exception as error:
        failed[name] = describe_error(error)
        return None


def enter_peer(running: ExitStack, name: str, peer: AbstractContextManager[T]) -> T | None:
    """Start a peer until ``running`` closes; None, recorded in ``failed``, if it does not start."""
    return attempt(name, lambda: running.enter_context(peer))
