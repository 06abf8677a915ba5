"""The server's side of PLAIN."""

import pytest

from kstore.security.plain import PlainError, check_plain

USERS = {"alice": "secret", "bob": "bøb"}


@pytest.mark.parametrize(
    ("token", "user"),
    [(b"\0alice\0secret", "alice"), (b"alice\0alice\0secret", "alice"),
     ("\0bob\0bøb".encode(), "bob")],
)  # fmt: skip
def test_the_right_password(token: bytes, user: str) -> None:
    assert check_plain(token, USERS) == user


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"\0alice\0bob", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0" * 2000, "expected 3 tokens"),
        (b"\0alice\0\xff", "not UTF-8"),
        (b"\0alice\0" + b"x" * 5000, "too long"),
    ],
)
def test_an_invalid_token_or_password_is_refused_and_not_shown(token: bytes, words: str) -> None:
    with pytest.raises(PlainError, match=words) as caught:
        check_plain(token, USERS)
    assert "secret" not in str(caught.value)


def test_the_authorization_id_is_compared_after_the_password() -> None:
    with pytest.raises(PlainError, match="Invalid username or password"):
        check_plain(b"bob\0alice\0wrong", USERS)
