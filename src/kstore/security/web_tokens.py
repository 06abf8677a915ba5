"""JSON Web Tokens (RFC 7519): splits them, and verifies their claims.

``AccessToken`` is Kafka's OAuthBearerToken. Errors contain no part of a token.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from kstore.lazy_dataclass import lazy_dataclass

_PART = re.compile(r"[-_A-Za-z0-9]+")
_MOST_SECONDS = 1 << 50  # larger times are no times


class TokenError(Exception):
    """The token is not valid. The message contains no part of it."""


class AccessToken(NamedTuple):
    """What a valid token proves: who has it, until when (ms since 1970), and for what."""

    principal: str
    expires_ms: int
    scopes: frozenset[str]


class SplitToken(NamedTuple):
    """The parts of a token, which are not verified yet."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signature: str


def split_token(token: str) -> SplitToken:
    """Decode the header and claims of a token in the compact format. Raises TokenError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("it is not a JSON Web Token")
    return SplitToken(_decoded(parts[0], "header"), _decoded(parts[1], "claims"), parts[2])


def _decoded(part: str, what: str) -> Mapping[str, Any]:
    if _PART.fullmatch(part) is None:
        raise TokenError(f"its {what} cannot be decoded")
    try:
        data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
        found = json.loads(data, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise TokenError(f"its {what} cannot be decoded") from None
    if not isinstance(found, dict):
        raise TokenError(f"its {what} cannot be decoded")
    return found


def _refuse(_: str) -> None:
    raise ValueError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError  # two readers could take different values
    return found


@lazy_dataclass(frozen=True, kw_only=True)
class ClaimRules:
    """Which claims a token needs: Kafka's ``sasl.oauthbearer.*`` settings."""

    audiences: Collection[str] = ()  # one of them; () refuses tokens that have an audience
    issuer: str = ""  # "": any
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    required_scopes: frozenset[str] = frozenset()
    clock_skew_ms: int = 30_000
    needs_issued_at: bool = True
    ignores_audience: bool = False

    def check(self, claims: Mapping[str, Any], now_ms: int) -> AccessToken:
        """Verify the claims of a token. Raises TokenError."""
        expires_ms = _time(claims, "exp")
        if expires_ms is None:
            raise TokenError("it has no expiry time")
        issued_ms, not_before_ms = _time(claims, "iat"), _time(claims, "nbf")
        if issued_ms is None and self.needs_issued_at:
            raise TokenError("it has no time of issue")
        if expires_ms + self.clock_skew_ms <= now_ms:
            raise TokenError("it has expired")
        if any(each is not None and each - self.clock_skew_ms > now_ms
               for each in (issued_ms, not_before_ms)):  # fmt: skip
            raise TokenError("it is not valid yet")
        if issued_ms is not None and issued_ms >= expires_ms:
            raise TokenError("it expired before it was issued")
        self._check_origin(claims)
        principal = claims.get(self.sub_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise TokenError(f"it has no claim {self.sub_claim}")
        scopes = self._scopes(claims)
        if not self.required_scopes <= scopes:
            raise TokenError("it lacks a required scope")
        return AccessToken(principal.strip(), expires_ms, scopes)

    def _check_origin(self, claims: Mapping[str, Any]) -> None:
        if self.issuer and claims.get("iss") != self.issuer:
            raise TokenError("its issuer is not expected")
        audience = claims.get("aud", [])
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list):
            raise TokenError("its audience is not valid")
        if self.ignores_audience or not (audiences or self.audiences):
            return
        if not any(isinstance(each, str) and each in self.audiences for each in audiences):
            raise TokenError("its audience is not expected")

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """The scopes: a list, or words in one text."""
        found = claims.get(self.scope_claim, [])
        scopes = found.split() if isinstance(found, str) else found
        if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
            raise TokenError(f"its claim {self.scope_claim} is not valid")
        return frozenset(scopes)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """A time in ms; JSON has seconds, which may have a fraction."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"its claim {name} is not a time")
    if not -_MOST_SECONDS < value < _MOST_SECONDS:
        raise TokenError(f"its claim {name} is not a time")
    return int(value * 1000)


TokenValidator = Callable[[str, int], AccessToken]  # token, now in ms; raises TokenError


def validate_unsecured(rules: ClaimRules, token: str, now_ms: int) -> AccessToken:
    """Validate a token without a signature, which any client can write. Raises TokenError.

    As in Kafka's OAuthBearerUnsecuredValidatorCallbackHandler.
    """
    header, claims, signature = split_token(token)
    if header.get("alg") != "none" or signature:
        raise TokenError("it is not an unsecured token")
    return rules.check(claims, now_ms)
