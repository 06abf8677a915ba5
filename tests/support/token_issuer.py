"""An issuer of signed tokens for tests: its keys, their JSON Web Key Set, and tokens."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


class SigningKey:
    """A private key for one algorithm, and its public key as JSON."""

    def __init__(self, key_id: str | None, algorithm: str = "RS256", bits: int = 2048) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.private: Any = (
            ec.generate_private_key(_CURVES[algorithm])
            if algorithm in _CURVES
            else rsa.generate_private_key(65537, bits)
        )

    def to_json(self, **changes: object) -> dict[str, object]:
        kind = jwt.get_algorithm_by_name(self.algorithm)
        found: dict[str, object] = dict(kind.to_jwk(self.private.public_key(), as_dict=True))
        found.pop("key_ops", None)
        if self.key_id is not None:
            found["kid"] = self.key_id
        return {**found, **changes}

    def sign(self, claims: Mapping[str, object], **header: object) -> str:
        """A token; a header of None is omitted."""
        headers = {"kid": self.key_id, **header}
        return jwt.encode(
            dict(claims),
            self.private,
            algorithm=self.algorithm,
            headers={name: value for name, value in headers.items() if value is not None},
        )


def key_set(*keys: SigningKey | dict[str, object]) -> bytes:
    found = [each.to_json() if isinstance(each, SigningKey) else each for each in keys]
    return json.dumps({"keys": found}).encode()


def claims_of(user: str = "alice", seconds: float = 600, **changes: object) -> dict[str, object]:
    """Valid claims; a change to None removes one."""
    now = int(time.time())
    found: dict[str, object] = {
        "sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now - 1, "exp": now + seconds,
        "scope": "produce consume",
    }  # fmt: skip
    return {name: value for name, value in {**found, **changes}.items() if value is not None}


def token_settings(listener: str, keys: Path) -> dict[str, object]:
    """The broker's settings for signed tokens on a listener without TLS."""
    prefix = f"listener.name.{listener.lower()}.oauthbearer"
    return {
        f"{prefix}.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "kstore.sasl.oauthbearer.without.tls": True,
    }
