"""TLS: settings, names in certificates, mapping rules."""

from pathlib import Path

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.mapping_rules import PrincipalMapper
from kstore.security.security_settings import security_settings
from kstore.security.tls import TlsSettings, distinguished_name, server_context
from support.certificates import Authority

SSL = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "server.pem",
    "ssl.truststore.type": "PEM",
}


def tls(**changes: object) -> TlsSettings:
    [listener] = security_settings({**SSL, **changes}).listeners
    assert listener.tls is not None
    return listener.tls


def test_a_listener_has_settings_of_its_own() -> None:
    found = tls(
        **{
            "listener.name.ssl.ssl.keystore.location": "own.pem",
            "ssl.key.password": "secret",
            "ssl.truststore.location": "ca.pem",
            "ssl.client.auth": "required",
            "ssl.enabled.protocols": "TLSv1.3",
        }
    )
    assert found.files == ["own.pem", "ca.pem"]
    assert (found.client_auth, found.versions, found.key_password) == (
        "required",
        ("TLSv1.3",),
        "secret",
    )
    assert "secret" not in repr(found)


def test_a_listener_with_sasl_asks_for_certificates_only_by_a_setting_of_its_own() -> None:
    settings = {
        **SSL,
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.truststore.location": "ca.pem",
        "ssl.client.auth": "required",
    }
    [listener] = security_settings(settings).listeners
    assert listener.tls is not None
    assert listener.tls.client_auth == "none"
    settings["listener.name.sasl_ssl.ssl.client.auth"] = "requested"
    [listener] = security_settings(settings).listeners
    assert listener.tls is not None
    assert listener.tls.client_auth == "requested"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ssl.keystore.location": ""}, "needs ssl.keystore.location"),
        ({"ssl.keystore.type": "BKS"}, "SSL: ssl.keystore.type is one of PEM, PKCS12, JKS"),
        ({"ssl.truststore.type": "BKS", "ssl.truststore.location": "x"}, "truststore.type is one"),
        ({"ssl.truststore.type": "JKS", "ssl.truststore.certificates": "x"}, "type=PEM"),
        ({"ssl.keystore.password": "secret"}, "not used with PEM"),
        ({"ssl.client.auth": "required"}, "needs ssl.truststore.location"),
        ({"ssl.client.auth": "maybe"}, "one of none"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3"),
        ({"ssl.keystore.key": "secret"}, "does not support ssl.keystore.key"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "does not support"),
        ({"ssl.principal.mapping.rules": "RULE:(/x/"}, "mapping.rules"),
    ],
)
def test_wrong_tls_settings_are_refused_without_showing_secrets(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidConfigError, match=words) as caught:
        tls(**changes)
    assert "secret" not in str(caught.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    locked = str(authority.issue("server", password="hunter2"))
    assert server_context(tls(**{"ssl.keystore.location": locked, "ssl.key.password": "hunter2"}))
    (tmp_path / "text.pem").write_text("hunter2")
    for path, password in (
        (locked, "wrong"),
        (locked, ""),
        (str(tmp_path / "none.pem"), ""),
        (str(tmp_path / "text.pem"), ""),
        (str(authority.certificate), ""),
    ):
        changes = {"ssl.keystore.location": path, "ssl.key.password": password}
        with pytest.raises(InvalidConfigError, match="cannot be used for TLS") as caught:
            server_context(tls(**changes))
        assert path in str(caught.value)
        assert "hunter2" not in str(caught.value)


# What Java's X500Principal.getName() shows for these subjects.
@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (((("countryName", "DE"),), (("organizationName", "Acme, Inc."),),
          (("commonName", "alice"),)), "CN=alice,O=Acme\\, Inc.,C=DE"),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
        (((("commonName", "#1 "),),), "CN=\\#1\\ "),
        (((("emailAddress", "a@b.c"),), (("commonName", "x"),)),
         "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
    ],
)  # fmt: skip
def test_a_subject_becomes_its_distinguished_name(subject: object, name: str) -> None:
    assert distinguished_name({"subject": subject}) == name


# The examples of Kafka's documentation and of its SslPrincipalMapperTest.
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE"),
        ("DN=duke,OU=JavaSoft,O=Sun", "DN=duke,OU=JavaSoft,O=Sun"),
    ],
)
def test_mapping_rules_turn_distinguished_names_into_users(name: str, user: str) -> None:
    assert PrincipalMapper(RULES).name_of(name) == user


def test_without_a_rule_that_matches_there_is_no_user() -> None:
    assert PrincipalMapper("RULE:CN=(.*)/$1/").name_of("O=x") is None


@pytest.mark.parametrize("text", ["RULE", "RULE:a", "RULE:a/b/X", "RULE:(/x/", "RULE:a/$1/", "x"])
def test_rules_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        PrincipalMapper(text)
