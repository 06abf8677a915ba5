"""One connection: reads requests, calls their handlers, and sends the responses in order."""

import logging
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from kstore._native.broker.frame_cutter import FrameCutter, FrameError
from kstore.broker.answer_frames import GATHERED_BYTES, encode_answer
from kstore.broker.api_table import Api, api_name
from kstore.broker.authentication import AuthenticationError
from kstore.broker.client_session import ClientSession
from kstore.broker.client_throttling import complete_later
from kstore.broker.loop import HANG_UP, PEER_CLOSED, READABLE, WRITABLE
from kstore.broker.outstanding_request import OutstandingRequest
from kstore.broker.request import Attempt, CloseConnection, Pending, Request
from kstore.broker.send_queue import SendQueue, send_queue_for
from kstore.errors import InvalidMessageError, KStoreError
from kstore.protocol.headers import is_flexible
from kstore.protocol.messages import Message
from kstore.protocol.wire import Reader
from kstore.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kstore._native.read.segment_view import Slice
    from kstore.broker.api_table import FrameAnswer, FrameHandler
    from kstore.broker.authentication import Authentication
    from kstore.broker.listener import Listener
    from kstore.broker.loop import Loop
    from kstore.broker.request import Outcome
    from kstore.broker.request_memory import RequestMemory
    from kstore.broker.services import Services
    from kstore.broker.tls_transport import TlsTransport

_LOGGER = logging.getLogger("kstore.broker")
_PRODUCE = 0
_API_VERSIONS = 18
_MUTE = -1  # the key of a wait that a quota asks for
_SIZE = Struct(">i")
_MOST_PIPELINED = 256  # outstanding Produce requests of one connection
_REQUESTS_OF_A_TURN = 16  # per turn of the loop, so that other connections get theirs
_LONG_REQUEST = 0.001  # seconds: a request that takes longer ends the connection's turn
_HEADER = Struct(">hhi")
_FRAME = (bytes, list)  # an answer that is encoded; `bytes | list` would be made for each call


class Connection:
    """A client's connection. Loop's thread only.

    It handles one request at a time, except that it handles a Produce request while earlier Produce
    requests wait for their acknowledgement. While a response cannot be sent it reads nothing: a
    slow client holds the memory of one response.
    """

    def __init__(
        self,
        connection: "socket.socket | TlsTransport",
        peer: tuple[str, int],
        listener: "Listener",
        services: "Services",
        memory: "RequestMemory",
    ) -> None:
        self.peer = peer
        self.listener = listener.name
        self._listener = listener
        self._socket = connection
        self._fd = connection.fileno()
        self._services = services
        self._loop = services.loop
        self._poller: Loop | TlsTransport = services.loop
        self._apis = services.apis
        self._counters = services.counters
        self._frame_handlers: dict[int, FrameHandler] = services.apis.frame_handlers()
        self._turns = services.produce_turns
        self._memory = memory
        self._max_frame = services.settings.socket_request_max_bytes
        self._cutter = FrameCutter(self._max_frame)
        self._queue = send_queue_for(connection, peer[0])
        if not isinstance(connection, socket.socket):  # epoll does not see its decrypted bytes
            self._poller, self._turns = connection, None
        self._outstanding: deque[OutstandingRequest] = deque()
        self._events = READABLE
        self._is_producing = True  # the next request is probably a Produce
        self._is_blocked = False  # the socket did not take the entire send queue
        self._is_loading = False  # a disk worker is reading the next bytes of a response
        self._is_scheduled = False  # _continue will be called
        self._is_stopping = self._has_left = self.is_closed = False
        self.last_received = self.last_active = self._loop.time()
        self.principal = ANONYMOUS
        self._gate: Authentication | None = None  # set while only authentication is served
        self.session: ClientSession | None = None
        if listener.security is not None:
            self.session = ClientSession(self, services, listener)
            if not isinstance(connection, socket.socket):
                connection.on_secured = self.session.secured
        self._poller.register(self._fd, self._events, self._on_events)

    @property
    def has_partial_frame(self) -> bool:
        """Whether the connection has part of a request that it could handle once complete."""
        return self._cutter.has_partial_frame and self._may_begin()

    @property
    def buffered(self) -> int:
        """Received bytes that belong to no request in progress."""
        return self._cutter.buffered

    @property
    def held(self) -> int:
        """Bytes of received requests without a response."""
        return self._cutter.buffered + sum(entry.size for entry in self._outstanding)

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in progress; a client that left while it was muted waits no more."""
        waiting = self._outstanding
        return bool(waiting) and not (self._has_left and all(e.key == _MUTE for e in waiting))

    # --- events ---------------------------------------------------------------------------

    def _on_events(self, events: int) -> None:
        try:
            if events == READABLE:
                self._read()
            elif events & HANG_UP:
                self.close("")
            elif events & WRITABLE:
                self._send()
                self._take_requests()
            elif events & READABLE:
                self._read()
            elif events & PEER_CLOSED:
                self._on_peer_closed()
        except Exception:
            _LOGGER.exception("%s: closed after an error of the broker", self)
            self.close("")

    def _read(self) -> None:
        if self._is_scheduled:
            return  # bytes received earlier are handled first, in this turn
        may_begin = not self._outstanding or self._may_begin()
        if not may_begin and self._cutter.buffered:
            self._listen(PEER_CLOSED)  # read nothing before the response, but notice a close
            return
        if not self._memory.may_read(self):
            self._listen(0)
            return
        turns = self._turns
        try:
            if (
                turns
                and self._is_producing
                and _PRODUCE in self._frame_handlers
                and not self._outstanding
            ):
                count = turns.receive(self._socket, self._cutter, self._queue, self._memory, self)
                may_begin = not turns.is_complete
            else:
                count = self._cutter.receive(self._socket)
                self._memory.add(count)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count == 0:
            self.close("")
            return
        self.last_received = self.last_active = self._loop.time()
        if may_begin:
            self._take_requests()

    def _on_peer_closed(self) -> None:
        """The client closed its end while the connection reads nothing."""
        if any(each.key not in (_PRODUCE, _MUTE) for each in self._outstanding):
            self.close("")
        else:  # its earlier requests are read when there is memory, or it is muted no more
            self._has_left = True
            self._listen(0)

    def resume_reading(self) -> None:
        """Request memory is available again."""
        if not self.is_closed and not self._events & READABLE:
            self._schedule()

    def _listen(self, events: int) -> None:
        if self._is_blocked:
            events = events & ~PEER_CLOSED | (0 if self._is_loading else WRITABLE)
        if events != self._events and not self.is_closed:
            self._events = events
            self._poller.modify(self._fd, events)

    # --- requests -------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        try:
            self._take_requests()
        except Exception:
            _LOGGER.exception("%s: closed after an error of the broker", self)
            self.close("")

    def _may_begin(self) -> bool:
        """Whether a request may begin: none is in progress, or all of them, and it, are Produce."""
        waiting = self._outstanding
        return not waiting or (
            waiting[-1].key == _PRODUCE
            and len(waiting) < _MOST_PIPELINED
            and self._cutter.next_api_key() in (_PRODUCE, None)
        )

    def _take_requests(self) -> None:
        """Handle the complete requests; then read more, or wait until handling can continue."""
        taken, is_long = 0, False
        try:
            while not self.is_closed and not self._is_stopping and not self._is_blocked:
                if taken == _REQUESTS_OF_A_TURN or is_long:
                    self._schedule()
                    break
                if not self._may_begin():
                    if self._cutter.buffered:
                        self._listen(PEER_CLOSED)
                    break
                frame = self._cutter.next_frame()
                if frame is None:
                    self._listen(READABLE)
                    break
                taken += 1
                is_long = self._begin(frame)
                if self._queue.size >= GATHERED_BYTES:
                    self._send()
        except CloseConnection as reason:
            self._close_refused(str(reason))
        except (FrameError, InvalidMessageError) as error:
            self._close_refused(str(error))
        if self._queue.size and not self.is_closed and not self._is_blocked:
            self._send()

    def _begin(self, frame: memoryview) -> bool:
        """Handle one request; True if it took long. Raises CloseConnection, InvalidMessageError."""
        size = len(frame) + _SIZE.size
        self._memory.begin(self, size)
        if self._gate is not None and self._is_token(self._gate, frame, size):
            return False
        if len(frame) < _HEADER.size:
            self._memory.end(size)
            raise CloseConnection("a request without a header")
        key, version, correlation_id = _HEADER.unpack_from(frame)
        self._is_producing = key == _PRODUCE
        attempt: Attempt | Pending | None = None
        if key in self._frame_handlers and not self._outstanding:
            done = self._handle_frame(frame, key, version)
            if isinstance(done, _FRAME):
                self._memory.end(size)
                self._queue.add_frame(done)
                if self._counters is not None:
                    self._counters.answered(key, version, self._loop.time() - self.last_received)
                return False
            attempt = done
        entry = OutstandingRequest(key, version, correlation_id, size, self.last_received)
        self._outstanding.append(entry)
        api = self._apis.get(key)
        if api is None:
            raise CloseConnection(f"an API with the key {key} is not served")
        if not api.min_version <= version <= api.max_version and key != _API_VERSIONS:
            raise CloseConnection(f"{api_name(key)} is not served in version {version}")
        if isinstance(attempt, Pending):
            entry.resume = partial(self._handle, api, entry, frame)
            self._wait_for(entry, attempt)
            return False
        began = self._loop.time()
        self._handle(api, entry, frame, attempt)
        return self._loop.time() - began > _LONG_REQUEST

    def _handle_frame(self, frame: memoryview, key: int, version: int) -> "FrameAnswer":
        """Try the fast path, which handles the unparsed frame; None if it does not apply."""
        try:
            return self._frame_handlers[key](frame)
        except Exception as error:
            self._memory.end(len(frame) + _SIZE.size)
            _LOGGER.exception("%s: %s %d failed", self, api_name(key), version)
            raise CloseConnection(f"{api_name(key)} {version} failed: {error}") from error

    def _wait_for(self, entry: OutstandingRequest, pending: Pending) -> None:
        entry.pending = pending
        pending.deliver_to(partial(self._on_answer, entry))

    def _resume(self, entry: OutstandingRequest, attempt: Attempt) -> None:
        """Let the general handler respond to a request that a fast-path handler leaves to it."""
        resume, entry.resume, entry.pending = entry.resume, None, None
        try:
            resume(attempt)  # type: ignore[misc]  # set by _begin
        except CloseConnection as reason:
            self._close_refused(str(reason))

    def _handle(
        self, api: Api, entry: OutstandingRequest, frame: memoryview, attempt: Attempt | None
    ) -> None:
        most = self._services.settings.kstore_max_request_partitions
        reader = Reader(frame, _HEADER.size, max_items=most)
        client_id = reader.lenient_string() or ""
        if api.min_version <= entry.version <= api.max_version and is_flexible(
            entry.key, entry.version
        ):
            reader.skip_tags()
        request = Request(
            api_key=entry.key,
            api_version=entry.version,
            correlation_id=entry.correlation_id,
            client_id=client_id,
            reader=reader,
            connection=self,
            image=self._services.metadata.image,
            received=self.last_received,
            attempt=attempt,
        )
        throttling, began = self._services.throttling, 0.0
        if throttling.is_active and self._gate is None:
            entry.usage = request.usage = throttling.usage(request, entry.size - _SIZE.size)
            throttling.now = began = self._loop.time()
        try:
            answer = api.handle(request)
        except (CloseConnection, InvalidMessageError) as error:
            raise CloseConnection(f"{api_name(entry.key)} {entry.version}: {error}") from error
        except Exception as error:
            _LOGGER.exception("%s: %s %d failed", self, api_name(entry.key), entry.version)
            raise CloseConnection(
                f"{api_name(entry.key)} {entry.version} failed: {error}"
            ) from error
        if entry.usage is not None:
            entry.usage.seconds = self._loop.time() - began
        if isinstance(answer, Pending):
            self._wait_for(entry, answer)
        else:
            entry.is_answered, entry.response = True, answer
            self._queue_answers()

    # --- authentication -------------------------------------------------------------------

    @property
    def is_authenticating(self) -> bool:
        """Whether the client must authenticate, or re-authenticate, before other requests."""
        return self._gate is not None

    def limit_frames(self, size: int) -> None:
        """Accept no larger frames than this until ``serve_all``."""
        self._cutter.allow(min(size, self._max_frame))

    def serve_only(self, gate: "Authentication") -> None:
        """Serve nothing but this authentication, until ``serve_all``."""
        self._gate, self._frame_handlers = gate, {}

    def serve_all(self, principal: Principal) -> None:
        """Serve all APIs to this principal."""
        self.principal, self._gate = principal, None
        self._frame_handlers = self._services.apis.frame_handlers()
        self._cutter.allow(self._max_frame)

    def _is_token(self, gate: "Authentication", frame: memoryview, size: int) -> bool:
        """Answer a frame that is a SASL token; reject a request other than authentication."""
        session = self.session
        assert session is not None
        is_token = True
        try:
            answer = session.answer_token(gate, frame)
            is_token = answer is not None
            if answer is not None:
                self._queue.add_small(_SIZE.pack(len(answer)) + answer)
        except AuthenticationError:
            self._is_stopping = True
            self._loop.call_later(session.failure_delay_seconds, self.close, "")
        finally:
            if is_token:
                self._memory.end(size)
        return is_token

    def end_after_answers(self) -> None:
        """Accept no more requests, and close once the responses are sent."""
        self._is_stopping, self._frame_handlers = True, {}
        self._loop.call_soon(self._close_if_idle)

    # --- answers --------------------------------------------------------------------------

    def _on_answer(self, entry: OutstandingRequest, response: "Outcome") -> None:
        """A Pending is complete, possibly from within another connection's handler."""
        if self.is_closed:
            return
        if isinstance(response, BaseException):
            if not isinstance(response, CloseConnection):
                _LOGGER.error("%s: %s failed", self, api_name(entry.key), exc_info=response)
            self._close_refused(f"{api_name(entry.key)} {entry.version}: {response}")
            return
        if isinstance(response, Attempt):
            self._resume(entry, response)
        else:
            entry.is_answered, entry.response, entry.pending = True, response, None
            if self._outstanding[0] is not entry:
                return
            self._queue_answers()
        if self._queue.size and not self._is_blocked and not self.is_closed:
            self._send()
        if self._is_stopping or self.is_closed:
            self._close_if_idle()
        elif self._cutter.buffered or not self._events & READABLE:
            self._schedule()  # in a later turn: another connection's handler may be running

    def _queue_answers(self) -> None:
        """Encode the responses that are next in order."""
        waiting = self._outstanding
        while waiting and waiting[0].is_answered:
            entry = waiting.popleft()
            try:
                if isinstance(entry.response, _FRAME):
                    self._queue.add_frame(entry.response)
                elif entry.response is not None or entry.usage is not None:
                    self._encode(entry, entry.response)
                if self._counters is not None and entry.key != _MUTE:
                    version = self._apis.version_of_answer(entry.key, entry.version)
                    taken = self._loop.time() - entry.received
                    self._counters.answered(entry.key, version, taken)
            except Exception:
                _LOGGER.exception("%s: the answer to %s failed", self, api_name(entry.key))
                self.close("")
            finally:
                self._memory.end(entry.size)

    def _encode(self, entry: OutstandingRequest, response: Message | None) -> None:
        request = entry.key, entry.version, entry.correlation_id
        chunks, size = (
            ([], 0) if response is None else encode_answer(self._apis, response, *request)
        )
        if entry.usage is not None:
            self._services.throttling.now = self._loop.time()
            wait = entry.usage.throttle_ms(size - _SIZE.size)
            if wait > 0:
                if response is not None and hasattr(response, "throttle_time_ms"):
                    response.throttle_time_ms = wait
                    chunks, size = encode_answer(self._apis, response, *request)
                self._mute(wait / 1000)
        if chunks:
            self._queue.add(chunks, size)

    def _mute(self, seconds: float) -> None:
        """Take no request for a time (KIP-219): as if one were in work."""
        entry = OutstandingRequest(_MUTE, 0, 0, 0, self.last_received)
        self._outstanding.append(entry)
        self._wait_for(entry, complete_later(self._loop, seconds))
        self._listen(PEER_CLOSED)

    def _send(self) -> None:
        """Send what the socket accepts; read nothing while part of the queue is left."""
        try:
            sent = self._queue.send(self._socket)
        except OSError as error:
            lost = isinstance(error, ConnectionError)
            self.close("" if lost else f"an answer cannot be sent: {error}")
            return
        except KStoreError as error:  # the segment's bytes are lost
            self.close(f"an answer cannot be sent: {error}")
            return
        if sent:
            self.last_active = self._loop.time()
        was_blocked, self._is_blocked = self._is_blocked, self._queue.size > 0
        if self._queue.cold is not None:
            self._load(*self._queue.cold)
        elif self._is_blocked:
            if not was_blocked:
                self._listen(0)
        elif was_blocked:
            self._listen(0 if self._is_stopping else READABLE)
            self._close_if_idle()

    def _load(self, records: "Slice", start: int, size: int) -> None:
        """Continue sending once a disk worker has read the next bytes of the response."""
        self._is_loading = True
        self._listen(0)
        self._services.workers.submit(self, partial(records.load, start, size), self._loaded)

    def _loaded(self, _: None, error: BaseException | None) -> None:
        self._is_loading = False
        if self.is_closed:
            return
        if error is not None:
            self.close(f"an answer cannot be sent: {error}")
            return
        self._queue.is_fresh = True
        self._send()
        if self._is_blocked:
            self._listen(0)
        else:
            self._schedule()

    # --- the end --------------------------------------------------------------------------

    def stop(self) -> None:
        """Accept no more requests; complete those in progress, then close."""
        self._is_stopping = True
        for entry in list(self._outstanding):
            if entry.pending is not None:
                entry.pending.stop()
        self._listen(0)
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._is_stopping and not self._outstanding and not self._queue.size:
            self.close("")

    def _close_refused(self, reason: str) -> None:
        """Close and log the reason; first send as much of the earlier responses as possible."""
        if not self.is_closed and self._queue.size and not self._is_blocked:
            self._send()
        self.close(reason)

    def close(self, reason: str) -> None:
        """Close immediately and cancel the requests in progress; log the reason unless it is ""."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason:
            self._listener.reports.report(self, reason)
        if self.session is not None:
            self.session.cancel_timer()
            self.session = self._gate = None  # references in a circle
        self._poller.unregister(self._fd)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked child may share the descriptor
        self._socket.close()
        waiting = list(self._outstanding)
        self._outstanding.clear()
        for entry in waiting:
            entry.cancel(self._memory)
        self._memory.drop(self._cutter.buffered)
        self._cutter = FrameCutter(0)
        self._queue = SendQueue()
        self._memory.forget(self)
        self._listener.on_close(self)

    def abandon(self) -> None:
        """In a forked child: close its copy of the socket; the parent's stays open."""
        self._socket.close()

    def __str__(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"
