"""One request, and the ways to respond to it."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kstore.protocol.messages import Message

if TYPE_CHECKING:
    from kstore.broker.authorization import Access
    from kstore.broker.client_throttling import Usage
    from kstore.broker.connection import Connection
    from kstore.cluster.image import ClusterImage
    from kstore.protocol.wire import Chunk, Reader
    from kstore.security.acl import ResourceType

# What completes a Pending: a message; from a fast-path handler also a frame, or an Attempt for the
# general handler. None: nothing is sent.
Response: TypeAlias = "Message | bytes | list[Chunk] | Attempt | None"
Outcome: TypeAlias = "Response | BaseException"
OnAnswer: TypeAlias = "Callable[[Outcome], None]"

_LOGGER = logging.getLogger("kstore.broker")


class CloseConnection(Exception):
    """Raised by a handler to close the connection without a response. The message is logged."""


class Attempt:
    """The outcome of a fast-path handler that leaves the response to the general handler.

    For Produce the result, or the error, of the append; for Fetch the seconds that the request may
    still wait.
    """

    __slots__ = ("error", "result")

    def __init__(self, result: Any = None, error: Exception | None = None) -> None:
        self.result = result
        self.error = error


class Request:
    """One request. Its frame stays valid until the response. Loop's thread only."""

    __slots__ = (
        "access",
        "api_key",
        "api_version",
        "attempt",
        "client_id",
        "connection",
        "correlation_id",
        "image",
        "reader",
        "received",
        "usage",
    )

    def __init__(
        self,
        *,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        reader: "Reader",
        connection: "Connection",
        image: "ClusterImage",
        received: float,
        attempt: Attempt | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.reader = reader  # at the body
        self.connection = connection  # .listener (name), .peer (host, port)
        self.image = image  # a consistent cluster image for the entire request
        self.received = received  # Loop.time() when its last byte arrived
        self.attempt = attempt  # outcome of the fast-path handler, if it ran
        self.access: Access | None = None  # None: no authorizer, all operations are allowed
        self.usage: Usage | None = None  # None: no quota is set

    def operations(self, kind: "ResourceType", name: str, possible: int) -> int:
        """The subset of ``possible`` (a bit set) that the client is authorized for."""
        return possible if self.access is None else self.access.operations(kind, name, possible)


class Pending:
    """A response that comes later. Loop's thread only.

    ``on_cancel`` is called once if the response can no longer be sent, because the connection is
    lost or the broker has stopped waiting. ``on_stop`` is called when the broker begins to stop,
    and should complete the response with the current results; without it the broker waits a short
    time for the response. After a cancellation ``complete`` and ``fail`` have no effect.
    """

    __slots__ = (
        "_answered",
        "_on_answer",
        "_response",
        "is_cancelled",
        "keeps_frame",
        "on_cancel",
        "on_frame_released",
        "on_stop",
    )

    def __init__(self) -> None:
        self.keeps_frame = False  # work on the frame's bytes continues after a cancellation
        self.on_frame_released: Callable[[], None] | None = None
        self.on_cancel: Callable[[], None] | None = None
        self.on_stop: Callable[[], None] | None = None
        self.is_cancelled = False
        self._answered = False
        self._response: Outcome = None
        self._on_answer: OnAnswer | None = None

    def complete(self, response: Response) -> None:
        """Set the response, once. None sends nothing (acks=0)."""
        self._answer(response)

    def fail(self, error: BaseException) -> None:
        """Close the connection instead of sending a response; the error is logged."""
        self._answer(error)

    @property
    def is_answered(self) -> bool:
        return self._answered

    def _answer(self, response: Outcome) -> None:
        if self.is_cancelled:
            return
        if self._answered:
            raise RuntimeError("a request has only one response")
        self._answered = True
        if self._on_answer is None:
            self._response = response
        else:
            self._on_answer(response)

    def deliver_to(self, on_answer: OnAnswer) -> None:
        """Set the receiver of the response, and call it now if the response exists already."""
        self._on_answer = on_answer
        if self._answered:
            response, self._response = self._response, None
            on_answer(response)

    def cancel(self) -> None:
        """Discard any later response, since the connection is lost or the broker stops."""
        if self._answered or self.is_cancelled:
            return
        self.is_cancelled = True
        self._on_answer = None
        _call(self.on_cancel)

    def release_frame(self) -> None:
        """End the use of the request's bytes, so that they no longer count as request memory."""
        self.keeps_frame = False
        released, self.on_frame_released = self.on_frame_released, None
        if released is not None:
            released()

    def stop(self) -> None:
        """Notify the request that the broker begins to stop."""
        if not self._answered and not self.is_cancelled:
            _call(self.on_stop)


def _call(callback: Callable[[], None] | None) -> None:
    if callback is not None:
        try:
            callback()
        except Exception:
            _LOGGER.exception("a callback of a waiting request failed")


Answer = Message | Pending | None  # None: nothing is sent
