"""Java's key stores: PKCS12 under both names, and stores that cannot be used."""

import ssl
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)

from kstore.errors import InvalidConfigError
from kstore.security.keystores import StoreFile, load_key, load_trusted
from support.certificates import Authority


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    authority = Authority(folder)
    pem = authority.issue("server").read_bytes()
    key = load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    [certificate] = x509.load_pem_x509_certificates(pem)
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    secret = BestAvailableEncryption(b"secret")
    (folder / "key.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"k", key, certificate, [root], secret)
    )
    (folder / "trust.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(None, None, None, [root], secret)
    )
    (folder / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2" + bytes(100))
    (folder / "text").write_bytes(b"secret")
    return folder


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_keys_and_authorities_are_read_from_pkcs12(stores: Path, kind: str) -> None:
    for key_password in ("", "secret"):
        load_key(context(), StoreFile(str(stores / "key.p12"), kind, "secret"), key_password)
    trusting = context()
    load_trusted(trusting, StoreFile(str(stores / "trust.p12"), kind, "secret"))
    [root] = trusting.get_ca_certs()
    assert root["subject"] == ((("commonName", "authority"),),)


@pytest.mark.parametrize(
    ("name", "password", "key_password", "text"),
    [
        ("key.p12", "hidden", "", "the password is wrong, or the file is corrupt"),
        ("key.p12", "", "", "the password is wrong"),
        ("key.p12", "secret", "hidden", "PKCS12 has one password"),
        ("trust.p12", "secret", "", "has no private key"),
        ("old.jks", "secret", "", r"keytool -importkeystore -srckeystore \S+old.jks .*pkcs12"),
        ("server.pem", "secret", "", "it is PEM, set the type to PEM"),
        ("text", "secret", "", "is no store of the type JKS"),
        ("none", "secret", "", "cannot be used for TLS"),
    ],
)
def test_stores_that_cannot_be_used(
    stores: Path, name: str, password: str, key_password: str, text: str
) -> None:
    with pytest.raises(InvalidConfigError, match=text) as raised:
        load_key(context(), StoreFile(str(stores / name), "JKS", password), key_password)
    assert str(stores / name) in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert "hidden" not in repr(StoreFile(name, "JKS", "hidden"))


def test_without_the_library_the_extra_is_named(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cryptography.hazmat.primitives.serialization.pkcs12"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidConfigError, match=r"pip install 'kstore\[keystores\]'"):
        load_trusted(context(), StoreFile(str(stores / "trust.p12"), "PKCS12", "secret"))


def test_a_truststore_has_no_private_key(stores: Path) -> None:
    """The certificates beside a key would let in all holders of their authority's."""
    with pytest.raises(InvalidConfigError, match=r"key\.p12 has a private key: a truststore has"):
        load_trusted(context(), StoreFile(str(stores / "key.p12"), "PKCS12", "secret"))
