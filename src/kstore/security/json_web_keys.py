"""JSON Web Key Sets (RFC 7517), and the tokens that their keys sign.

Only signatures with public keys are verified: RS, PS and ES with SHA-2. ``none`` and HMAC, whose
key would be a public one, are refused. Needs PyJWT and cryptography.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kstore.errors import InvalidConfigError
from kstore.security.web_tokens import AccessToken, ClaimRules, TokenError, split_token

MOST_KEYS = 1000
MOST_JWKS = 1 << 20  # bytes
_MOST_KEY_ID = 1000  # characters
_LEAST_RSA_BITS, _MOST_RSA_BITS = 2048, 8192
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS = (*_RSA, *_CURVES)
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}


class UnknownKeyError(TokenError):
    """The token has the id of a key that is not in the set: the keys may have changed."""


class _Key(NamedTuple):
    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any


class JsonWebKeys:
    """The public keys of a set. Immutable, thread safe."""

    def __init__(self, document: bytes) -> None:
        """Read a set; keys for other purposes are skipped.

        Raises ValueError if the document is not a set of keys, or has none that can be used;
        InvalidConfigError without PyJWT or cryptography.
        """
        jwt = _library()
        try:
            keys = json.loads(document)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("it is not a JSON Web Key Set") from None
        if not isinstance(keys, list) or len(keys) > MOST_KEYS:
            raise ValueError(f"it is not a JSON Web Key Set of at most {MOST_KEYS} keys")
        self._keys = [key for each in keys if (key := _read_key(jwt, each)) is not None]
        if not self._keys:
            raise ValueError("it has no key that can verify a token")
        # Its object has one algorithm, which cannot be that of another key.
        self._verifiers = {each: jwt.PyJWS(algorithms=[each]) for each in ALGORITHMS}
        self._errors = jwt.exceptions.PyJWTError

    def __len__(self) -> int:
        return len(self._keys)

    def validate(self, rules: ClaimRules, token: str, now_ms: int) -> AccessToken:
        """Verify the signature and claims of a token. Raises TokenError, or UnknownKeyError."""
        header, claims, _ = split_token(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenError("its algorithm is not allowed")
        if "crit" in header or header.get("b64", True) is not True:
            raise TokenError("its header has critical extensions")
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > _MOST_KEY_ID):
            raise TokenError("its key id is not valid")
        key = self._find(algorithm, key_id)
        try:
            self._verifiers[algorithm].decode_complete(token, key, algorithms=[algorithm])
        except (self._errors, ValueError, TypeError):
            raise TokenError("its signature is not valid") from None
        return rules.check(claims, now_ms)

    def _find(self, algorithm: str, key_id: str | None) -> Any:
        """The one key of an id; without an id, the one key for the algorithm."""
        named = [each for each in self._keys if key_id is None or each.key_id == key_id]
        if not named:
            raise UnknownKeyError("its key is unknown")
        fitting = [each.key for each in named if algorithm in each.algorithms]
        if not fitting:
            raise TokenError("its algorithm is not that of its key")
        if len(fitting) > 1:
            raise TokenError("several keys fit, it has to name one by its id")
        return fitting[0]


def _read_key(jwt: Any, found: object) -> _Key | None:
    if not isinstance(found, dict):
        return None
    kind, algorithm, key_id = found.get("kty"), found.get("alg"), found.get("kid")
    if kind == "RSA":
        possible: tuple[str, ...] = _RSA
    elif kind == "EC":
        possible = tuple(name for name, curve in _CURVES.items() if curve == found.get("crv"))
    else:
        return None
    if algorithm is not None:
        possible = (algorithm,) if algorithm in possible else ()
    if not possible or not _is_for_signatures(found):
        return None
    if key_id is not None and not isinstance(key_id, str):
        return None
    public = {name: found.get(name) for name in _PUBLIC[kind]}  # a private key is not needed
    try:
        key = jwt.PyJWK(public, possible[0]).key
    except (jwt.exceptions.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and not _LEAST_RSA_BITS <= key.key_size <= _MOST_RSA_BITS:
        return None
    return _Key(key_id, possible, key)


def _is_for_signatures(found: Mapping[str, Any]) -> bool:
    operations = found.get("key_ops", ["verify"])
    return found.get("use", "sig") == "sig" and isinstance(operations, list) and (
        "verify" in operations
    )  # fmt: skip


def _library() -> Any:
    try:
        import cryptography  # noqa: F401  PyJWT can be installed without it
        import jwt
    except ImportError as error:
        raise InvalidConfigError(
            f"OAUTHBEARER with signed tokens needs PyJWT and cryptography ({error}): "
            "pip install 'kstore[oauth]'"
        ) from None
    return jwt
