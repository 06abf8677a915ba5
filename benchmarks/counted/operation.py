"""The operations to count: each is set up once, repeated in rounds, and its result checked."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Action = Callable[[], object]


@dataclass
class Workspace:
    """The directory of an operation, and the contexts to close after it."""

    directory: Path
    stack: ExitStack = field(default_factory=ExitStack)

    def enter(self, context: Any) -> Any:
        return self.stack.enter_context(context)


Setup = Callable[[Workspace], tuple[Action, object]]


@dataclass(frozen=True)
class Operation:
    """``make`` returns (action, expected): a call of action does ``amount`` units of work."""

    name: str
    make: Setup
    amount: int
    unit: str
    rounds: int
    by_path: bool  # count it for each path of KSTORE_CPU


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, amount: int = 1, unit: str = "call", *, rounds: int = 10, by_path: bool = False
) -> Callable[[Setup], Setup]:
    """Decorate a function that returns (action, expected result): add it to OPERATIONS."""

    def add(make: Setup) -> Setup:
        if name in OPERATIONS:
            raise AssertionError(f"two operations are called {name!r}")
        OPERATIONS[name] = Operation(name, make, amount, unit, rounds, by_path)
        return make

    return add
