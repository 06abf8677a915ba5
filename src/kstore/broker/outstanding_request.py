"""A request of a connection that was handled and has no queued response yet."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.client_throttling import Usage
    from kstore.broker.request import Pending
    from kstore.protocol.messages import Message


class OutstandingRequest:
    """A request whose response is not in the send queue yet."""

    __slots__ = (
        "correlation_id",
        "is_answered",
        "key",
        "pending",
        "received",
        "response",
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
        self.response: Message | None = None
        self.pending: Pending | None = None
        self.usage: Usage | None = None  # where a quota is set
