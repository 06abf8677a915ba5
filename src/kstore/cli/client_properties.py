"""Parses settings of Kafka's clients on a command line, such as ``--consumer-property``."""

import re
from argparse import ArgumentParser
from collections.abc import Collection, Iterable

from kstore.arguments import read_properties
from kstore.cli.common import WrongOptionsError, complain

# Settings of Kafka's clients that concern brokers, connections and buffers of the client.
_WITHOUT_EFFECT = re.compile(
    r"(allow\.auto\.create|bootstrap|check\.crcs|client|connections|default\.api|delivery|"
    r"exclude\.internal|fetch|group\.(?:instance|protocol|remote)|heartbeat|interceptor|"
    r"(?:key|value)\.(?:de)?serializer|max\.(?:in\.flight|partition|poll|request)|metadata|"
    r"metrics?|auto\.(?:commit|include)|enable\.metrics|partition\.assignment|partitioner|"
    r"receive\.buffer|reconnect|request|retr(?:y|ies)|sasl|security|send\.buffer|session|socket|"
    r"ssl)(?:\..+)?"
)


def add_client_options(parser: ArgumentParser, client: str) -> None:
    """Add the options for a client's settings, under their names in Kafka 4.1 and before."""
    parser.add_argument(
        "--command-property",
        f"--{client}-property",
        action="append",
        default=[],
        dest=client,
        metavar="NAME=VALUE",
        help=f"a setting of the {client}; see below",
    )
    parser.add_argument(
        "--command-config",
        f"--{client}-config",
        f"--{client}.config",
        dest=f"{client}_config",
        metavar="FILE",
        help="a properties file of such settings; options take precedence",
    )


def client_properties(
    pairs: Iterable[str],
    path: str | None,
    known: Collection[str],
    connection: dict[str, str] | None = None,
) -> dict[str, str]:
    """Settings of a client by name, from ``name=value`` options and a file; options take
    precedence.

    Those of a server's ``connection`` are moved there: security and client.id. Other settings of
    connections, which have no effect here, are named on standard error and omitted. Raises
    WrongOptionsError for any other name that is not ``known``.
    """
    from kstore.security.client_settings import is_security_setting

    found = read_properties(path)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongOptionsError(f"a property reads name=value, not {pair[:80]!r}")
        found[name.strip()] = value
    if connection is not None:
        for name in [each for each in found if is_security_setting(each) or each == "client.id"]:
            connection[name] = found.pop(name)
        found.pop("bootstrap.servers", None)
    omitted = sorted(name for name in found if name not in known)
    for name in omitted:
        if not _WITHOUT_EFFECT.fullmatch(name):
            raise WrongOptionsError(
                f"cannot use the property {name[:80]!r}; known are: {', '.join(known)}"
            )
        del found[name]
    if omitted:
        report_without_effect(
            omitted, "there is no broker" if connection is None else "kstore's client lacks them"
        )
    return found


def report_without_effect(names: Iterable[str], reason: str) -> None:
    """Name settings on standard error that have no effect here."""
    complain(f"without effect, because {reason}: {', '.join(names)}")
