"""The SASL exchange of one connection (Kafka's SaslServerAuthenticator).

Each mechanism is loaded when a client first uses it.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kstore.clock import now_ms
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.security.principal import Principal, user
from kstore.security.security_settings import OAUTHBEARER, PLAIN

if TYPE_CHECKING:
    from kstore.security.credentials import Credentials
    from kstore.security.scram import ScramExchange
    from kstore.security.security_settings import SaslSettings
    from kstore.security.web_tokens import TokenValidator

ALLOWED_BEFORE = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE))
_INVALID_TOKEN = '{"status":"invalid_token"}'
_NONCE_SIZE = 18  # bytes of randomness
_MOST_LIFETIME_MS = 0x7FFF_FFFF_FFFF_FFFF


class AuthenticationError(Exception):
    """The client failed to authenticate. The message is sent to it, ``reason`` is logged; neither
    contains a secret."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text


class Authentication:
    """One connection's authentication, from SaslHandshake on, and its re-authentications (KIP-368).

    ``is_raw``: the client sends tokens as bare frames without request headers, as it does after
    SaslHandshake 0. Loop's thread only.
    """

    __slots__ = (
        "_credentials",
        "_exchange",
        "_expires_ms",
        "_refused",
        "_sasl",
        "_validate_token",
        "is_raw",
        "mechanism",
        "principal",
    )

    def __init__(
        self,
        sasl: "SaslSettings",
        credentials: "Credentials",
        validate_token: "TokenValidator | None" = None,
    ) -> None:
        self._sasl = sasl
        self._credentials = credentials
        self._validate_token = validate_token
        self._expires_ms: int | None = None  # of the token of OAUTHBEARER
        self._refused = ""  # why the token of this exchange is not valid
        self._exchange: Callable[[bytes], tuple[bytes, str | None]] | None = None
        self.mechanism = ""
        self.principal: Principal | None = None  # of the exchange that succeeded
        self.is_raw = False

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms that the listener offers."""
        return list(self._sasl.mechanisms)

    @property
    def may_repeat(self) -> bool:
        """Whether sessions expire, so that clients re-authenticate on the same connection."""
        return self.mechanism == OAUTHBEARER or any(self._sasl.max_reauth_ms.values())

    def begin(self, mechanism: str, *, is_raw: bool) -> ErrorCode:
        """Begin an exchange; return an error if the mechanism is not offered, or if
        re-authentication would change it."""
        if self._exchange is not None or (self.principal is not None and not self.may_repeat):
            return ErrorCode.ILLEGAL_SASL_STATE
        if self.principal is not None and mechanism != self.mechanism:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._sasl.mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism, self.is_raw = mechanism, is_raw
        if mechanism == PLAIN:
            self._exchange = self._plain
        elif mechanism == OAUTHBEARER:
            self._refused = ""
            self._exchange = self._oauthbearer
        else:
            import secrets

            from kstore.security.scram import ScramExchange

            exchange = ScramExchange(
                mechanism,
                partial(self._credentials.find, mechanism),
                partial(secrets.token_urlsafe, _NONCE_SIZE),
            )
            self._exchange = partial(self._scram, exchange)
        return ErrorCode.NONE

    def step(self, token: bytes) -> tuple[bytes, Principal | None]:
        """Return the response to a token, and the principal if the token completes the exchange.

        Raises AuthenticationError, after which the connection must be closed.
        """
        if self._exchange is None:
            raise AuthenticationError("SaslAuthenticate without a SaslHandshake before it")
        answer, name = self._exchange(token)
        if name is None:
            return answer, None
        proven = user(name)
        if self.principal is not None and self.principal != proven:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from another one"
            )
        self.principal, self._exchange, self.is_raw = proven, None, False
        return answer, proven

    @property
    def lifetime_ms(self) -> int:
        """How long an authentication is valid; 0: without limit. A token bounds it (KIP-368)."""
        most = min(self._sasl.max_reauth_ms.get(self.mechanism, 0), _MOST_LIFETIME_MS)
        if self._expires_ms is None:
            return most
        left = max(self._expires_ms - now_ms(), 1)  # with clock skew, it may have expired
        return min(left, most or left)

    def _plain(self, token: bytes) -> tuple[bytes, str | None]:
        from kstore.security.plain import PlainError, check_plain

        try:
            return b"", check_plain(token, self._sasl.plain_users)
        except PlainError as error:
            raise AuthenticationError(str(error)) from None

    def _scram(self, exchange: "ScramExchange", token: bytes) -> tuple[bytes, str | None]:
        from kstore.security.scram import ScramError

        try:
            answer = exchange.step(token)
        except ScramError:
            raise AuthenticationError(
                "Authentication failed during authentication due to invalid credentials with "
                f"SASL mechanism {self.mechanism}"
            ) from None
        return answer, exchange.user if exchange.is_complete else None

    def _oauthbearer(self, message: bytes) -> tuple[bytes, str | None]:
        """As Kafka's OAuthBearerSaslServer: a token that is not valid has JSON as its response,
        which the client confirms, and only then the exchange fails (RFC 7628)."""
        from kstore.security.oauthbearer import OAuthBearerError, parse_initial_response
        from kstore.security.web_tokens import TokenError

        if self._refused:
            raise AuthenticationError(_INVALID_TOKEN, f"the token is not valid: {self._refused}")
        try:
            response = parse_initial_response(message)
        except OAuthBearerError as error:
            raise AuthenticationError(str(error)) from None
        assert self._validate_token is not None
        try:
            token = self._validate_token(response.token, now_ms())
        except TokenError as error:
            self._refused = str(error)
            return _INVALID_TOKEN.encode(), None
        if response.authorization_id not in ("", token.principal):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        self._expires_ms = token.expires_ms
        return b"", token.principal
