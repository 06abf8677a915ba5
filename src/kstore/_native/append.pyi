from typing import Any

from kstore._native.admit import Admission

class Appender(Admission):
    def append(
        self, value: Any, *, key: Any = None, headers: Any = None, timestamp: Any = None
    ) -> int: ...
    def append_values(self, values: list[Any], start: int, timestamp: Any) -> int: ...
    def append_records(self, records: list[Any], start: int, timestamp: Any) -> int: ...
