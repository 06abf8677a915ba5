"""The client side of SCRAM (RFC 5802, RFC 7677), without I/O; the nonce is a parameter.

As in Kafka's ScramSaslClient, without channel binding, and with at least 4096 iterations.
"""

import hmac
import re
from base64 import b64decode, b64encode

from kstore.security.scram import HASHES, LEAST_ITERATIONS, ScramError, credential_of, salted

_GS2 = b"n,,"
_FIRST = re.compile(
    rb"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    rb"(?:,.*)?",
    re.DOTALL,
)
_FINAL = re.compile(rb"v=(?P<signature>[A-Za-z0-9+/=]+)(?:,.*)?", re.DOTALL)
# Limits the work that a server can impose on the client; this many iterations take about a second.
MOST_ITERATIONS = 2_000_000


class ScramClient:
    """One exchange: ``first`` returns the first message, ``final`` the second, and ``finish``
    verifies the server. Each raises ScramError, whose message contains no secret.
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce.encode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = b"n=%s,r=%s" % (name.encode(), self._nonce)
        self._signature = b""

    def first(self) -> bytes:
        return _GS2 + self._bare

    def final(self, answer: bytes) -> bytes:
        """Return the proof in response to the server's first message."""
        match = _FIRST.fullmatch(answer)
        if match is None:
            raise ScramError("the server's first message of SCRAM is not valid")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce of SCRAM does not continue the client's")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ScramError(
                f"the server asks for {iterations} iterations of SCRAM; {LEAST_ITERATIONS} to "
                f"{MOST_ITERATIONS} are computed"
            )
        salt = _decoded(match["salt"])
        key = salted(self._mechanism, self._password, salt, iterations)
        credential = credential_of(self._mechanism, salt, key, iterations)
        without_proof = b"c=%s,r=%s" % (b64encode(_GS2), nonce)
        message = b",".join((self._bare, answer, without_proof))
        digest = HASHES[self._mechanism]
        client_key = hmac.digest(key, b"Client Key", digest)
        signature = hmac.digest(credential.stored_key, message, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(credential.server_key, message, digest)
        return without_proof + b",p=" + b64encode(proof)

    def finish(self, answer: bytes) -> None:
        """Verify the server's signature, which requires knowledge of the password."""
        match = _FINAL.fullmatch(answer)
        if match is None or not self._signature:
            raise ScramError("the server's final message of SCRAM is not valid")
        if not hmac.compare_digest(_decoded(match["signature"]), self._signature):
            raise ScramError("the server does not prove that it knows the user's password")


def _decoded(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramError("the server's message of SCRAM is not base64") from None
