"""The security settings of a client, by Kafka's names: ``security.protocol``, ``ssl.*``,
``sasl.*``.

As in Kafka's CommonClientConfigs, SslConfigs and SaslConfigs. A security setting that kstore does
not honour is an error, unless it has Kafka's default. Error messages contain no secrets.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security import jaas
from kstore.security.client_tls import CLIENT_TLS_SETTINGS, ClientTls, read_client_tls
from kstore.security.listeners import PROTOCOLS
from kstore.security.oauth_login import OAUTH_LOGIN_SETTINGS, AccessTokens, read_oauth_login
from kstore.security.oauthbearer import OAUTHBEARER
from kstore.security.scram import HASHES

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
# The supported settings, with Kafka's defaults.
_READ = MappingProxyType(
    {
        _PROTOCOL: "PLAINTEXT",
        _MECHANISM: "GSSAPI",
        _JAAS: "",
        **CLIENT_TLS_SETTINGS,
        **OAUTH_LOGIN_SETTINGS,
    }
)
# Other settings of Kafka's clients, which must have their defaults, and settings without effect:
# of Kerberos, of brokers, and of a login that is renewed in the background.
_DEFAULTS = MappingProxyType(
    {
        "ssl.protocol": ("TLSv1.3", "TLSv1.2", "TLS"),
        "ssl.keymanager.algorithm": ("SunX509",),
        "ssl.trustmanager.algorithm": ("PKIX",),
    }
)
_WITHOUT_EFFECT = (
    "sasl.kerberos.", "sasl.login.refresh.", "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.expected.", "sasl.oauthbearer.clock.", "security.providers",
)  # fmt: skip
_PREFIXES = ("ssl.", "sasl.", "security.")


@lazy_dataclass(frozen=True, kw_only=True)
class ClientSasl:
    """The SASL credentials of a client."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    tokens: AccessTokens | None = None  # of OAUTHBEARER


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
        tls=read_client_tls(
            {name: text for name, text in texts.items() if name in CLIENT_TLS_SETTINGS}
        )
        if protocol in ("SSL", "SASL_SSL")
        else None,
        sasl=_sasl(texts) if protocol.startswith("SASL_") else None,
    )


def _text(texts: Mapping[str, str], name: str) -> str:
    return texts.get(name, _READ[name])


def _sasl(texts: Mapping[str, str]) -> ClientSasl:
    mechanism = _text(texts, _MECHANISM)
    if mechanism not in MECHANISMS:
        raise InvalidConfigError(
            f"{_MECHANISM} is one of {', '.join(MECHANISMS)}, not {mechanism[:40]!r}"
        )
    if mechanism == OAUTHBEARER:
        return ClientSasl(mechanism=mechanism, tokens=_access_tokens(texts))
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


def _access_tokens(texts: Mapping[str, str]) -> AccessTokens:
    options: Mapping[str, str] = {}
    if _text(texts, _JAAS):
        config = jaas.parse_jaas(_JAAS, _text(texts, _JAAS))
        if config.module != jaas.OAUTHBEARER_MODULE:
            raise InvalidConfigError(
                f"{_JAAS}: the login module of {OAUTHBEARER} is {jaas.OAUTHBEARER_MODULE}"
            )
        options = config.options
    settings = {name: _text(texts, name) for name in OAUTH_LOGIN_SETTINGS}
    return AccessTokens(read_oauth_login(settings, options))
