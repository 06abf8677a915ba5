"""Java's key- and truststores, as the PEM that OpenSSL reads.

keytool writes PKCS12 since Java 9, also under the type JKS, and Java reads both under either name
(``keystore.type.compat``). The older JKS format is refused with the command that converts it.
Needs cryptography.
"""

from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import InvalidConfigError, StorageError
from kstore.files.files import read_outside
from kstore.files.memory_file import memory_file

if TYPE_CHECKING:
    import ssl

    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

PEM = "PEM"
STORE_TYPES = (PEM, "PKCS12", "JKS")
_MOST = 16 << 20  # bytes
_OLD_FORMATS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_SEQUENCE = b"\x30"  # begins PKCS12


class StoreFile(NamedTuple):
    """A key- or truststore: a file, its type, and its password."""

    path: str
    kind: str = PEM
    password: str = ""

    def __repr__(self) -> str:
        return f"StoreFile(path={self.path!r}, kind={self.kind!r})"


def store_file(what: str, path: str, kind: str, password: str, whose: str = "") -> StoreFile:
    """Check the settings ``ssl.<what>.location``, ``.type`` and ``.password``.

    Raises InvalidConfigError; ``whose`` begins its message.
    """
    kind = kind.upper()
    if path and kind not in STORE_TYPES:
        raise InvalidConfigError(f"{whose}ssl.{what}.type is one of {', '.join(STORE_TYPES)}")
    if kind == PEM and password:
        raise InvalidConfigError(f"{whose}ssl.{what}.password is not used with PEM, remove it")
    return StoreFile(path, kind, password)


def load_key(context: "ssl.SSLContext", store: StoreFile, key_password: str) -> None:
    """Have a context use the private key and the certificates of a store. Blocks.

    Raises InvalidConfigError, which names the file and contains no password; for PEM the errors
    of ``load_cert_chain``.
    """
    if store.kind == PEM:
        # With a function, OpenSSL never prompts for a password on the terminal.
        context.load_cert_chain(store.path, password=lambda: key_password)
        return
    with memory_file(_read_key(store, key_password)) as path:
        context.load_cert_chain(path)


def load_trusted(context: "ssl.SSLContext", store: StoreFile) -> None:
    """Have a context trust the certificates of a store. Blocks. Raises as ``load_key`` does."""
    if store.kind == PEM:
        context.load_verify_locations(cafile=store.path)
        return
    context.load_verify_locations(cadata=_read_trusted(store))


def unusable(path: str, error: Exception) -> InvalidConfigError:
    """The error for a file that TLS cannot use."""
    if isinstance(error, InvalidConfigError):
        return error
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not valid"
    return InvalidConfigError(f"{path} cannot be used for TLS: {reason}")


def _read_key(store: StoreFile, key_password: str) -> bytes:
    """The private key, not encrypted, and its certificates, as PEM."""
    found = _load(store)
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    if key_password and key_password != store.password:
        raise InvalidConfigError(
            f"{store.path}: PKCS12 has one password: ssl.key.password has to be that of the store"
        )
    if found.key is None or found.cert is None:
        raise InvalidConfigError(f"{store.path} has no private key with a certificate")
    parts = [found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    chain, others = [found.cert.certificate], [e.certificate for e in found.additional_certs]
    while issuers := [each for each in others if each.subject == chain[-1].issuer]:
        chain.append(issuers[0])
        others.remove(issuers[0])
    parts += [each.public_bytes(Encoding.PEM) for each in chain]
    return b"".join(parts)


def _read_trusted(store: StoreFile) -> str:
    """All certificates, as PEM. Refuses a store with a private key.

    The certificates beside a key are those that signed it. Trusting them would let in every other
    holder of a certificate of that authority; Java trusts the key's own certificate only.
    """
    found = _load(store)
    if found.key is not None:
        raise InvalidConfigError(
            f"{store.path} has a private key: a truststore has certificates only; keytool "
            "-exportcert and -importcert copy one"
        )
    from cryptography.hazmat.primitives.serialization import Encoding

    certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each]
    if not certificates:
        raise InvalidConfigError(f"{store.path} has no certificate")
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates).decode()


def _load(store: StoreFile) -> "PKCS12KeyAndCertificates":
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        raise InvalidConfigError(
            f"{store.path}: Java's key stores need cryptography ({error}): "
            "pip install 'kstore[keystores]'"
        ) from None
    try:
        data = read_outside(store.path, _MOST)
    except StorageError as error:
        raise InvalidConfigError(f"{store.path} cannot be used for TLS: {error}") from None
    if data.startswith(_OLD_FORMATS):
        raise InvalidConfigError(
            f"{store.path} has Java's old format; convert it: keytool -importkeystore "
            f"-srckeystore {store.path} -destkeystore {store.path}.p12 -deststoretype pkcs12"
        )
    if not data.startswith(_SEQUENCE):
        hint = "; it is PEM, set the type to PEM" if b"-----BEGIN " in data else ""
        raise InvalidConfigError(f"{store.path} is no store of the type {store.kind}{hint}")
    try:
        return load_pkcs12(data, store.password.encode() if store.password else None)
    except ValueError:
        raise InvalidConfigError(
            f"{store.path} cannot be decrypted: the password is wrong, or the file is corrupt"
        ) from None
