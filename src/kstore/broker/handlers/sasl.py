"""SaslHandshake and SaslAuthenticate: SASL authentication."""

import logging
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.authentication import AuthenticationError
from kstore.broker.request import Answer, CloseConnection, Pending, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kstore.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kstore.broker.connection import Connection
    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_AFTER = "SaslAuthenticate request received after successful authentication"


class SaslHandlers:
    """Serves authentication. Loop's thread only."""

    def __init__(self, services: "Services") -> None:
        self._loop = services.loop

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.SASL_HANDSHAKE, 0, 1, self.handshake),
            Api(ApiKey.SASL_AUTHENTICATE, 0, 2, self.authenticate),
        ]

    def handshake(self, request: Request) -> Answer:
        """Select a mechanism. After version 0 the client sends tokens as frames without a
        header."""
        message = SaslHandshakeRequest.decode(request.reader, request.api_version)
        connection = request.connection
        session = connection.session
        authentication = None if session is None else session.authentication
        if session is None or authentication is None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        error = authentication.begin(message.mechanism, is_raw=request.api_version == 0)
        if error == ErrorCode.NONE:
            session.begin_authentication()
        response = SaslHandshakeResponse(error, authentication.mechanisms)
        if error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            _LOGGER.info("%s: rejected, the client requested an unsupported mechanism", connection)
            connection.end_after_answers()
        return response

    def authenticate(self, request: Request) -> Answer:
        """Process a token. On failure, respond after a delay and close the connection."""
        message = SaslAuthenticateRequest.decode(request.reader, request.api_version)
        connection = request.connection
        session = connection.session
        authentication = None if session is None else session.authentication
        if session is None or authentication is None or not connection.is_authenticating:
            return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _AFTER)
        if authentication.is_raw:
            raise CloseConnection("SaslAuthenticate after SaslHandshake 0")
        try:
            token, principal = authentication.step(message.auth_bytes)
        except AuthenticationError as error:
            return self._refused(connection, session.failure_delay_seconds, error)
        lifetime_ms = 0
        if principal is not None:
            lifetime_ms = authentication.lifetime_ms
            session.authenticated(principal, lifetime_ms)
        return SaslAuthenticateResponse(ErrorCode.NONE, None, token, lifetime_ms)

    def _refused(
        self, connection: "Connection", delay: float, error: AuthenticationError
    ) -> Answer:
        _LOGGER.info("%s: authentication failed: %s", connection, error.reason)
        pending = Pending()

        def answer() -> None:
            if not pending.is_cancelled:
                connection.end_after_answers()
                pending.complete(
                    SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
                )

        timer = self._loop.call_later(delay, answer)
        pending.on_cancel = timer.cancel
        return pending
