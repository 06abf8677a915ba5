"""The APIs that the broker serves, with their versions and handlers."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from kstore.broker.request import Answer, Attempt, Pending, Request
from kstore.lazy_dataclass import lazy_dataclass

if TYPE_CHECKING:
    from kstore.protocol.wire import Chunk

Handler = Callable[[Request], Answer]
FrameAnswer: TypeAlias = "bytes | list[Chunk] | Pending | Attempt | None"
FrameHandler = Callable[[memoryview], FrameAnswer]


@lazy_dataclass(frozen=True)
class Api:
    """One API: its key, the supported versions, and its handler, which runs on the event loop.

    The handler returns a response, a Pending, or None to send nothing. It raises CloseConnection to
    close the connection without a response.

    ``handle_frame(frame)`` is an optional fast path that the connection tries first, and only while
    the connection has no outstanding request. It takes a request without its size, and returns the
    complete response frame, as bytes (empty: send nothing) or as chunks; an Attempt, whose outcome
    ``handle`` then reports; a Pending that is completed with one of these; or None if it did
    nothing.
    """

    key: int
    min_version: int
    max_version: int
    handle: Handler
    handle_frame: FrameHandler | None = None


class ApiTable:
    """The served APIs by key. Filled before the broker starts; read on the event loop's thread."""

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

    def version_of_answer(self, key: int, version: int) -> int:
        """The version of a request's response: 0 for a version that is not served, which only
        ApiVersions answers."""
        api = self._by_key.get(key)
        return version if api is None or api.min_version <= version <= api.max_version else 0

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
        """Iterate in ascending order of keys, the order in ApiVersions responses."""
        return iter(sorted(self._by_key.values(), key=lambda api: api.key))


def api_name(key: int) -> str:
    """Kafka's name of an API, for messages."""
    from kstore.protocol.api_keys import ApiKey

    try:
        return ApiKey(key).name
    except ValueError:
        return f"API {key}"
