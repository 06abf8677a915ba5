"""The security settings of clients: Kafka's names and defaults, and what is refused."""

from pathlib import Path

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.client_settings import ClientSasl, ClientSecurity, client_security
from kstore.security.client_tls import ClientTls, client_context
from kstore.security.keystores import StoreFile

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required "
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
USER = 'username="alice" password="a \\"secret\\"";'
TLS = {"security.protocol": "SSL"}


def test_without_settings_nothing_is_encrypted_or_proved() -> None:
    assert client_security({}) == ClientSecurity()
    assert client_security({"client.id": "x", "security.protocol": " plaintext "}) == (
        ClientSecurity()
    )
    # As in Kafka's clients, what a protocol does not need is not read.
    assert client_security({"sasl.mechanism": "PLAIN"}) == ClientSecurity()


def test_sasl_and_tls_settings_are_read_by_kafkas_names() -> None:
    found = client_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM + USER,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "pem",
            "ssl.keystore.location": "me.pem",
            "ssl.key.password": "hidden",
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.protocol": "TLSv1.3",
            "sasl.login.refresh.buffer.seconds": "10",
        }
    )
    assert found.sasl == ClientSasl(mechanism="SCRAM-SHA-512", user="alice", password='a "secret"')
    assert found.tls == ClientTls(
        truststore=StoreFile("ca.pem"),
        keystore=StoreFile("me.pem"),
        key_password="hidden",
        checks_name=False,
        versions=("TLSv1.3",),
    )
    assert "secret" not in repr(found)
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"security.protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        (
            {"ssl.truststore.type": "BKS", "ssl.truststore.location": "a", **TLS},
            "ssl.truststore.type is one of PEM, PKCS12, JKS",
        ),
        ({"ssl.truststore.certificates": "x", **TLS}, "needs ssl.truststore.type=PEM"),
        (
            {"ssl.keystore.password": "x", "ssl.keystore.type": "PEM", **TLS},
            "is not used with PEM",
        ),
        ({"ssl.keystore.key": "x", **TLS}, "does not support ssl.keystore.key"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", **TLS}, "ssl.cipher.suites"),
        ({"ssl.enabled.protocols": "TLSv1.1", **TLS}, "TLSv1.2 and TLSv1.3"),
        ({"ssl.endpoint.identification.algorithm": "ldap", **TLS}, "https, or empty"),
        ({"ssl.trustore.location": "x", **TLS}, "does not support ssl.trustore.location"),
        ({"sasl.client.callback.handler.class": "x"}, "callback.handler"),
    ],
)
def test_what_is_not_supported_is_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidConfigError, match=text):
        client_security(settings)


@pytest.mark.parametrize(
    ("mechanism", "config", "text"),
    [
        (None, PLAIN + USER, "sasl.mechanism is one of PLAIN, .*not 'GSSAPI'"),
        ("OAUTHBEARER", PLAIN + USER, "the login module of OAUTHBEARER is"),
        ("OAUTHBEARER", None, "needs sasl.oauthbearer.token.endpoint.url"),
        ("PLAIN", None, "needs sasl.jaas.config=.*PlainLoginModule required"),
        ("PLAIN", SCRAM + USER, "the login module of PLAIN is"),
        ("SCRAM-SHA-256", PLAIN + USER, "the login module of SCRAM-SHA-256 is"),
        ("PLAIN", PLAIN + 'username="a";', "has no password"),
        ("PLAIN", PLAIN + 'password="a";', "has no username"),
        ("PLAIN", PLAIN + 'username="hidden" password="hidden"', "be: LoginModuleClass"),
        ("SCRAM-SHA-256", SCRAM + 'tokenauth="true" ' + USER, "delegation tokens"),
    ],
)
def test_sasl_that_is_incomplete(mechanism: str | None, config: str | None, text: str) -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT"}
    if mechanism is not None:
        settings["sasl.mechanism"] = mechanism
    if config is not None:
        settings["sasl.jaas.config"] = config
    with pytest.raises(InvalidConfigError, match=text) as raised:
        client_security(settings)
    assert "hidden" not in str(raised.value)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    with pytest.raises(InvalidConfigError, match=r"ca\.pem cannot be used for TLS: No such file"):
        client_context(ClientTls(truststore=StoreFile(str(path))))
    path.write_text("no certificate")
    with pytest.raises(InvalidConfigError, match=r"ca\.pem cannot be used for TLS"):
        client_context(ClientTls(truststore=StoreFile(str(path))))
    with pytest.raises(InvalidConfigError, match=r"ca\.pem cannot be used for TLS"):
        client_context(ClientTls(keystore=StoreFile(str(path))))
