"""TLS of a client: its settings by Kafka's names, and its SSL context."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.keystores import (
    PEM,
    StoreFile,
    load_key,
    load_trusted,
    store_file,
    unusable,
)

if TYPE_CHECKING:
    import ssl

_TRUSTSTORE, _KEYSTORE = "ssl.truststore.location", "ssl.keystore.location"
_TRUSTED, _KEY_PASSWORD = "ssl.truststore.certificates", "ssl.key.password"
_VERSIONS, _IDENTIFICATION = "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"
# The supported settings, with Kafka's defaults.
CLIENT_TLS_SETTINGS = MappingProxyType(
    {
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


@lazy_dataclass(frozen=True, kw_only=True)
class ClientTls:
    """The authorities that a client trusts, and its certificate."""

    truststore: StoreFile | None = None  # without it and `trusted`, the system's authorities
    trusted: str = ""  # certificates, PEM
    keystore: StoreFile | None = None
    key_password: str = field(default="", repr=False)
    checks_name: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


def read_client_tls(given: Mapping[str, str]) -> ClientTls:
    """Read the ``ssl.*`` settings. Raises InvalidConfigError, for other settings too."""
    for name in given:
        if name not in CLIENT_TLS_SETTINGS:
            raise InvalidConfigError(f"kstore does not support {name} for a client; leave it out")
    texts = {**CLIENT_TLS_SETTINGS, **given}
    truststore, keystore = (
        store_file(
            what, *(texts[f"ssl.{what}.{each}"] for each in ("location", "type", "password"))
        )
        for what in ("truststore", "keystore")
    )
    if truststore.path and texts[_TRUSTED]:
        raise InvalidConfigError(f"{_TRUSTSTORE} and {_TRUSTED} exclude each other")
    if texts[_TRUSTED] and truststore.kind != PEM:
        raise InvalidConfigError(f"{_TRUSTED} needs ssl.truststore.type={PEM}")
    versions = tuple(each.strip() for each in texts[_VERSIONS].split(",") if each.strip())
    if not versions or any(each not in ("TLSv1.2", "TLSv1.3") for each in versions):
        raise InvalidConfigError(f"{_VERSIONS} has TLSv1.2 and TLSv1.3, or one of them")
    identification = texts[_IDENTIFICATION].lower()
    if identification not in ("", "https"):
        raise InvalidConfigError(f"{_IDENTIFICATION} is https, or empty: names are not checked")
    return ClientTls(
        truststore=truststore if truststore.path else None,
        trusted=texts[_TRUSTED],
        keystore=keystore if keystore.path else None,
        key_password=texts[_KEY_PASSWORD],
        checks_name=identification == "https",
        versions=versions,
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
    path = _TRUSTED
    try:
        if settings.truststore is not None:
            path = settings.truststore.path
            load_trusted(context, settings.truststore)
        elif settings.trusted:
            context.load_verify_locations(cadata=settings.trusted)
        else:
            context.load_default_certs()
        if settings.keystore is not None:
            path = settings.keystore.path
            load_key(context, settings.keystore, settings.key_password)
    except (OSError, ValueError) as error:
        raise unusable(path, error) from None
    return context
