"""The settings of OAUTHBEARER: what is half set or not supported stops the start."""

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.oauth_settings import OAuthBearerSettings
from kstore.security.security_settings import security_settings
from kstore.security.web_tokens import ClaimRules

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PACKAGE = "org.apache.kafka.common.security.oauthbearer."
URL = "sasl.oauthbearer.jwks.endpoint.url"
JWKS = "sasl.oauthbearer.jwks.endpoint."
PREFIX = "listener.name.sasl_plaintext."
OF_MECHANISM = f"{PREFIX}oauthbearer."
HANDLER = f"{OF_MECHANISM}sasl.server.callback.handler.class"
JAAS = f"{OF_MECHANISM}sasl.jaas.config"
BASE = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
SIGNED = {**BASE, URL: "file:///keys.json", "kstore.sasl.oauthbearer.without.tls": True}
UNSECURED = {
    **BASE,
    HANDLER: f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
}


def read(base: dict[str, object], **changes: object) -> OAuthBearerSettings:
    [listener] = security_settings({**base, **changes}).listeners
    assert listener.sasl is not None
    assert listener.sasl.oauthbearer is not None
    return listener.sasl.oauthbearer


def test_signed_tokens_with_defaults() -> None:
    expected = OAuthBearerSettings(rules=ClaimRules(), jwks_url="file:///keys.json")
    assert read(SIGNED) == expected
    for name in ("OAuthBearer", "secured.OAuthBearer"):
        handler = f"{PACKAGE}{name}ValidatorCallbackHandler"
        without_effect = {
            f"{OF_MECHANISM}sasl.login.callback.handler.class": "x.Y",
            "sasl.oauthbearer.token.endpoint.url": "http://x",
        }
        found = read(SIGNED, **{HANDLER: handler, JAAS: f"{MODULE} clientId=a;", **without_effect})
        assert found == expected


def test_settings_of_a_mechanism_override_those_of_a_listener() -> None:
    found = read(
        SIGNED,
        **{
            "sasl.oauthbearer.expected.issuer": "broker",
            f"{PREFIX}sasl.oauthbearer.expected.issuer": "listener",
            f"{OF_MECHANISM}sasl.oauthbearer.expected.issuer": "mechanism",
            f"{PREFIX}sasl.oauthbearer.expected.audience": "a, b",
            f"{OF_MECHANISM}{URL}": "https://keys",
            f"{OF_MECHANISM}sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.sub.claim.name": "client",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "7",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "8",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "9",
            JAAS: f"{MODULE} ssl.truststore.type=PEM ssl.truststore.location=ca.pem;",
        },
    )
    assert found.rules == ClaimRules(
        audiences=("a", "b"),
        issuer="mechanism",
        scope_claim="scp",
        sub_claim="client",
        clock_skew_ms=5000,
    )
    assert (found.jwks_url, found.refresh_ms) == ("https://keys", 7)
    assert (found.retry_backoff_ms, found.retry_backoff_max_ms) == (8, 9)
    assert found.tls.truststore is not None
    assert found.tls.truststore.path == "ca.pem"


def test_rules_for_unsecured_tokens_are_read_from_their_options() -> None:
    rules = ClaimRules(clock_skew_ms=0, needs_issued_at=False, ignores_audience=True)
    assert read(UNSECURED) == OAuthBearerSettings(rules=rules)
    options = (
        'unsecuredValidatorPrincipalClaimName="p" unsecuredValidatorScopeClaimName="s" '
        'unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="3000"'
    )
    found = read(UNSECURED, **{JAAS: f"{MODULE} {options};"}).rules
    assert (found.sub_claim, found.scope_claim, found.clock_skew_ms) == ("p", "s", 3000)
    assert found.required_scopes == {"a", "b"}


@pytest.mark.parametrize(
    ("base", "changes", "words"),
    [
        (BASE, {}, "no keys to verify tokens: set sasl.oauthbearer.jwks.endpoint.url"),
        (BASE, {HANDLER: f"{PACKAGE}OAuthBearerValidatorCallbackHandler"}, "no keys to verify"),
        (SIGNED, {HANDLER: "com.example.Handler"}, "does not support .*com.example.Handler"),
        (SIGNED, {"kstore.sasl.oauthbearer.without.tls": False}, "without encryption"),
        (SIGNED, {URL: "keys.json"}, "is a URL"),
        (SIGNED, {JAAS: f"{MODULE} unsecuredValidatorRequiredScope=x;"}, "no effect on signed"),
        (SIGNED, {JAAS: f"{MODULE} ssl.cipher.suites=x;"}, "ssl.cipher.suites"),
        (SIGNED, {JAAS: f"{PACKAGE}Other required;"}, "the login module is"),
        (SIGNED, {"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        (SIGNED, {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
        (SIGNED, {f"{JWKS}refresh.ms": "9" * 5000}, f"{JWKS}refresh.ms .*at least 1"),
        (SIGNED, {f"{JWKS}retry.backoff.ms": "0"}, f"{JWKS}retry.backoff.ms .*at least 1"),
        (SIGNED, {f"{JWKS}retry.backoff.ms": "-5"}, f"{JWKS}retry.backoff.ms .*at least 1"),
        (
            SIGNED,
            {f"{JWKS}retry.backoff.max.ms": f"{2**31}"},
            "backoff.max.ms .*at most 2147483647",
        ),
        (SIGNED, {URL: "https://keys:0/"}, f"{URL} has the port 0"),
        (SIGNED, {URL: "https://keys:65536/"}, f"{URL} is no URL: Port out of range"),
        (SIGNED, {"sasl.server.callback.handler.class": "x.Y"}, "does not support"),
        (SIGNED, {f"{OF_MECHANISM}sasl.oauthbearer.expected.isuer": "x"}, "does not support"),
        (SIGNED, {f"{PREFIX}plain.{URL}": "file:///x"}, "does not support"),
        (UNSECURED, {URL: "file:///keys.json"}, "protects nothing"),
        (UNSECURED, {"sasl.oauthbearer.expected.issuer": "x"}, "protects nothing"),
        (UNSECURED, {JAAS: f"{MODULE} unsecuredValidatorAllowableClockSkewMs=x;"}, "of ms"),
    ],
)
def test_wrong_oauth_settings_are_refused(
    base: dict[str, object], changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        read(base, **changes)
