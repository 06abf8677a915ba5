"""A request of a connection that was handled and has no queued response yet."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.client_throttling import Usage
    from kstore.broker.request import Attempt, Pending
    from kstore.broker.request_memory import RequestMemory
    from kstore.protocol.messages import Message
    from kstore.protocol.wire import Chunk


class OutstandingRequest:
    """A request whose response is not in the send queue yet."""

    __slots__ = (
        "correlation_id",
        "is_answered",
        "key",
        "pending",
        "received",
        "response",
        "resume",
        "size",
        "usage",
        "version",
    )

    def __init__(
        self, key: int, version: int, correlation_id: int, size: int, received: float
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.size = size  # of the frame
        self.received = received  # Loop.time() when its last byte arrived
        self.is_answered = False
        self.response: Message | bytes | list[Chunk] | None = None
        # set while a fast-path handler waits: calls the general handler in its stead
        self.resume: Callable[[Attempt], None] | None = None
        self.pending: Pending | None = None
        self.usage: Usage | None = None  # where a quota is set

    def cancel(self, memory: "RequestMemory") -> None:
        """End it without a response; its memory is free once nothing refers to its frame."""
        pending = self.pending
        if pending is not None:
            pending.cancel()
        if pending is not None and pending.keeps_frame:
            pending.on_frame_released = partial(memory.end, self.size)
        else:
            memory.end(self.size)
