"""How a client gets its token."""

import base64
import time
from pathlib import Path

import pytest

from kstore.clock import now_ms
from kstore.errors import InvalidConfigError
from kstore.security.client_settings import client_security
from kstore.security.oauth_login import AccessTokens, LoginError
from kstore.security.web_tokens import ClaimRules, split_token, validate_unsecured
from support.http_server import web_server
from support.token_issuer import SigningKey, claims_of

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = 'clientId="app" clientSecret="hidden" scope="a b" extension_cluster="c-1"'


def tokens_of(options: str = "", **settings: str) -> AccessTokens:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE}{options};",
        "sasl.login.retry.backoff.ms": "1",
        "sasl.login.retry.backoff.max.ms": "100",
        **settings,
    }
    found = client_security(given).sasl
    assert found is not None
    assert found.tokens is not None
    assert "hidden" not in repr(found)
    return found.tokens


@pytest.mark.parametrize(
    ("options", "settings", "text"),
    [
        ("", {}, f"OAUTHBEARER needs {URL}"),
        ("", {URL: "token.txt"}, "is a URL"),
        ("", {URL: "http://a/b"}, "no clientId"),
        ('clientId="hidden"', {URL: "http://a/b"}, "no clientSecret"),
        (CREDENTIALS, {}, "needs"),
        (CREDENTIALS + " extension_auth=x", {URL: "http://a/b"}, "extension"),
        (CREDENTIALS + " ssl.cipher.suites=x", {URL: "http://a/b"}, "ssl.cipher.suites"),
        (CREDENTIALS, {URL: "http://a/b", "sasl.login.read.timeout.ms": "0"}, "read.timeout"),
        (CREDENTIALS, {URL: "http://a/b", "sasl.login.retry.backoff.ms": f"{10**12}"},
         "backoff.ms .*from 1 to 2147483647"),
        (CREDENTIALS, {URL: "http://a:0/b"}, f"{URL} has the port 0"),
        (CREDENTIALS, {URL: "http://a/b", "sasl.oauthbearer.header.urlencode": "x"}, "true or"),
        ("unsecuredLoginStringClaim_sub=a", {"sasl.login.callback.handler.class": "x.Y"}, "x.Y"),
        ("unsecuredLoginStringClaim_sub=a", {"sasl.login.callback.handler.class": HANDLER},
         f"needs {URL}"),
        ("unsecuredLoginStringClaim_a=a", {}, "no unsecuredLoginStringClaim_sub"),
        ("unsecuredLoginStringClaim_sub=a unsecuredLoginX=hidden", {}, "no option"),
        ("unsecuredLoginStringClaim_sub=a unsecuredLoginLifetimeSeconds=-1", {}, "Lifetime"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(options: str, settings: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidConfigError, match=text) as raised:
        tokens_of(options, **settings)
    assert "hidden" not in str(raised.value)


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = tokens_of(**{URL: path.as_uri(), "sasl.login.callback.handler.class": HANDLER})
    with pytest.raises(LoginError, match=str(tmp_path)):
        tokens.get()
    for wrong in (b"", b"\n", b"\xff"):
        path.write_bytes(wrong)
        with pytest.raises(LoginError, match="has no token"):
            tokens.get()
    path.write_text("opaque\n")
    assert tokens.get() == "opaque"
    short = SigningKey("k").sign(claims_of(seconds=-1))
    path.write_text(short)
    assert tokens.get() == short  # the one before has no time until which it can be used
    long = SigningKey("k").sign(claims_of())
    path.write_text(long)
    assert tokens.get() == long
    path.write_text("other")
    assert tokens.get() == long


def test_client_credentials_are_exchanged_for_a_token_with_retries() -> None:
    with web_server() as server:
        patience = {"sasl.login.retry.backoff.max.ms": "2000"}  # on a busy machine, too
        tokens = tokens_of(CREDENTIALS, **{URL: f"{server.url}/token", **patience})
        server.answers["/token"] = 200, b'{"access_token": " a.b.c ", "expires_in": 60}'
        assert tokens.get() == "a.b.c"
        assert tokens.login.extensions == {"cluster": "c-1"}
        [asked] = server.asked
        assert asked.method == "POST"
        assert asked.body == b"grant_type=client_credentials&scope=a+b"
        assert asked.headers["Authorization"] == (
            f"Basic {base64.b64encode(b'app:hidden').decode()}"
        )
        responses = iter([(503, b"hidden"), (500, b""), (200, b'{"access_token": "t"}')])
        server.answers["/token"] = lambda: next(responses)
        assert tokens.get() == "t"  # after two retries
        for status, body in (
            (401, b"hidden"), (200, b"hidden"), (200, b"[]"), (200, b"{}"), (200, b"[" * 100_000),
            (200, b'{"access_token": 7}'), (200, b'{"access_token": ""}'),
            (200, b'{"access_token": "' + b"x" * (1 << 20) + b'"}'), (503, b"hidden"),
        ):  # fmt: skip
            server.answers["/token"] = status, body
            with pytest.raises(LoginError) as raised:
                tokens.get()
            assert server.url in str(raised.value)
            assert "hidden" not in str(raised.value)


def test_client_credentials_as_form_values() -> None:
    with web_server() as server:
        server.answers["/token"] = 200, b'{"access_token": "t"}'
        tokens = tokens_of(
            'clientId="a:b" clientSecret="c d"',
            **{URL: f"{server.url}/token", "sasl.oauthbearer.header.urlencode": "true"},
        )
        tokens.get()
        [asked] = server.asked
        assert asked.headers["Authorization"] == f"Basic {base64.b64encode(b'a%3Ab:c+d').decode()}"


def test_an_unsecured_token_has_the_claims_of_its_options() -> None:
    tokens = tokens_of(
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginNumberClaim_level="7" unsecuredLoginLifetimeSeconds="60" '
        'unsecuredLoginExtension_traceId="1"'
    )
    token = tokens.get()
    assert tokens.get() == token
    rules = ClaimRules(required_scopes=frozenset(["a", "b"]), ignores_audience=True)
    found = validate_unsecured(rules, token, now_ms())
    assert found.principal == "alice"
    assert 0 < found.expires_ms - time.time() * 1000 <= 60_000
    assert split_token(token).claims["level"] == 7
    assert tokens.login.extensions == {"traceId": "1"}


def test_a_token_is_used_while_it_is_valid_and_the_provider_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, answers = [1_000_000.0], [SigningKey("k").sign({"exp": 1_000_100}), None, None]

    def ask(login: object) -> str:
        answer = answers.pop(0)
        if answer is None:
            raise LoginError("the provider does not answer")
        return answer

    monkeypatch.setattr("kstore.security.oauth_login._ask", ask)
    monkeypatch.setattr("kstore.security.oauth_login.time.time", lambda: now[0])
    tokens = tokens_of('clientId="a" clientSecret="b"', **{URL: "http://127.0.0.1:1/token"})
    first = tokens.get()
    now[0] += 81  # 80 % of its lifetime: another is asked for
    assert (tokens.get(), len(answers)) == (first, 1)
    now[0] += 1
    assert (tokens.get(), len(answers)) == (first, 1)  # not at each call
    now[0] += 20
    with pytest.raises(LoginError, match="does not answer"):
        tokens.get()
