"""One connection to a broker, which uses the highest version that both sides support.

Requests and responses are frames: an int32 size, then that many bytes. ApiVersions (KIP-35) gives
the versions that a broker supports. A broker before 0.10 closes the connection upon that request,
and is then used with version 0. With TLS the socket is encrypted first; with SASL the client
authenticates after ApiVersions, and again before its session ends (KIP-368).
"""

import socket
import struct
import time
from typing import ClassVar, Protocol, Self, TypeVar

from kstore.errors import KStoreError, SourceError
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
from kstore.security.client_settings import ClientSasl, ClientSecurity
from kstore.security.client_tls import ClientTls, client_context

_PLAINTEXT = ClientSecurity()
_SHARE_OF_SESSION = 0.85  # of a session's time, after which the client authenticates again
_SIZE = struct.Struct(">i")
_CHUNK = 1 << 20  # bytes received at a time, so that a response's claimed size allocates nothing
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


class Connection:
    """A connection to one broker. For one thread. ``close`` it, or use it in ``with``.

    Raises SourceError if the broker is unreachable or does not respond within ``timeout`` seconds,
    and AuthenticationFailedError if either side fails to authenticate.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "kstore",
        timeout: float = 30.0,
        security: ClientSecurity = _PLAINTEXT,
    ) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._where = (host, port)
        self._timeout = timeout
        self._tls, self._sasl = security.tls, security.sasl
        self._session_ends = float("inf")  # by time.monotonic
        self._socket = self._connect()
        try:
            self.versions = self._ask_versions()  # empty for a broker before 0.10
            if self._sasl is not None:
                self._authenticate(self._sasl)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection(self._where, timeout=self._timeout)
        except OSError as error:
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

        try:
            return client_context(tls).wrap_socket(connected, server_hostname=self._where[0])
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailedError(
                f"the certificate of {self.address} is not trusted: {error.verify_message}"
            ) from None
        except OSError as error:
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
            (size,) = _SIZE.unpack(self._receive(_SIZE.size))
            if not 0 <= size <= _CHUNK:
                raise SourceError(f"{self.address} answered a token of {size} bytes")
            return self._receive(size)
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

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="kstore", client_software_version="1")
        try:
            answer = self._exchange(request, 3, ApiVersionsResponse)
            if answer.error_code == UNSUPPORTED_VERSION:
                answer = self._exchange(ApiVersionsRequest(), 0, ApiVersionsResponse)
        except ClosedByBrokerError:  # a broker before 0.10, or one that is shutting down
            self._socket.close()
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
        self._renew_session()
        return self._exchange(request, self.version_of(request, highest), response, timeout)

    def send(self, request: Request) -> None:
        """Send a request that gets no response: Produce with acks=0."""
        self._renew_session()
        self._send(request, self.version_of(request))

    def _renew_session(self) -> None:
        if self._sasl is not None and time.monotonic() >= self._session_ends:
            try:
                self._authenticate(self._sasl)
            except BaseException:  # half an exchange: nothing else can follow on this connection
                self.close()
                raise

    def _exchange(
        self, request: Request, version: int, response: type[Answer], more: float = 0.0
    ) -> Answer:
        try:
            self._socket.settimeout(self._timeout + more)
            correlation_id = self._send(request, version)
            frame = self._receive_frame()
        except TimeoutError as error:
            self.close()  # the next request would get a late response to this one
            raise SourceError(
                f"no response from {self.address} within {self._timeout + more:g} s"
            ) from error
        except SourceError:
            raise
        except OSError as error:
            self.close()
            raise ClosedByBrokerError(
                f"the connection to {self.address} is closed: {error}"
            ) from error
        reader = Reader(frame)
        answered = decode_response_header(reader, request.API_KEY, version)
        if answered != correlation_id:
            self.close()
            raise SourceError(
                f"{self.address} responded to request {answered} instead of {correlation_id}"
            )
        is_refused = request.API_KEY == ApiKey.API_VERSIONS and frame[4:6] == b"\0\x23"
        return response.decode(reader, 0 if is_refused else version)

    def _send(self, request: Request, version: int) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        writer = Writer()
        header = RequestHeader(request.API_KEY, version, self._correlation_id, self._client_id)
        header.encode(writer)
        request.encode(writer, version)
        body = b"".join(bytes(chunk) for chunk in writer.chunks())
        self._socket.sendall(_SIZE.pack(len(body)) + body)
        return self._correlation_id

    def _receive_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        if not 4 <= size <= LARGEST_ANSWER:
            self.close()
            raise SourceError(
                f"{self.address} announced a response of {size} bytes: is that a Kafka broker, and "
                "with this security.protocol?"
            )
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(min(size - len(received), _CHUNK))
            if not data:
                self.close()
                raise ClosedByBrokerError(
                    f"{self.address} closed the connection without a response: the broker may not "
                    "support the request, or expects another security protocol"
                )
            received += data
        return bytes(received)
