from collections.abc import Callable
from typing import Any, TypeVar

from kstore._native.append.batch_appender import BatchAppender

_Appended = TypeVar("_Appended")

class RecordAppender(BatchAppender):
    def append_values(self, values: list[Any], start: int, timestamp: Any) -> int: ...
    def append_records(self, records: list[Any], start: int, timestamp: Any) -> int: ...

def append(
    log: Any,
    value: Any,
    *,
    key: Any = None,
    headers: Any = None,
    timestamp: Any = None,
) -> int: ...
def explain_append(check: Callable[[int, tuple[str, ...] | None], None]) -> None: ...
def append_unless_blocked(
    log: Any, size: int, append: Callable[[], _Appended]
) -> _Appended | None: ...
def append_as_leader(log: Any, batch: Any, *, flush: bool = True) -> Any: ...
def append_as_coordinator(log: Any, batch: Any) -> Any: ...
def append_end_marker(
    log: Any,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    timestamp: int = -1,
) -> Any: ...
def append_as_follower(log: Any, batches: Any) -> Any: ...
