"""Who a connection's client is: by its TLS certificate or by SASL, and until when.

Kafka's SaslServerAuthenticator decides likewise which requests a channel may send.
"""

import logging
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING

from kstore.broker.api_table import api_name
from kstore.broker.authentication import ALLOWED_BEFORE, Authentication, AuthenticationError
from kstore.broker.request import CloseConnection
from kstore.security.principal import Principal, user
from kstore.security.tls import distinguished_name

if TYPE_CHECKING:
    from kstore.broker.connection import Connection
    from kstore.broker.listener import Listener
    from kstore.broker.loop import Timer
    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_KEY = Struct(">h")


class ClientSession:
    """The client's session on a listener with TLS or SASL, from the accepted socket on.

    It decides when its connection serves nothing but authentication, and for which principal it
    serves the rest. Loop's thread only.
    """

    def __init__(
        self, connection: "Connection", services: "Services", listener: "Listener"
    ) -> None:
        self._connection = connection
        self._loop = services.loop
        assert services.security is not None
        self._security = services.security
        assert listener.security is not None
        self._listener = security = listener.security
        self._timer: Timer | None = None  # until the client must have authenticated, again
        self.authentication: Authentication | None = None  # None: SASL is not required
        if security.sasl is not None:
            assert services.credentials is not None
            self.authentication = Authentication(
                security.sasl, services.credentials, listener.validate_token
            )
            connection.limit_frames(security.sasl.max_receive_size)
            self.begin_authentication()
        if security.sasl is not None or security.tls is not None:
            self._timer = self._loop.call_later(
                self._security.handshake_timeout_ms / 1000, self._expired
            )

    @property
    def failure_delay_seconds(self) -> float:
        """Delay before the response to a failed authentication, which slows down guessing."""
        return self._security.failed_authentication_delay_ms / 1000

    def secured(self, certificate: Mapping[str, object]) -> None:
        """The TLS handshake is complete; ``certificate`` is the client's, empty if it sent none."""
        tls = self._listener.tls
        assert tls is not None
        if self.authentication is not None:
            return  # SASL determines the principal
        self.cancel_timer()
        if certificate:
            name = tls.mapper.name_of(distinguished_name(certificate))
            if name is None:
                reason = "no rule of ssl.principal.mapping.rules matches its certificate"
                self._connection.close(reason)
            else:
                self._connection.principal = user(name)

    def begin_authentication(self) -> None:
        """Serve nothing but authentication, until ``authenticated``."""
        assert self.authentication is not None
        self._connection.serve_only(self.authentication)

    def authenticated(self, principal: Principal, lifetime_ms: int) -> None:
        """Serve all APIs to this principal; for ``lifetime_ms``, unless that is 0."""
        self._connection.serve_all(principal)
        self.cancel_timer()
        if lifetime_ms:
            self._timer = self._loop.call_later(lifetime_ms / 1000, self.begin_authentication)

    def answer_token(self, gate: Authentication, frame: memoryview) -> bytes | None:
        """The response to a frame that is a SASL token; None where it is a request to be served.

        Raises CloseConnection for a request other than authentication, and AuthenticationError
        for a refused token, to which there is no response.
        """
        if not gate.is_raw:
            key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
            if key in ALLOWED_BEFORE:
                return None
            raise CloseConnection(f"{api_name(key)} before the client has authenticated")
        try:
            answer, principal = gate.step(bytes(frame))
        except AuthenticationError as error:
            _LOGGER.info("%s: authentication failed: %s", self._connection, error.reason)
            raise
        if principal is not None:
            self.authenticated(principal, gate.lifetime_ms)
        return answer

    def cancel_timer(self) -> None:
        """Wait for no authentication: it is complete, or the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._connection.close("it did not authenticate in time")
