"""How a client gets its token for OAUTHBEARER: from a file, an OAuth provider, or unsecured.

The settings and JAAS options are those of Kafka's OAuthBearerLoginCallbackHandler (KIP-768) and
OAuthBearerUnsecuredLoginCallbackHandler (KIP-255). Errors contain no token and no secret.
"""

import json
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.client_tls import ClientTls, client_context, read_client_tls
from kstore.security.oauthbearer import MOST_TOKEN, OAuthBearerError, check_extensions
from kstore.security.url_reader import UrlError, check_url, read_url, warn_if_readable
from kstore.security.web_tokens import TokenError, split_token

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_CONNECT, _READ = "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"
_BACKOFF, _BACKOFF_MAX = "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"
_SCOPE_CLAIM, _SUB_CLAIM = "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name"
_URL_ENCODED = "sasl.oauthbearer.header.urlencode"
# The supported settings, with Kafka's defaults. The names of claims have no effect: the client
# does not read them.
OAUTH_LOGIN_SETTINGS = MappingProxyType(
    {
        TOKEN_URL: "",
        _HANDLER: "",
        _CONNECT: "10000",
        _READ: "10000",
        _BACKOFF: "100",
        _BACKOFF_MAX: "10000",
        _SCOPE_CLAIM: "scope",
        _SUB_CLAIM: "sub",
        _URL_ENCODED: "false",
    }
)
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_PROVIDER_HANDLERS = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
)
_UNSECURED_HANDLERS = (
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    f"{_PACKAGE}internals.OAuthBearerUnsecuredLoginCallbackHandler",
)
_UNSECURED = "unsecuredLogin"
_CLAIMS = f"{_UNSECURED}StringClaim_", f"{_UNSECURED}NumberClaim_", f"{_UNSECURED}ListClaim_"
_EXTENSION, _UNSECURED_EXTENSION = "extension_", f"{_UNSECURED}Extension_"
_LIFETIME, _PRINCIPAL_CLAIM = f"{_UNSECURED}LifetimeSeconds", f"{_UNSECURED}PrincipalClaimName"
_UNSECURED_OPTIONS = (_LIFETIME, _PRINCIPAL_CLAIM, f"{_UNSECURED}ScopeClaimName")
_MOST_RESPONSE = 1 << 20
_SECONDS_BETWEEN_ATTEMPTS = 5.0  # while a token is still valid and the provider cannot be reached
_DIGITS, _MOST_NUMBER = 16, 10**15 - 1  # of settings and claims
_LAST_SECOND = 253_402_300_800  # the end of the year 9999
_SHARE_OF_LIFETIME = 0.8  # of a token, after which it is not used for a new connection


class LoginError(Exception):
    """The client gets no token. The message contains no token and no secret."""


@lazy_dataclass(frozen=True, kw_only=True)
class OAuthLogin:
    """Where the token comes from: ``url``, or ``claims`` of an unsecured token."""

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    is_url_encoded: bool = False
    tls: ClientTls = field(default_factory=ClientTls)  # of an https URL
    timeout_seconds: float = 10.0
    backoff_seconds: float = 0.1
    backoff_max_seconds: float = 10.0
    claims: Mapping[str, Any] = field(default_factory=dict)
    lifetime_seconds: int = 3600
    extensions: Mapping[str, str] = field(default_factory=dict)


def read_oauth_login(texts: Mapping[str, str], options: Mapping[str, str]) -> OAuthLogin:
    """Read the settings, which have values for all of OAUTH_LOGIN_SETTINGS, and the JAAS options.

    Raises InvalidConfigError.
    """
    handler = texts[_HANDLER]
    if handler not in ("", *_PROVIDER_HANDLERS, *_UNSECURED_HANDLERS):
        raise InvalidConfigError(
            f"kstore does not support {_HANDLER}={handler[:200]}; it has {_PROVIDER_HANDLERS[0]}"
        )
    prefix = _EXTENSION if texts[TOKEN_URL] else _UNSECURED_EXTENSION
    extensions = {
        name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)
    }
    try:
        check_extensions(extensions)
    except OAuthBearerError as error:
        raise InvalidConfigError(f"sasl.jaas.config: {error}") from None
    if texts[TOKEN_URL]:
        if handler in _UNSECURED_HANDLERS:
            raise InvalidConfigError(f"{TOKEN_URL} and {_HANDLER}={handler} exclude each other")
        return _of_provider(texts, options, extensions)
    if handler in _PROVIDER_HANDLERS or not any(each.startswith(_CLAIMS) for each in options):
        raise InvalidConfigError(
            f"OAUTHBEARER needs {TOKEN_URL}, such as file:///path/token, or for a server that "
            f'accepts unsecured tokens sasl.jaas.config=... {_CLAIMS[0]}sub="alice";'
        )
    return _of_claims(options, extensions)


def _of_provider(
    texts: Mapping[str, str], options: Mapping[str, str], extensions: Mapping[str, str]
) -> OAuthLogin:
    url = check_url(TOKEN_URL, texts[TOKEN_URL])
    warn_if_readable(TOKEN_URL, url, "the secret and the token")
    if urlsplit(url).scheme.lower() != "file":
        for option in ("clientId", "clientSecret"):
            if not options.get(option):
                raise InvalidConfigError(f"sasl.jaas.config has no {option}, which {url} needs")
    if texts[_URL_ENCODED].lower() not in ("true", "false"):
        raise InvalidConfigError(f"{_URL_ENCODED} is true or false")
    backoff, backoff_max, connect, read = (
        _number(each, texts[each], INT32_MAX) / 1000
        for each in (_BACKOFF, _BACKOFF_MAX, _CONNECT, _READ)
    )
    return OAuthLogin(
        url=url,
        client_id=options.get("clientId", ""),
        client_secret=options.get("clientSecret", ""),
        scope=options.get("scope", ""),
        is_url_encoded=texts[_URL_ENCODED].lower() == "true",
        tls=read_client_tls({k: v for k, v in options.items() if k.startswith("ssl.")}),
        timeout_seconds=max(connect, read),
        backoff_seconds=backoff,
        backoff_max_seconds=max(backoff, backoff_max),
        extensions=extensions,
    )


def _of_claims(options: Mapping[str, str], extensions: Mapping[str, str]) -> OAuthLogin:
    texts, numbers, lists = _CLAIMS
    claims: dict[str, Any] = {}
    for name, text in options.items():
        if name.startswith(texts):
            claims[name.removeprefix(texts)] = text
        elif name.startswith(numbers):
            claims[name.removeprefix(numbers)] = _number(name, text)
        elif name.startswith(lists):  # the first character separates the elements
            claims[name.removeprefix(lists)] = text[1:].split(text[0]) if text else []
        elif name.startswith(_UNSECURED) and not (
            name in _UNSECURED_OPTIONS or name.startswith(_UNSECURED_EXTENSION)
        ):
            raise InvalidConfigError(f"sasl.jaas.config: there is no option {name}")
    principal = options.get(_PRINCIPAL_CLAIM, "sub")
    if not claims.get(principal):
        raise InvalidConfigError(f"sasl.jaas.config has no {texts}{principal}")
    return OAuthLogin(
        claims=claims,
        lifetime_seconds=_number(_LIFETIME, options.get(_LIFETIME, "3600")),
        extensions=extensions,
    )


def _number(name: str, text: str, most: int = _MOST_NUMBER) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) < _DIGITS
    if not (is_number and 1 <= int(text) <= most):
        raise InvalidConfigError(f"{name} is a whole number from 1 to {most}, not {text[:200]!r}")
    return int(text)


# --- tokens ---------------------------------------------------------------------------------------


class AccessTokens:
    """The tokens of one login. Thread safe."""

    def __init__(self, login: OAuthLogin) -> None:
        self.login = login
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0  # by time.time: when another is asked for
        self._expires = 0.0

    def get(self) -> str:
        """A token; that of the last call for most of its lifetime. Blocks.

        Where the provider cannot be reached, that of the last call until it expires. Raises
        LoginError.
        """
        with self._lock:
            began = time.time()
            if began >= self._until:
                try:
                    is_needed = began >= self._expires  # else one attempt: others wait for it
                    token = (
                        _retrieve(self.login, is_repeated=is_needed)
                        if self.login.url
                        else _unsecured(self.login)
                    )
                except LoginError:
                    if time.time() >= self._expires:
                        raise
                    self._until = min(time.time() + _SECONDS_BETWEEN_ATTEMPTS, self._expires)
                else:
                    lifetime = _lifetime(token, began)
                    self._token, self._expires = token, began + lifetime
                    self._until = began + _SHARE_OF_LIFETIME * lifetime
            return self._token


def _lifetime(token: str, now: float) -> float:
    """How long the token is valid, in seconds; 0 if that cannot be read."""
    try:
        expires = split_token(token).claims.get("exp")
    except TokenError:
        return 0.0
    if not isinstance(expires, int | float) or not now < expires < _LAST_SECOND:
        return 0.0
    return expires - now


def _unsecured(login: OAuthLogin) -> str:
    now = time.time()
    claims = {"iat": now, "exp": now + login.lifetime_seconds, **login.claims}
    parts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts) + "."


def _retrieve(login: OAuthLogin, *, is_repeated: bool) -> str:
    deadline, wait = time.monotonic() + login.backoff_max_seconds, login.backoff_seconds
    while True:
        try:
            return _ask(login)
        except UrlError as error:
            if error.is_permanent or not is_repeated or time.monotonic() + wait > deadline:
                raise LoginError(f"no token from {login.url}: {error}") from None
        time.sleep(wait)
        wait *= 2


def _ask(login: OAuthLogin) -> str:
    if urlsplit(login.url).scheme.lower() == "file":
        try:
            text = read_url(login.url, MOST_TOKEN).decode("ascii").strip()
        except UnicodeDecodeError:
            raise LoginError(f"{login.url} has no token") from None
        if not text:
            raise LoginError(f"{login.url} has no token")
        return text
    client_id, secret = login.client_id, login.client_secret
    if login.is_url_encoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
    is_https = urlsplit(login.url).scheme.lower() == "https"
    response = read_url(
        login.url,
        _MOST_RESPONSE,
        timeout_seconds=login.timeout_seconds,
        context=client_context(login.tls) if is_https else None,
        data=urlencode(form).encode(),
        headers={
            "Authorization": f"Basic {b64encode(f'{client_id}:{secret}'.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        token = json.loads(response)["access_token"]
    except (ValueError, KeyError, TypeError, RecursionError):
        token = None
    if not isinstance(token, str) or not token.strip():
        raise LoginError(f"the response of {login.url} has no access_token")
    return token.strip()
