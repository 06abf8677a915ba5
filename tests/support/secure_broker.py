"""A served directory with a listener for each security protocol, and the files of its clients."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import kstore
from support.certificates import Authority

PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required "


class SecureBroker(NamedTuple):
    """The broker, and the PEM files with which clients trust it and are trusted."""

    broker: kstore.Broker
    trusted: Path
    client: Path


@contextlib.contextmanager
def secure_broker(
    root: Path, plain_users: str, settings: Mapping[str, object] | None = None
) -> Iterator[SecureBroker]:
    """Serve an empty directory; its listener INTERNAL is PLAINTEXT, and clients have certificates.

    ``plain_users``: the options of PLAIN's JAAS configuration that name users.
    """
    authority = Authority(root / "authority")
    server, client = authority.issue("server"), authority.issue("client", "/CN=client")
    jaas = f"{PLAIN_MODULE}{plain_users};"
    secured = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("INTERNAL", *PROTOCOLS)),
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in PROTOCOLS),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "kstore.sasl.plain.without.tls": True,
        "connection.failed.authentication.delay.ms": 0,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.fspath(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.fspath(authority.certificate),
        "ssl.client.auth": "required",
    }
    with kstore.serve(root / "secure", settings={**secured, **(settings or {})}) as broker:
        yield SecureBroker(broker, authority.certificate, client)
