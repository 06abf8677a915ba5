"""Reads the settings of OAUTHBEARER on one listener (KIP-255, KIP-768).

``listener.name.<listener>.oauthbearer.<setting>`` overrides ``listener.name.<listener>.<setting>``,
which overrides ``<setting>``, as in Kafka.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.client_tls import ClientTls, read_client_tls
from kstore.security.listeners import ListenerAddress
from kstore.security.oauthbearer import OAUTHBEARER
from kstore.security.setting_texts import (
    MOST_NUMBER,
    OAUTHBEARER_WITHOUT_TLS,
    SERVER_CALLBACK,
    SettingTexts,
    listener_setting,
)
from kstore.security.url_reader import check_url
from kstore.security.web_tokens import ClaimRules

if TYPE_CHECKING:
    from kstore.security.jaas import JaasConfig

_PREFIX = "sasl.oauthbearer."
JWKS_URL = f"{_PREFIX}jwks.endpoint.url"
_REFRESH = f"{_PREFIX}jwks.endpoint.refresh.ms"
_BACKOFF = f"{_PREFIX}jwks.endpoint.retry.backoff.ms"
_BACKOFF_MAX = f"{_PREFIX}jwks.endpoint.retry.backoff.max.ms"
_AUDIENCE, _ISSUER = f"{_PREFIX}expected.audience", f"{_PREFIX}expected.issuer"
_SCOPE, _SUB = f"{_PREFIX}scope.claim.name", f"{_PREFIX}sub.claim.name"
_SKEW = f"{_PREFIX}clock.skew.seconds"
OAUTH_SETTINGS = frozenset(
    (JWKS_URL, _REFRESH, _BACKOFF, _BACKOFF_MAX, _AUDIENCE, _ISSUER, _SCOPE, _SUB, _SKEW)
)
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
# Kafka moved both classes; the old names stay in configurations.
SIGNED_HANDLERS = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLERS = (
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    f"{_PACKAGE}internals.OAuthBearerUnsecuredValidatorCallbackHandler",
)
_UNSECURED = "unsecuredValidator"


@lazy_dataclass(frozen=True, kw_only=True)
class OAuthBearerSettings:
    """Which tokens a listener accepts. Without ``jwks_url`` these are unsecured ones."""

    rules: ClaimRules
    jwks_url: str = ""
    tls: ClientTls = field(default_factory=ClientTls)  # of an https URL
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


def read_oauth_settings(
    texts: SettingTexts, where: ListenerAddress, config: "JaasConfig | None"
) -> OAuthBearerSettings:
    """Read the settings of a listener. Raises InvalidConfigError."""
    return _Reader(texts, where, {} if config is None else config.options).read()


class _Reader:
    def __init__(
        self, texts: SettingTexts, where: ListenerAddress, options: Mapping[str, str]
    ) -> None:
        self._texts = texts
        self._where = where
        self._options = options

    def read(self) -> OAuthBearerSettings:
        listener = self._where.name
        handler_name = listener_setting(listener, f"oauthbearer.{SERVER_CALLBACK}")
        handler = ""
        if self._texts.is_set(handler_name):
            handler = self._texts.text(handler_name)
            if handler not in (*SIGNED_HANDLERS, *UNSECURED_HANDLERS):
                raise InvalidConfigError(
                    f"this broker does not support {handler_name}={handler[:200]}; it has "
                    f"{SIGNED_HANDLERS[0]} and {UNSECURED_HANDLERS[0]}"
                )
        if handler in UNSECURED_HANDLERS:
            return self._unsecured(handler_name)
        if not self._text(JWKS_URL):
            raise InvalidConfigError(
                f"listener {listener} has {OAUTHBEARER} but no keys to verify tokens: set "
                f"{JWKS_URL}. To accept tokens that any client can write, set "
                f"{handler_name}={UNSECURED_HANDLERS[0]}"
            )
        return self._signed()

    def _signed(self) -> OAuthBearerSettings:
        name = self._where.name
        if not self._where.uses_tls and not self._texts.flag(OAUTHBEARER_WITHOUT_TLS):
            raise InvalidConfigError(
                f"listener {name} would accept tokens without encryption, which anyone who reads "
                f"them can use: use SASL_SSL, or allow it with {OAUTHBEARER_WITHOUT_TLS}=true"
            )
        for option in self._options:
            if option.startswith(_UNSECURED):
                raise InvalidConfigError(
                    f"listener {name}: the option {option} has no effect on signed tokens; remove "
                    f"it, or {JWKS_URL}"
                )
        backoff = self._number(_BACKOFF, 1, INT32_MAX)
        return OAuthBearerSettings(
            rules=ClaimRules(
                audiences=tuple(self._texts.names(self._source(_AUDIENCE), name)),
                issuer=self._text(_ISSUER),
                scope_claim=self._text(_SCOPE),
                sub_claim=self._text(_SUB),
                clock_skew_ms=self._number(_SKEW, 0) * 1000,
            ),
            jwks_url=check_url(JWKS_URL, self._text(JWKS_URL)),
            tls=read_client_tls(
                {key: value for key, value in self._options.items() if key.startswith("ssl.")}
            ),
            refresh_ms=self._number(_REFRESH, 1),
            retry_backoff_ms=backoff,
            retry_backoff_max_ms=max(backoff, self._number(_BACKOFF_MAX, 1, INT32_MAX)),
        )

    def _unsecured(self, handler_name: str) -> OAuthBearerSettings:
        for setting in (JWKS_URL, _AUDIENCE, _ISSUER):
            if self._text(setting):
                raise InvalidConfigError(
                    f"{setting} protects nothing, since {handler_name} accepts unsecured tokens"
                )
        options = self._options
        skew = options.get(f"{_UNSECURED}AllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdecimal() and len(skew) < 12):
            raise InvalidConfigError(f"{_UNSECURED}AllowableClockSkewMs is a number of ms")
        return OAuthBearerSettings(
            rules=ClaimRules(
                scope_claim=options.get(f"{_UNSECURED}ScopeClaimName", "scope"),
                sub_claim=options.get(f"{_UNSECURED}PrincipalClaimName", "sub"),
                required_scopes=frozenset(options.get(f"{_UNSECURED}RequiredScope", "").split()),
                clock_skew_ms=int(skew),
                needs_issued_at=False,
                ignores_audience=True,
            )
        )

    def _source(self, setting: str) -> str:
        own = listener_setting(self._where.name, f"oauthbearer.{setting}")
        return own if self._texts.is_set(own) else setting

    def _text(self, setting: str) -> str:
        return self._texts.text(self._source(setting), self._where.name)

    def _number(self, setting: str, low: int, most: int = MOST_NUMBER) -> int:
        return self._texts.number(self._source(setting), low, self._where.name, most)
