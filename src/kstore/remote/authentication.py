"""The client side of SASL on a connection: SaslHandshake, then tokens (KIP-43, KIP-152)."""

import secrets
from collections.abc import Callable, Generator, Mapping

from kstore.errors import KStoreError
from kstore.security.client_settings import PLAIN, ClientSasl
from kstore.security.oauth_login import AccessTokens, LoginError
from kstore.security.oauthbearer import END_OF_ERROR, OAuthBearerError, initial_response
from kstore.security.scram import ScramError
from kstore.security.scram_client import ScramClient

SASL_AUTHENTICATION_FAILED = 58
_NONCE_SIZE = 18  # bytes of randomness


class AuthenticationFailedError(KStoreError):
    """The broker or the client failed to authenticate. Not retriable."""

    code = SASL_AUTHENTICATION_FAILED


def authenticate(
    sasl: ClientSasl, exchange: Callable[[bytes], bytes], access_token: str = ""
) -> None:
    """Run one authentication; ``exchange`` sends a token of SASL and returns the broker's.

    ``access_token`` is that of OAUTHBEARER. Raises AuthenticationFailedError, and the errors of
    ``exchange``.
    """
    if sasl.tokens is not None:
        steps = _oauthbearer(access_token, sasl.tokens.login.extensions)
    else:
        steps = _plain(sasl) if sasl.mechanism == PLAIN else _scram(sasl)
    try:
        token = next(steps)
        while True:
            token = steps.send(exchange(token))
    except StopIteration:
        return
    except ScramError as error:
        raise AuthenticationFailedError(f"{error}; is that the broker?") from None
    except OAuthBearerError as error:
        raise AuthenticationFailedError(str(error)) from None


def fetch_token(tokens: AccessTokens) -> str:
    """A valid token. Blocks. Raises AuthenticationFailedError."""
    try:
        return tokens.get()
    except LoginError as error:
        raise AuthenticationFailedError(str(error)) from None


def _plain(sasl: ClientSasl) -> Generator[bytes, bytes]:
    yield b"\0".join((b"", sasl.user.encode(), sasl.password.encode()))


def _scram(sasl: ClientSasl) -> Generator[bytes, bytes]:
    nonce = secrets.token_urlsafe(_NONCE_SIZE)
    client = ScramClient(sasl.mechanism, sasl.user, sasl.password, nonce)
    answer = yield client.first()
    answer = yield client.final(answer)
    client.finish(answer)


def _oauthbearer(token: str, extensions: Mapping[str, str]) -> Generator[bytes, bytes]:
    answer = yield initial_response(token, extensions)
    if answer:  # JSON about the error: the broker's response to this message has it, too
        yield END_OF_ERROR
        raise OAuthBearerError("the broker does not accept the token")
