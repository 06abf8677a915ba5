"""The server side of SASL/PLAIN (RFC 4616): ``authzid NUL user NUL password``."""

import hmac
from collections.abc import Mapping

_MOST = 4096  # bytes of the message


class PlainError(Exception):
    """The message is invalid, or the user or password is wrong."""


def check_plain(token: bytes, users: Mapping[str, str]) -> str:
    """Verify a message's password and return its user.

    Raises PlainError with Kafka's messages (PlainSaslServer). An unknown user gives the same
    message as a wrong password, and takes the same time.
    """
    if len(token) > _MOST:
        raise PlainError("Invalid SASL/PLAIN response: it is too long")
    parts = token.split(b"\0")
    if len(parts) != 3:
        raise PlainError(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
        )
    try:
        authorization_id, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise PlainError("Invalid SASL/PLAIN response: it is not UTF-8") from None
    if not user:
        raise PlainError("Authentication failed: username not specified")
    if not password:
        raise PlainError("Authentication failed: password not specified")
    expected = users.get(user)
    is_right = hmac.compare_digest(password.encode(), (expected or password + "x").encode())
    if expected is None or not is_right:
        raise PlainError("Authentication failed: Invalid username or password")
    if authorization_id and authorization_id != user:
        raise PlainError("Authentication failed: Client requested an authorization id that is "
                         "different from username")  # fmt: skip
    return user
