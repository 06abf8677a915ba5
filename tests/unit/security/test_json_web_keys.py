"""Signed tokens: which are valid, and hostile ones."""

import base64
import hashlib
import hmac
import json
import sys
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kstore.clock import now_ms
from kstore.errors import InvalidConfigError
from kstore.security.json_web_keys import MOST_KEYS, JsonWebKeys, UnknownKeyError
from kstore.security.web_tokens import AccessToken, ClaimRules, TokenError
from support.token_issuer import AUDIENCE, ISSUER, SigningKey, claims_of, key_set

KEY = SigningKey("one")
RULES = ClaimRules(audiences=(AUDIENCE,), issuer=ISSUER)
KEYS = JsonWebKeys(key_set(KEY))


def validate(token: str, rules: ClaimRules = RULES, keys: JsonWebKeys = KEYS) -> AccessToken:
    return keys.validate(rules, token, now_ms())


def encoded(*parts: object, signature: bytes = b"x" * 256) -> str:
    found = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in parts]
    return ".".join(
        base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in (*found, signature)
    )


@pytest.mark.parametrize(
    "algorithm",
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"],
)
def test_each_algorithm_accepts_tokens_of_its_key_only(algorithm: str) -> None:
    key = SigningKey("k", algorithm)
    claims = claims_of()
    for keys in (key_set(key), key_set(KEY, key.to_json(alg=algorithm, use="sig"))):
        found = validate(key.sign(claims), keys=JsonWebKeys(keys))
        assert found == ("alice", claims["exp"] * 1000, {"produce", "consume"})
    with pytest.raises(TokenError, match="signature"):
        validate(SigningKey("k", algorithm).sign(claims), keys=JsonWebKeys(key_set(key)))


def test_a_key_is_found_by_its_id() -> None:
    other = SigningKey("two")
    keys = JsonWebKeys(key_set(KEY, other))
    assert validate(other.sign(claims_of()), keys=keys).principal == "alice"
    with pytest.raises(TokenError, match="signature"):
        validate(other.sign(claims_of(), kid="one"), keys=keys)
    with pytest.raises(UnknownKeyError):
        validate(other.sign(claims_of(), kid="three"), keys=keys)
    with pytest.raises(TokenError, match="several keys"):
        validate(SigningKey(None).sign(claims_of()), keys=keys)
    nameless = SigningKey(None)
    assert validate(nameless.sign(claims_of()), keys=JsonWebKeys(key_set(nameless)))
    assert validate(KEY.sign(claims_of(), kid=None)).principal == "alice"  # the only key


@pytest.mark.parametrize("key_id", ["k" * 1001, "../../etc/passwd", "one\0"])
def test_a_hostile_key_id_is_refused(key_id: str) -> None:
    with pytest.raises(TokenError, match="key"):
        validate(KEY.sign(claims_of(), kid=key_id))
    with pytest.raises(TokenError, match="key id"):
        validate(encoded({"alg": "RS256", "kid": {"a": 1}}, claims_of()))


# --- which algorithm -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", "HS256", "RS1", "EdDSA", 7, None])
def test_other_algorithms_are_refused(name: object) -> None:
    for signature in (b"", b"x" * 32):
        with pytest.raises(TokenError, match="algorithm is not allowed"):
            validate(encoded({"alg": name, "kid": "one"}, claims_of(), signature=signature))


def test_the_public_key_is_no_secret_of_hmac() -> None:
    public = KEY.private.public_key()
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(KEY.to_json()).encode(),
    ):
        signed = encoded({"alg": "HS256", "kid": "one"}, claims_of()).rsplit(".", 1)[0]
        signature = hmac.digest(secret, signed.encode(), hashlib.sha256)
        with pytest.raises(TokenError, match="algorithm is not allowed"):
            validate(f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}")


def test_a_key_has_its_own_algorithm_only() -> None:
    keys = JsonWebKeys(key_set(KEY.to_json(alg="PS256"), SigningKey("ec", "ES256")))
    with pytest.raises(TokenError, match="that of its key"):
        validate(KEY.sign(claims_of()), keys=keys)
    with pytest.raises(TokenError, match="that of its key"):
        validate(KEY.sign(claims_of(), kid="ec"), keys=keys)
    for curve in ("ES384", "ES512"):  # of another curve than the key
        with pytest.raises(TokenError, match="that of its key"):
            validate(SigningKey("ec", curve).sign(claims_of()), keys=keys)


def test_critical_extensions_are_refused() -> None:
    for header in ({"crit": ["exp"]}, {"b64": False, "crit": ["b64"]}, {"b64": 1}):
        with pytest.raises(TokenError, match="critical"):
            validate(encoded({"alg": "RS256", "kid": "one", **header}, claims_of()))


# --- what is no token ------------------------------------------------------------------------

HEADER = {"alg": "RS256", "kid": "one"}


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "...", "a.b", "a.b.c.d", "a" * 65_536,
        encoded(b"", b"", signature=b""),
        encoded(b"[" * 40_000, claims_of()),
        encoded(b'{"alg":' * 8_000, claims_of()),
        encoded(b"\xff\xfe", claims_of()),
        encoded(b'{"alg":"RS256","alg":"none"}', claims_of()),
        encoded([HEADER], claims_of()),
        encoded(HEADER, b"[]"),
        encoded(HEADER, b"{"),
        encoded(HEADER, b'{"sub":"alice","sub":"admin"}'),
        encoded(HEADER, b'{"exp":NaN}'),
        encoded(HEADER, b'{"exp":' + b"9" * 10_000 + b"}"),
        "e30." + "e30~." + "x",
        "e30=.e30=.",
    ],
)  # fmt: skip
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(TokenError, match=r"decoded|not a JSON Web Token"):
        validate(token)


def test_a_changed_token_is_refused() -> None:
    header, claims, signature = KEY.sign(claims_of()).split(".")
    forged = encoded(HEADER, claims_of("admin")).split(".")[1]
    for parts in (
        (header, forged, signature),
        (header, claims, ""),
        (header, claims, signature[:-8]),
        (header, claims, signature[:-4] + "AAAA"),
        (header, claims, "~" + signature),
        (header, claims, "A"),
    ):
        with pytest.raises(TokenError, match="signature"):
            validate(".".join(parts))


# --- claims ----------------------------------------------------------------------------------

NOW = int(time.time())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": None}, "no expiry"),
        ({"iat": 1, "exp": NOW - 31}, "it has expired"),
        ({"iat": -2, "exp": 0}, "it has expired"),
        ({"exp": str(NOW + 600)}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": [NOW]}, "exp is not a time"),
        ({"iat": None}, "no time of issue"),
        ({"iat": NOW + 3600}, "not valid yet"),
        ({"nbf": NOW + 3600}, "not valid yet"),
        ({"nbf": "soon"}, "nbf is not a time"),
        ({"iat": NOW + 20, "exp": NOW + 10}, "expired before"),
        ({"iss": None}, "issuer"),
        ({"iss": "https://issuer.example/"}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"aud": None}, "audience"),
        ({"aud": "other"}, "audience"),
        ({"aud": "kafk"}, "audience"),
        ({"aud": [["kafka"], 7]}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"sub": None}, "no claim sub"),
        ({"sub": " "}, "no claim sub"),
        ({"sub": 7}, "no claim sub"),
        ({"sub": ["alice"]}, "no claim sub"),
        ({"scope": {"a": 1}}, "claim scope"),
        ({"scope": [1]}, "claim scope"),
    ],
)
def test_claims_that_are_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(TokenError, match=reason) as raised:
        RULES.check(claims_of(**{"iat": NOW - 1, "exp": NOW + 600, **changes}), NOW * 1000)
    assert "alice" not in str(raised.value)


def test_claims_that_are_accepted() -> None:
    now = int(time.time())
    for changes in (
        {"iat": now - 60, "exp": now - 1},  # within the clock's skew
        {"nbf": now + 1},
        {"exp": now + 600.5},
        {"aud": ["other", "kafka"]},
        {"scope": ["a", "b"]},
        {"scope": None},
    ):
        assert validate(KEY.sign(claims_of(**changes))).principal == "alice"
    rules = ClaimRules(sub_claim="client", scope_claim="scp")
    found = validate(KEY.sign(claims_of(aud=None, client=" app ", scp=["a"])), rules)
    assert (found.principal, found.scopes) == ("app", {"a"})
    with pytest.raises(TokenError, match="audience"):  # RFC 7519: it is for someone else
        validate(KEY.sign(claims_of(client="app")), rules)


# --- sets of keys ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        b"", b"{}", b"[]", b"null", b'{"keys": 7}', b'{"keys": []}', b"\xff", b"[" * 100_000,
        b'{"keys": [7, null, {}, {"kty": "RSA"}, {"kty": "RSA", "n": 1, "e": "AQAB"}]}',
        json.dumps({"keys": [{"kty": "oct", "kid": "one", "k": "c2VjcmV0"}]}).encode(),
        json.dumps({"keys": [{}] * (MOST_KEYS + 1)}).encode(),
        key_set(KEY.to_json(use="enc")),
        key_set(KEY.to_json(key_ops=["encrypt"])),
        key_set(KEY.to_json(key_ops=7)),
        key_set(KEY.to_json(alg="HS256")),
        key_set(KEY.to_json(kid=7)),
        key_set(SigningKey("small", bits=1024)),
    ],
    ids=range(17),
)  # fmt: skip
def test_a_set_without_a_usable_key_is_a_valueerror(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON Web Key Set|no key"):
        JsonWebKeys(document)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(InvalidConfigError, match=r"pip install 'kstore\[oauth\]'"):
        JsonWebKeys(key_set(KEY))
