"""TLS on one listener: its settings, and SSL contexts.

Keys and certificates are files of PEM (KIP-651) or PKCS12, configured under Kafka's names:
``ssl.keystore.location`` contains the private key and certificate chain,
``ssl.truststore.location`` the certificate authorities of clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kstore.errors import InvalidConfigError
from kstore.files.files import outside_stamp
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.listeners import ListenerAddress
from kstore.security.setting_texts import SettingTexts

if TYPE_CHECKING:
    import ssl

    from kstore.security.keystores import StoreFile
    from kstore.security.mapping_rules import PrincipalMapper

KEYSTORE, KEYSTORE_TYPE = "ssl.keystore.location", "ssl.keystore.type"
KEYSTORE_PASSWORD, KEY_PASSWORD = "ssl.keystore.password", "ssl.key.password"
TRUSTSTORE, TRUSTSTORE_TYPE = "ssl.truststore.location", "ssl.truststore.type"
TRUSTSTORE_PASSWORD, TRUSTED = "ssl.truststore.password", "ssl.truststore.certificates"
CLIENT_AUTH, PROTOCOLS = "ssl.client.auth", "ssl.enabled.protocols"
MAPPING_RULES = "ssl.principal.mapping.rules"
TLS_SETTINGS = frozenset(
    (
        KEYSTORE, KEYSTORE_TYPE, KEY_PASSWORD, TRUSTSTORE, TRUSTSTORE_TYPE, TRUSTED, CLIENT_AUTH,
        PROTOCOLS, MAPPING_RULES, KEYSTORE_PASSWORD, TRUSTSTORE_PASSWORD,
    )
)  # fmt: skip
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_AUTH = ("none", "requested", "required")
Stamps = tuple[object, ...]


@lazy_dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """The TLS settings of one listener."""

    keystore: "StoreFile"
    mapper: "PrincipalMapper"
    key_password: str = field(default="", repr=False)
    truststore: "StoreFile | None" = None
    trusted: str = field(default="", repr=False)  # certificates, PEM
    client_auth: str = "none"
    versions: tuple[str, ...] = _VERSIONS

    @property
    def files(self) -> Sequence[str]:
        """The files that an operator may replace while the broker runs."""
        return [each.path for each in (self.keystore, self.truststore) if each is not None]


def read_tls_settings(texts: SettingTexts, where: ListenerAddress) -> TlsSettings:
    """Read the settings of a listener with TLS. Raises InvalidConfigError.

    As in Kafka, a listener with SASL requests client certificates only if
    ``listener.name.<listener>.ssl.client.auth`` is set.
    """
    from kstore.security.keystores import PEM, store_file
    from kstore.security.mapping_rules import PrincipalMapper  # which compiles patterns

    listener = where.name

    def text(name: str) -> str:
        return texts.text(name, listener)

    whose = f"listener {listener}: "
    keystore = store_file(
        "keystore", text(KEYSTORE), text(KEYSTORE_TYPE), text(KEYSTORE_PASSWORD), whose
    )
    truststore = store_file(
        "truststore", text(TRUSTSTORE), text(TRUSTSTORE_TYPE), text(TRUSTSTORE_PASSWORD), whose
    )
    if not keystore.path:
        raise InvalidConfigError(
            f"listener {listener} needs {KEYSTORE}: a file with the private key and the "
            "certificates"
        )
    if text(TRUSTED) and truststore.kind != PEM:
        raise InvalidConfigError(f"{whose}{TRUSTED} needs {TRUSTSTORE_TYPE}={PEM}")
    auth = text(CLIENT_AUTH).lower()
    if where.uses_sasl and texts.source(CLIENT_AUTH, listener) == CLIENT_AUTH:
        auth = "none"
    if auth not in _AUTH:
        raise InvalidConfigError(f"{CLIENT_AUTH} is one of {', '.join(_AUTH)}, not {auth!r}")
    if auth != "none" and not (text(TRUSTSTORE) or text(TRUSTED)):
        raise InvalidConfigError(
            f"listener {listener}: {CLIENT_AUTH}={auth} needs {TRUSTSTORE}, the certificates of "
            "the authorities that sign clients"
        )
    versions = texts.names(PROTOCOLS, listener)
    if not versions or any(each not in _VERSIONS for each in versions):
        raise InvalidConfigError(f"{PROTOCOLS} has {' and '.join(_VERSIONS)}, or one of them")
    return TlsSettings(
        keystore=keystore,
        key_password=text(KEY_PASSWORD),
        truststore=truststore if truststore.path else None,
        trusted=text(TRUSTED),
        client_auth=auth,
        versions=tuple(versions),
        mapper=PrincipalMapper(text(MAPPING_RULES) or "DEFAULT"),
    )


def server_context(settings: TlsSettings) -> "ssl.SSLContext":
    """Create a context from the current contents of the files.

    Blocks. Raises InvalidConfigError, which names the file.
    """
    import ssl  # slow to import

    from kstore.security.keystores import load_key, load_trusted, unusable

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    chosen = [versions[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    context.options |= ssl.OP_NO_RENEGOTIATION
    path = settings.keystore.path
    try:
        load_key(context, settings.keystore, settings.key_password)
        if settings.client_auth != "none":
            path = TRUSTED
            if settings.trusted:
                context.load_verify_locations(cadata=settings.trusted)
            if settings.truststore is not None:
                path = settings.truststore.path
                load_trusted(context, settings.truststore)
            required = settings.client_auth == "required"
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise unusable(path, error) from None
    return context


def stamps(settings: TlsSettings) -> Stamps:
    """Stamps of the files, which change if a file is replaced or modified. Blocks."""
    return tuple(outside_stamp(path) for path in settings.files)


# --- names of clients ------------------------------------------------------------------------

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
# Attributes that Java formats as OID and hexadecimal value, by string type.
_BY_NUMBER = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "dnQualifier": ("2.5.4.46", 0x13),
}


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Format the subject of ``getpeercert()`` as Java's X500Principal.getName does (RFC 2253)."""
    names = []
    for parts in reversed(certificate.get("subject", ())):
        names.append("+".join(_attribute(kind, value) for kind, value in parts))
    return ",".join(names)


def _attribute(kind: str, value: str) -> str:
    if kind in _BY_NUMBER:
        number, tag = _BY_NUMBER[kind]
        data = value.encode()
        if len(data) < 128:
            return f"{number}=#{bytes((tag, len(data))).hex()}{data.hex()}"
    return f"{_SHORT.get(kind, kind)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text
