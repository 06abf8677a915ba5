"""What is counted: an operation, made once, done in rounds, its result checked."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Action = Callable[[], object]


@dataclass
class Place:
    """Where an operation finds room, and what is undone behind it."""

    directory: Path
    stack: ExitStack = field(default_factory=ExitStack)

    def enter(self, context: Any) -> Any:
        return self.stack.enter_context(context)


@dataclass(frozen=True)
class Operation:
    """``make`` gives the action; one call of it does ``amount`` units and returns ``expected``."""

    name: str
    make: Callable[[Place], tuple[Action, object]]
    amount: int
    unit: str
    rounds: int
    by_path: bool  # counted once for each path of KSTORE_CPU


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, amount: int = 1, unit: str = "call", *, rounds: int = 10, by_path: bool = False
) -> Callable[[Callable[[Place], tuple[Action, object]]], Callable[[Place], tuple[Action, object]]]:
    """Take a maker of (action, expected result) into the table."""

    def take(
        make: Callable[[Place], tuple[Action, object]],
    ) -> Callable[[Place], tuple[Action, object]]:
        if name in OPERATIONS:
            raise AssertionError(f"two operations are called {name!r}")
        OPERATIONS[name] = Operation(name, make, amount, unit, rounds, by_path)
        return make

    return take
