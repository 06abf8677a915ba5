from collections.abc import Callable

class FileMap:
    size: int
    def __init__(self, fd: int, size: int, reopen: Callable[[], int] | None = None) -> None: ...
    @property
    def has_descriptor(self) -> bool: ...
