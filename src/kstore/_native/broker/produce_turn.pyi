from collections.abc import Callable
from typing import Any

from kstore._native.append.batch_appender import BatchAppender

class ProduceTarget:
    def __init__(
        self,
        image: object,
        log: object,
        state: object,
        appender: BatchAppender,
        counters: object,
        acknowledges_all: bool,
    ) -> None: ...

class ProduceTurn:
    rest: bytes
    unsent: bytes
    handled: int
    is_complete: bool
    def __init__(
        self,
        hosted: dict[Any, Any],
        busy: dict[Any, Any],
        metadata: object,
        find_target: Callable[[str, int, Any], ProduceTarget | None],
        largest_batch: int,
        longest_part: int,
    ) -> None: ...
    def receive(self, fd: int, left: bytes, max_frame: int) -> int: ...
    def handle_frame(self, frame: Any) -> bytes | None: ...
    def requests_of_versions(self) -> list[tuple[int, int]]: ...
