"""One connection to a broker, which uses the highest version that both sides support.

Requests and responses are frames: an int32 size, then that many bytes. ApiVersions (KIP-35) gives
the versions that a broker supports. A broker before 0.10 closes the connection upon that request,
and is then used with version 0. With TLS the socket is encrypted first; with SASL the client
authenticates after ApiVersions, and again before its session ends (KIP-368).
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar

from kstore.errors import InvalidMessageError, KStoreError, SourceError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import RequestHeader, decode_response_header
from kstore.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kstore.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kstore.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kstore.protocol.wire import Reader, Writer
from kstore.remote.authentication import AuthenticationFailedError, authenticate, fetch_token
from kstore.remote.client_metrics import ClientMetrics
from kstore.security.client_settings import ClientSasl, ClientSecurity
from kstore.security.client_tls import ClientTls, client_context

_PLAINTEXT = ClientSecurity()
_SHARE_OF_SESSION = 0.85  # of a session's time, after which the client authenticates again
_SIZE = struct.Struct(">i")
_CHUNK = 1 << 20  # the first bytes of a buffer, so that a response's claimed size allocates nothing
_GRACE = 1.0  # seconds for a response whose time is over, and which may have arrived meanwhile
LARGEST_ANSWER = 1 << 30
UNSUPPORTED_VERSION = 35
UNSUPPORTED_SASL_MECHANISM = 33


class Request(Protocol):
    """A generated request."""

    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]

    def encode(self, writer: Writer, version: int) -> None: ...


class Response(Protocol):
    """A generated response."""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self: ...


Answer = TypeVar("Answer", bound=Response)


class ClosedByBrokerError(SourceError):
    """The broker closed the connection without a response."""


class NoResponseError(SourceError):
    """The broker at ``address`` did not respond in time to a request, such as METADATA."""

    request = ""
    address = ""


class UndecodableResponseError(SourceError):
    """A response that is not a message of Kafka's protocol. A repetition does not help."""


class Begun(NamedTuple):
    """A request that was sent, and whose response was not received yet."""

    api_key: int
    version: int
    correlation_id: int
    seconds: float
    """How long to wait for its response."""
    deadline: float
    """Until when, by time.monotonic."""


class Connection:
    """A connection to one broker. For one thread. ``close`` it, or use it in ``with``.

    Raises SourceError if the broker is unreachable or does not respond within ``timeout`` seconds,
    and AuthenticationFailedError if either side fails to authenticate. A response has that time
    for each MiB of it, so that a slow network is none that fails.

    ``may_be_old``: whether a broker that closes the connection upon ApiVersions is taken for one
    before 0.10. Otherwise it is one that stops.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "kstore",
        timeout: float = 30.0,
        security: ClientSecurity = _PLAINTEXT,
        may_be_old: bool = True,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._metrics = ClientMetrics() if metrics is None else metrics
        self._correlation_id = 0
        self._unanswered = 0  # requests whose responses were not received yet
        self._largest = 0  # bytes of the largest response so far
        self.where = (host, port)
        self._timeout = timeout
        self._tls, self._sasl = security.tls, security.sasl
        self._session_ends = float("inf")  # by time.monotonic
        self._socket = self._connect()
        self._metrics.count("connection-creation")
        try:
            self.versions = self._ask_versions(may_be_old)  # empty for a broker before 0.10
            if self._sasl is not None:
                self._authenticate(self._sasl)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection(self.where, timeout=self._timeout)
        except (OSError, ValueError, OverflowError) as error:  # no host name, no port
            raise SourceError(f"cannot connect to {self.address}: {error}") from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connected
        try:
            return self._encrypted(connected, self._tls)
        except BaseException:
            connected.close()
            raise

    def _encrypted(self, connected: socket.socket, tls: ClientTls) -> socket.socket:
        import ssl  # slow to import

        context = client_context(tls)  # its files may be wrong: InvalidConfigError
        try:
            return context.wrap_socket(connected, server_hostname=self.where[0])
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailedError(
                f"the certificate of {self.address} is not trusted: {error.verify_message}"
            ) from None
        except (OSError, ValueError) as error:
            raise SourceError(
                f"TLS with {self.address} failed: {getattr(error, 'reason', None) or error}; "
                "does that listener use TLS?"
            ) from error

    def _authenticate(self, sasl: ClientSasl) -> None:
        """Prove who this client is, and note when that has to be repeated."""
        # A token takes time, and may fail: before the exchange begins.
        access_token = "" if sasl.tokens is None else fetch_token(sasl.tokens)
        has_requests = ApiKey.SASL_AUTHENTICATE in self.versions
        handshake = self._exchange(
            SaslHandshakeRequest(sasl.mechanism), int(has_requests), SaslHandshakeResponse
        )
        if handshake.error_code not in (0, UNSUPPORTED_SASL_MECHANISM):
            raise AuthenticationFailedError(
                f"the broker at {self.address} answers the handshake with error "
                f"{handshake.error_code}"
            )
        if handshake.error_code:
            raise AuthenticationFailedError(
                f"the broker at {self.address} does not take {sasl.mechanism}; it takes "
                f"{', '.join(handshake.mechanisms) or 'no mechanism'}"
            )
        began, lifetime_ms = time.monotonic(), 0

        def exchange(token: bytes) -> bytes:
            nonlocal lifetime_ms
            request = SaslAuthenticateRequest(token)
            answer = self._exchange(request, self.version_of(request), SaslAuthenticateResponse)
            if answer.error_code:
                raise AuthenticationFailedError(
                    f"authentication at {self.address} failed: "
                    f"{answer.error_message or f'error {answer.error_code}'}"
                )
            lifetime_ms = answer.session_lifetime_ms
            return answer.auth_bytes

        authenticate(sasl, exchange if has_requests else self._exchange_raw, access_token)
        if lifetime_ms > 0:
            self._session_ends = began + lifetime_ms / 1000 * _SHARE_OF_SESSION

    def _exchange_raw(self, token: bytes) -> bytes:
        """A token and its answer as frames without a header: before Kafka 1.0."""
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(_SIZE.pack(len(token)) + token)
            deadline = time.monotonic() + self._timeout
            (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
            if not 0 <= size <= _CHUNK:
                raise SourceError(f"{self.address} answered a token of {size} bytes")
            return bytes(self._receive(size, deadline))
        except SourceError as error:
            raise AuthenticationFailedError(
                f"authentication at {self.address} failed: {error}"
            ) from error
        except OSError as error:
            raise SourceError(f"no answer from {self.address}: {error}") from error

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_versions(self, may_be_old: bool) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="kstore", client_software_version="1")
        try:
            answer = self._exchange(request, 3, ApiVersionsResponse)
            if answer.error_code == UNSUPPORTED_VERSION:
                answer = self._exchange(ApiVersionsRequest(), 0, ApiVersionsResponse)
        except ClosedByBrokerError:
            if not may_be_old:
                raise
            self._socket.close()
            self._unanswered = 0
            self._socket = self._connect()
            return {}
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def version_of(self, request: Request, highest: int | None = None) -> int:
        """The version in which to send a request, at most ``highest``.

        Raises KStoreError with UNSUPPORTED_VERSION if the broker supports none of kstore's
        versions.
        """
        low, high = request.MIN_VERSION, request.MAX_VERSION
        high = high if highest is None else min(high, highest)
        if self.versions:
            theirs = self.versions.get(request.API_KEY)
            if theirs is None or theirs[0] > high or theirs[1] < low:
                error = KStoreError(
                    f"the broker at {self.address} does not support "
                    f"{ApiKey(request.API_KEY).name} requests in versions {low} to {high}"
                )
                error.code = UNSUPPORTED_VERSION
                raise error
            return min(high, theirs[1])
        return low

    def ask(
        self,
        request: Request,
        response: type[Answer],
        *,
        timeout: float = 0.0,
        highest: int | None = None,
    ) -> Answer:
        """Send a request and return its response, of the generated type ``response``.

        ``timeout`` is added to the connection's timeout, for requests that wait at the broker.
        """
        return self.finish(self.begin(request, timeout=timeout, highest=highest), response)

    def begin(self, request: Request, *, timeout: float = 0.0, highest: int | None = None) -> Begun:
        """Send a request, as :meth:`ask`. Its response is received by :meth:`finish`.

        Several may be begun; they are finished in the same order.
        """
        if not self._unanswered:  # an authentication would receive the response instead
            self._renew_session()
        return self._begin(request, self.version_of(request, highest), timeout)

    def finish(self, begun: Begun, response: type[Answer]) -> Answer:
        """Receive the response to the oldest request that was begun."""
        with self._reporting(begun.seconds, begun.api_key):
            now = time.monotonic()
            left = max(begun.deadline - now, min(_GRACE, begun.seconds))
            self._socket.settimeout(left)
            frame = self._receive_frame(now + left, begun.seconds)
        self._unanswered -= 1
        try:
            return self._decode(frame, begun, response)
        except BaseException:
            self.close()  # later responses are not to be trusted either
            raise

    def send(self, request: Request, highest: int | None = None) -> None:
        """Send a request that gets no response: Produce with acks=0."""
        self._renew_session()
        version = self.version_of(request, highest)
        with self._reporting(self._timeout, request.API_KEY):
            self._send(request, version)

    def _renew_session(self) -> None:
        if self._sasl is not None and time.monotonic() >= self._session_ends:
            try:
                self._authenticate(self._sasl)
            except BaseException:  # half an exchange: nothing else can follow on this connection
                self.close()
                raise

    def _exchange(self, request: Request, version: int, response: type[Answer]) -> Answer:
        return self.finish(self._begin(request, version), response)

    def _begin(self, request: Request, version: int, more: float = 0.0) -> Begun:
        seconds = self._timeout + more
        with self._reporting(seconds, request.API_KEY):
            self._socket.settimeout(seconds)
            correlation_id = self._send(request, version)
        self._unanswered += 1
        deadline = time.monotonic() + seconds
        return Begun(request.API_KEY, version, correlation_id, seconds, deadline)

    @contextmanager
    def _reporting(self, seconds: float, api_key: int) -> Iterator[None]:
        """Raise SourceError for errors of the socket, and close the connection."""
        try:
            yield
        except TimeoutError as error:
            self.close()  # the next request would get a late response to this one
            late = NoResponseError(f"no response from {self.address} within {seconds:g} s")
            late.request, late.address = ApiKey(api_key).name, self.address
            raise late from error
        except SourceError:
            raise
        except OSError as error:
            self.close()
            raise ClosedByBrokerError(
                f"the connection to {self.address} is closed: {error}"
            ) from error

    def _decode(self, frame: bytearray, begun: Begun, response: type[Answer]) -> Answer:
        reader = Reader(memoryview(frame).toreadonly())
        try:
            answered = decode_response_header(reader, begun.api_key, begun.version)
            if answered != begun.correlation_id:
                raise SourceError(
                    f"{self.address} responded to request {answered} instead of "
                    f"{begun.correlation_id}"
                )
            is_refused = begun.api_key == ApiKey.API_VERSIONS and frame[4:6] == b"\0\x23"
            return response.decode(reader, 0 if is_refused else begun.version)
        except InvalidMessageError as error:
            raise UndecodableResponseError(
                f"cannot decode the response of {self.address} to "
                f"{ApiKey(begun.api_key).name} version {begun.version}: {error}"
            ) from error

    def _send(self, request: Request, version: int) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        writer = Writer()
        header = RequestHeader(request.API_KEY, version, self._correlation_id, self._client_id)
        header.encode(writer)
        request.encode(writer, version)
        body = b"".join(bytes(chunk) for chunk in writer.chunks())
        self._socket.sendall(_SIZE.pack(len(body)) + body)
        self._metrics.request(_SIZE.size + len(body))
        return self._correlation_id

    def _receive_frame(self, deadline: float, seconds: float) -> bytearray:
        # While other responses were received, this one could not flow: only its size has to be
        # there by the deadline.
        flows_until = max(deadline, time.monotonic() + self._timeout)
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
        if not 4 <= size <= LARGEST_ANSWER:
            self.close()
            raise SourceError(
                f"{self.address} announced a response of {size} bytes: is that a Kafka broker, and "
                "with this security.protocol?"
            )
        self._socket.settimeout(seconds)
        frame = self._receive(size, flows_until)
        self._largest = max(self._largest, size)
        self._metrics.response(_SIZE.size + size)
        return frame

    def _receive(self, size: int, deadline: float) -> bytearray:
        # It grows with what arrives, up to the size of an earlier response at once.
        buffer = bytearray(min(size, max(self._largest, _CHUNK)))
        received, following = 0, _CHUNK
        while received < size:
            if received >= following:
                deadline = max(deadline, time.monotonic() + self._timeout)
                following = received + _CHUNK
            elif received and time.monotonic() > deadline:  # a byte now and then is no response
                raise TimeoutError
            if received == len(buffer):
                buffer += bytes(min(size - received, received))
            with memoryview(buffer) as view, view[received:] as free:
                count = self._socket.recv_into(free)
            if not count:
                self.close()
                raise ClosedByBrokerError(
                    f"{self.address} closed the connection without a response: the broker may not "
                    "support the request, or expects another security protocol"
                )
            received += count
        return buffer
