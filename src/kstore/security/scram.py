"""The server side of SCRAM (RFC 5802, RFC 7677), without I/O; randomness is a parameter.

It follows Kafka's ScramSaslServer and ScramFormatter, with three differences. It verifies the
channel binding in the final message. It gives unknown users a salt, too, so that responses do not
reveal which users exist. It rejects the names and extensions of delegation tokens.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import field

from kstore.lazy_dataclass import lazy_dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16_384  # Kafka's ScramMechanism

_FIRST = re.compile(
    rb"(?P<gs2>(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>[^,=]*))?,)"
    rb"(?P<bare>(?:m=[^,]*,)?n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<rest>,.*)?)",
    re.DOTALL,
)
_FINAL = re.compile(
    rb"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rb"(?:,[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)
_MOST_NAME, _MOST_NONCE = 1024, 1024


class ScramError(Exception):
    """The exchange failed. The message contains no secret."""


@lazy_dataclass(frozen=True)
class ScramCredential:
    """A server's verifier of a password, from which the password cannot be recovered."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(
    mechanism: str, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The credential for a salted password, which the client computes with PBKDF2."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
        iterations,
    )


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password. Intentionally slow."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


class ScramExchange:
    """One exchange: ``step`` takes a client token and returns the server's.

    Parameters
    ----------
    find
        Returns the credential of a user; for an unknown user, one that no proof matches.
    make_nonce
        Returns printable characters without a comma.
    """

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential],
        make_nonce: Callable[[], str],
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._hash = HASHES[mechanism]
        self._find = find
        self._make_nonce = make_nonce
        self._credential: ScramCredential | None = None
        self._gs2 = b""
        self._nonce = b""
        self._first_messages = b""

    def step(self, token: bytes) -> bytes:
        """Return the server's next message. Raises ScramError, which ends the exchange."""
        if self.is_complete:
            raise ScramError("the exchange is complete")
        if self._credential is None:
            return self._first(token)
        return self._final(token, self._credential)

    def _first(self, token: bytes) -> bytes:
        match = _FIRST.fullmatch(token)
        if match is None:
            raise ScramError("the client's first message is not valid")
        if match["binding"].startswith(b"p"):
            raise ScramError("channel binding is not supported")
        if match["bare"].startswith(b"m=") or b"tokenauth" in (match["rest"] or b""):
            raise ScramError("an extension is not supported")
        self.user = _decoded_name(match["user"])
        if match["authzid"] and _decoded_name(match["authzid"]) != self.user:
            raise ScramError("the authorization id is not the user's name")
        if len(match["nonce"]) > _MOST_NONCE:
            raise ScramError("the client's nonce is too long")
        self._gs2 = match["gs2"]
        self._nonce = match["nonce"] + self._make_nonce().encode()
        credential = self._find(self.user)
        answer = b"r=%s,s=%s,i=%d" % (
            self._nonce,
            b64encode(credential.salt),
            credential.iterations,
        )
        self._first_messages = match["bare"] + b"," + answer
        self._credential = credential
        return answer

    def _final(self, token: bytes, credential: ScramCredential) -> bytes:
        match = _FINAL.fullmatch(token)
        if match is None:
            raise ScramError("the client's final message is not valid")
        if match["binding"] != b64encode(self._gs2):
            raise ScramError("the channel binding is not that of the first message")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise ScramError("the nonce is not that of this exchange")
        try:
            proof = b64decode(match["proof"], validate=True)
        except ValueError:
            raise ScramError("the proof is not base64") from None
        message = self._first_messages + b"," + match["without_proof"]
        signature = hmac.digest(credential.stored_key, message, self._hash)
        if len(proof) != len(signature):
            raise ScramError("the proof is not valid")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise ScramError("the proof is not valid")
        self.is_complete = True
        return b"v=" + b64encode(hmac.digest(credential.server_key, message, self._hash))


def _decoded_name(name: bytes) -> str:
    """A saslname: ``=2C`` is a comma, ``=3D`` an equals sign."""
    if len(name) > _MOST_NAME:
        raise ScramError("the user's name is too long")
    if re.search(rb"=(?!2C|3D)", name):
        raise ScramError("the user's name is not valid")
    try:
        return name.decode().replace("=2C", ",").replace("=3D", "=")
    except UnicodeDecodeError:
        raise ScramError("the user's name is not UTF-8") from None
