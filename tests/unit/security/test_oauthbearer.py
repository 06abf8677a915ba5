"""The messages of OAUTHBEARER, and unsecured tokens."""

import pytest

from kstore.clock import now_ms
from kstore.security.oauthbearer import (
    MOST_TOKEN,
    OAuthBearerError,
    initial_response,
    parse_initial_response,
)
from kstore.security.web_tokens import ClaimRules, TokenError, validate_unsecured

RULES = ClaimRules(clock_skew_ms=0, needs_issued_at=False, ignores_audience=True)


def test_messages_that_clients_send_are_parsed() -> None:
    for message, expected in (
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", ("a.b.c", "", {})),
        (b"n,a=x=2Cy=3D,\x01auth=bEARER  a~+/=\x01\x01", ("a~+/=", "x,y=", {})),
        (
            b"n,,\x01host=h\x01port=9092\x01auth=Bearer t\x01traceId=1 2\t3=\x01\x01",
            ("t", "", {"host": "h", "port": "9092", "traceId": "1 2\t3="}),
        ),
    ):
        assert parse_initial_response(message) == expected
    extensions = {"logicalCluster": "lkc-1", "identityPoolId": "pool=1"}
    message = initial_response("a.b.c", extensions)
    assert parse_initial_response(message) == ("a.b.c", "", extensions)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\x01", b"n,,", b"n,,\x01", b"n,,\x01\x01", b"n,,\x01auth=Bearer secret",
        b"n,,\x01auth=Bearer secret\x01", b"y,,\x01auth=Bearer secret\x01\x01",
        b"p=tls,,\x01auth=Bearer secret\x01\x01", b"n,a=,\x01auth=Bearer secret\x01\x01",
        b"n,a=a=b,\x01auth=Bearer secret\x01\x01", b"n,,\x01auth=secret\x01\x01",
        b"n,,\x01auth=Basic secret\x01\x01", b"n,,\x01auth=Bearer sec ret\x01\x01",
        b"n,,\x01auth=Bearer secret\x01auth=Bearer secret\x01\x01",
        b"n,,\x01x=secret\x01\x01", b"n,,\x01auth=Bearer secret\x01a1=b\x01\x01",
        b"n,,\x01auth=Bearer secret\x01a=\x01\x01", b"n,,\x01auth=Bearer secret\x01a=\xff\x01\x01",
        b"n,,\x01auth=Bearer secret\x01\x01\x01", b"n,,\x01auth=Bearer secret\x01a=\0\x01\x01",
        b"n,,\x01auth=Bearer " + b"s" * (MOST_TOKEN + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer secret\x01a=" + b"x" * (2 * MOST_TOKEN) + b"\x01\x01",
        b"\xff" * 100,
    ],
    ids=range(24),
)  # fmt: skip
def test_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(OAuthBearerError) as raised:
        parse_initial_response(message)
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}), ("a b", {}), ("a\x01", {}), ("ä", {}), ("a" * (MOST_TOKEN + 1), {}),
        ("a", {"auth": "x"}), ("a", {"a1": "x"}), ("a", {"a": ""}), ("a", {"a": "\x01"}),
    ],
)  # fmt: skip
def test_a_client_refuses_tokens_and_extensions_that_cannot_be_sent(
    token: str, extensions: dict[str, str]
) -> None:
    with pytest.raises(OAuthBearerError):
        initial_response(token, extensions)


# header: {"alg":"none"}; claims: {"sub":"alice","exp":4102444800,"iat":1} and {"exp":...} alone
NONE, ALICE = "eyJhbGciOiJub25lIn0", "eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwiaWF0IjoxfQ"


def test_an_unsecured_token_is_validated_by_time_and_scope() -> None:
    token = f"{NONE}.{ALICE}."
    assert validate_unsecured(RULES, token, now_ms()).principal == "alice"
    for rules, when in ((RULES, 4_102_444_800_000), (RULES, 0)):
        with pytest.raises(TokenError):
            validate_unsecured(rules, token, when)
    with pytest.raises(TokenError, match="scope"):
        validate_unsecured(
            ClaimRules(required_scopes=frozenset(["a"]), clock_skew_ms=0), token, now_ms()
        )
    for other in (f"{NONE}.{ALICE}", f"{NONE}.{ALICE}.eA", f"e30.{ALICE}.", f"{NONE}.."):
        with pytest.raises(TokenError):
            validate_unsecured(RULES, other, now_ms())
