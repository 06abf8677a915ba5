"""The table of served APIs: which versions, and which handler."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore.broker.request import Answer, Attempt, Request

if TYPE_CHECKING:
    from kstore.protocol.wire import Chunk

Handler = Callable[[Request], Answer]
FrameHandler = Callable[[memoryview, int, int], "bytes | list[Chunk] | Attempt | None"]


@dataclass(frozen=True, slots=True)
class Api:
    """One served API: its key, the versions that work, and the handler on the loop's thread.

    The handler returns the response, a Pending, or None (nothing is sent); it raises
    CloseConnection to close without an answer.

    ``handle_frame(frame, version, correlation_id)``, where there is one, is asked before: it
    returns the complete answer with its size as bytes (none: nothing is sent) or as chunks, an
    Attempt that ``handle`` has to report, or None if it has done nothing. It is called only while
    no request of the connection waits for its answer.
    """

    key: int
    min_version: int
    max_version: int
    handle: Handler
    handle_frame: FrameHandler | None = None


class ApiTable:
    """Every served API by its key. Filled before the broker starts, read on the loop's thread."""

    def __init__(self, apis: Iterable[Api] = ()) -> None:
        self._by_key: dict[int, Api] = {}
        self._frame_handlers: dict[int, FrameHandler] = {}
        self.add(apis)

    def add(self, apis: Iterable[Api]) -> None:
        for api in apis:
            if api.key in self._by_key:
                raise ValueError(f"API {api.key} has two handlers")
            if not 0 <= api.min_version <= api.max_version:
                raise ValueError(f"API {api.key} has no versions")
            self._by_key[int(api.key)] = api
            if api.handle_frame is not None:
                self._frame_handlers[int(api.key)] = api.handle_frame

    def get(self, key: int) -> Api | None:
        return self._by_key.get(key)

    def frame_handlers(self) -> dict[int, FrameHandler]:
        """The handlers that take a frame as it came, by key; the same object for all."""
        return self._frame_handlers

    def allow_frame_handlers(self, *, allowed: bool) -> None:
        """Whether requests may be handled by their bytes, of connections that are open, too."""
        self._frame_handlers.clear()
        if allowed:
            for key, api in self._by_key.items():
                if api.handle_frame is not None:
                    self._frame_handlers[key] = api.handle_frame

    def __iter__(self) -> Iterator[Api]:
        """By key, ascending, as ApiVersions lists them."""
        return iter(sorted(self._by_key.values(), key=lambda api: api.key))
