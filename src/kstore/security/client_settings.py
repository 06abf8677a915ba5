"""The security settings of a client, by Kafka's names: ``security.protocol``, ``ssl.*``,
``sasl.*``.

As in Kafka's CommonClientConfigs, SslConfigs and SaslConfigs. A security setting that kstore does
not honour is an error, unless it has Kafka's default. Error messages contain no secrets.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security import jaas
from kstore.security.listeners import PROTOCOLS
from kstore.security.scram import HASHES

if TYPE_CHECKING:
    import ssl

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_PEM = "PEM"
_HOW_TO_CONVERT = (
    "kstore reads PEM files: export the store with keytool -importkeystore -deststoretype PKCS12, "
    "then openssl pkcs12 -nodes, and set the type to PEM"
)
_TRUSTSTORE, _KEYSTORE = "ssl.truststore.location", "ssl.keystore.location"
_TRUSTED, _KEY_PASSWORD = "ssl.truststore.certificates", "ssl.key.password"
_VERSIONS, _IDENTIFICATION = "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"
# The supported settings, with Kafka's defaults.
_READ = MappingProxyType(
    {
        _PROTOCOL: "PLAINTEXT",
        _MECHANISM: "GSSAPI",
        _JAAS: "",
        _TRUSTSTORE: "",
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": "",
        _TRUSTED: "",
        _KEYSTORE: "",
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": "",
        _KEY_PASSWORD: "",
        _VERSIONS: "TLSv1.2,TLSv1.3",
        _IDENTIFICATION: "https",
    }
)
# Other settings of Kafka's clients, which must have their defaults, and settings without effect,
# since kstore rejects their mechanisms (Kerberos and OAUTHBEARER).
_DEFAULTS = MappingProxyType(
    {
        "ssl.protocol": ("TLSv1.3", "TLSv1.2", "TLS"),
        "ssl.keymanager.algorithm": ("SunX509",),
        "ssl.trustmanager.algorithm": ("PKIX",),
    }
)
_WITHOUT_EFFECT = (
    "sasl.kerberos.", "sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.",
    "sasl.login.read.", "sasl.oauthbearer.", "security.providers",
)  # fmt: skip
_PREFIXES = ("ssl.", "sasl.", "security.")


@lazy_dataclass(frozen=True, kw_only=True)
class ClientTls:
    """The authorities that a client trusts, and its certificate."""

    truststore: str = ""  # a PEM file; without it and `trusted`, the system's authorities
    trusted: str = ""  # certificates, PEM
    keystore: str = ""
    key_password: str = field(default="", repr=False)
    checks_name: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@lazy_dataclass(frozen=True, kw_only=True)
class ClientSasl:
    """The SASL credentials of a client."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@lazy_dataclass(frozen=True, kw_only=True)
class ClientSecurity:
    """The security of a client's connections; both None: PLAINTEXT."""

    tls: ClientTls | None = None
    sasl: ClientSasl | None = None


def is_security_setting(name: str) -> bool:
    """Whether this module reads a client's setting."""
    return name.startswith(_PREFIXES)


def client_security(given: Mapping[str, str]) -> ClientSecurity:
    """Read the security settings among a client's settings.

    Raises InvalidConfigError for invalid, incomplete or unsupported settings.
    """
    texts = {name: text.strip() for name, text in given.items() if is_security_setting(name)}
    for name, text in texts.items():
        if name in _READ or name.startswith(_WITHOUT_EFFECT) or text in _DEFAULTS.get(name, ("",)):
            continue
        raise InvalidConfigError(f"kstore does not support {name} for a client; leave it out")
    protocol = _text(texts, _PROTOCOL).upper()
    if protocol not in PROTOCOLS:
        raise InvalidConfigError(f"{_PROTOCOL} is one of {', '.join(PROTOCOLS)}")
    return ClientSecurity(
        tls=_tls(texts) if protocol in ("SSL", "SASL_SSL") else None,
        sasl=_sasl(texts) if protocol.startswith("SASL_") else None,
    )


def _text(texts: Mapping[str, str], name: str) -> str:
    return texts.get(name, _READ[name])


def _tls(texts: Mapping[str, str]) -> ClientTls:
    for what in ("truststore", "keystore"):
        location, kind = f"ssl.{what}.location", f"ssl.{what}.type"
        is_used = _text(texts, location) or (what == "truststore" and _text(texts, _TRUSTED))
        if is_used and _text(texts, kind).upper() != _PEM:
            raise InvalidConfigError(f"{kind} is {_text(texts, kind)}; {_HOW_TO_CONVERT}")
        if _text(texts, f"ssl.{what}.password"):
            raise InvalidConfigError(f"ssl.{what}.password is not used with PEM, leave it out")
    if _text(texts, _TRUSTSTORE) and _text(texts, _TRUSTED):
        raise InvalidConfigError(f"{_TRUSTSTORE} and {_TRUSTED} exclude each other")
    versions = tuple(each.strip() for each in _text(texts, _VERSIONS).split(",") if each.strip())
    if not versions or any(each not in ("TLSv1.2", "TLSv1.3") for each in versions):
        raise InvalidConfigError(f"{_VERSIONS} has TLSv1.2 and TLSv1.3, or one of them")
    identification = _text(texts, _IDENTIFICATION).lower()
    if identification not in ("", "https"):
        raise InvalidConfigError(f"{_IDENTIFICATION} is https, or empty: names are not checked")
    return ClientTls(
        truststore=_text(texts, _TRUSTSTORE),
        trusted=_text(texts, _TRUSTED),
        keystore=_text(texts, _KEYSTORE),
        key_password=_text(texts, _KEY_PASSWORD),
        checks_name=identification == "https",
        versions=versions,
    )


def _sasl(texts: Mapping[str, str]) -> ClientSasl:
    mechanism = _text(texts, _MECHANISM)
    if mechanism not in MECHANISMS:
        raise InvalidConfigError(
            f"{_MECHANISM} is one of {', '.join(MECHANISMS)}, not {mechanism[:40]!r}"
        )
    expected = jaas.PLAIN_MODULE if mechanism == PLAIN else jaas.SCRAM_MODULE
    if not _text(texts, _JAAS):
        raise InvalidConfigError(
            f'{_MECHANISM}={mechanism} needs {_JAAS}={expected} required username="..." '
            'password="...";'
        )
    config = jaas.parse_jaas(_JAAS, _text(texts, _JAAS))
    if config.module != expected:
        raise InvalidConfigError(f"{_JAAS}: the login module of {mechanism} is {expected}")
    if config.options.get("tokenauth", "false").lower() == "true":
        raise InvalidConfigError(f"{_JAAS}: delegation tokens (tokenauth) are not supported")
    for option in ("username", "password"):
        if not config.options.get(option):
            raise InvalidConfigError(f"{_JAAS} has no {option}")
    return ClientSasl(
        mechanism=mechanism,
        user=config.options["username"],
        password=config.options["password"],
    )


def client_context(settings: ClientTls) -> "ssl.SSLContext":
    """Create an SSL context. Blocks. Raises InvalidConfigError, which names the file."""
    import ssl  # slow to import

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_name
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    chosen = [versions[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)
    context.options |= ssl.OP_NO_RENEGOTIATION
    path = settings.truststore or _TRUSTED
    try:
        if settings.truststore or settings.trusted:
            context.load_verify_locations(
                cafile=settings.truststore or None, cadata=settings.trusted or None
            )
        else:
            context.load_default_certs()
        path = settings.keystore
        if path:
            # With a function, OpenSSL never prompts for a password on the terminal.
            context.load_cert_chain(path, password=lambda: settings.key_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not valid"
        raise InvalidConfigError(f"{path} cannot be used for TLS: {reason}") from None
    return context
