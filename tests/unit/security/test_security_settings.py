"""Security settings: what is half set or not supported stops the start."""

import pytest

from kstore.errors import InvalidConfigError, UnknownSettingError
from kstore.security.listeners import single_listener
from kstore.security.security_settings import (
    SecuritySettings,
    is_security_setting,
    security_settings,
)

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
CLEAR = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "kstore.sasl.plain.without.tls": True,
}


def read(**changes: object) -> SecuritySettings:
    return security_settings({**CLEAR, **changes})


def test_sasl_settings_of_a_listener_are_read_and_not_shown() -> None:
    settings = read(**{"listener.name.sasl_plaintext.plain.connections.max.reauth.ms": 1000})
    [listener] = settings.listeners
    assert listener.sasl is not None
    assert listener.sasl.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert listener.sasl.plain_users == {"alice": "secret"}
    assert listener.sasl.max_reauth_ms == {"PLAIN": 1000, "SCRAM-SHA-256": 0}
    assert "secret" not in repr(settings)


def test_without_listeners_there_is_the_one_that_is_given() -> None:
    single = single_listener("127.0.0.1", 0, None)
    assert [each.where for each in security_settings({}, single).listeners] == [single]


def test_a_controllers_listener_is_none_of_this_broker() -> None:
    found = security_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
            "controller.listener.names": "CONTROLLER",
            "listener.name.controller.ssl.keystore.location": "x",
        }
    )
    assert [each.where.name for each in found.listeners] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    "name", ["security.inter.broker.protocol", "sasl.mechanism.inter.broker.protocol"]
)
def test_settings_about_other_brokers_have_no_effect(name: str) -> None:
    assert read(**{name: "SASL_PLAINTEXT"}) == read()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kstore.sasl.plain.without.tls": False}, "without encryption"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI, which this broker does not support"),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS.replace("user_", "x")},
         "no users"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS.replace("Plain", "Scram")},
         "the login module is"),
        ({"listener.name.other.sasl.enabled.mechanisms": "PLAIN"}, "listener OTHER does not exist"),
        ({"listener.name.sasl_plaintext.max.connections": "1"}, "does not support"),
        ({"principal.builder.class": "x.Y"}, "does not support principal.builder.class"),
        ({"ssl.engine.factory.class": "x.Y"}, "does not support"),
        ({"sasl.kerberos.service.name": "kafka"}, "does not support"),
        ({"kstore.handshake.timeout.ms": "0"}, "at least 1"),
        ({"connections.max.reauth.ms": "soon"}, "at least 0"),
        ({"advertised.listeners": "OTHER://a:1"}, "names OTHER"),
    ],
)  # fmt: skip
def test_wrong_security_settings_are_refused_without_showing_secrets(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidConfigError, match=words) as caught:
        read(**changes)
    assert "secret" not in str(caught.value)


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_the_settings_of_the_authorizer_are_read() -> None:
    found = read(
        **{
            "authorizer.class.name": STANDARD,
            "super.users": "User:admin;User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
    ).authorizer
    assert found is not None
    assert found.super_users == ("User:admin", "User:ANONYMOUS")
    assert found.allows_everyone
    assert read().authorizer is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"authorizer.class.name": "x.Y"}, "does not support authorizer.class.name"),
        ({"super.users": "User:admin"}, "protects nothing without"),
        ({"allow.everyone.if.no.acl.found": "true"}, "protects nothing without"),
        ({"authorizer.class.name": STANDARD, "super.users": "admin"}, "User:name;"),
        ({"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "no"}, "true or"),
        ({"authorizer.class.nam": STANDARD}, "did you mean authorizer.class.name"),
    ],
)
def test_an_authorizer_that_is_half_set(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        read(**changes)


@pytest.mark.parametrize(
    "name", ["super.user", "acl.allow", "oauth.issuer", "listeners.security", "sasl.users"]
)
def test_an_unknown_setting_that_sounds_like_security_is_an_error(name: str) -> None:
    assert is_security_setting(name)
    with pytest.raises(UnknownSettingError, match=name):
        read(**{name: "x"})


def test_an_unknown_name_suggests_a_close_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"did you mean ssl\.client\.auth"):
        read(**{"ssl.client.auht": "required"})


def test_advertised_listeners_need_listeners() -> None:
    single = single_listener("127.0.0.1", 0, None)
    with pytest.raises(InvalidConfigError, match="needs listeners"):
        security_settings({"advertised.listeners": "PLAINTEXT://a:1"}, single)
