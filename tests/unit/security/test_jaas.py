"""JAAS configurations, as Kafka reads them."""

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.jaas import PLAIN_MODULE, parse_jaas


def test_quoted_values_and_users_are_parsed_and_not_shown() -> None:
    text = f"""{PLAIN_MODULE} required
        username="admin" password='it"s'
        user_admin="a \\"b\\" \\\\ c;=" user_bob=bob;"""
    found = parse_jaas("x", text)
    assert found.module == PLAIN_MODULE
    assert found.users == {"admin": 'a "b" \\ c;=', "bob": "bob"}
    assert found.options["password"] == 'it"s'
    assert "bob" not in repr(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "LoginModuleClass required"),
        ("A required", "LoginModuleClass required"),
        ("A needed user_a=secret;", "'required'"),
        ('A required user_a="secret;', "quote"),
        ("A required user_a secret;", "options are"),
        ("A required user_a=secret user_a=secret;", "twice"),
        ("A required; B required;", "more than one"),
    ],
)
def test_what_is_refused_shows_no_secret(text: str, words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words) as caught:
        parse_jaas("listener.name.x.plain.sasl.jaas.config", text)
    assert "secret" not in str(caught.value)
