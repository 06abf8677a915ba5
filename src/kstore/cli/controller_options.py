"""--bootstrap-controller of ``cluster``, ``configs`` and ``features``: a KRaft controller.

Like Kafka's Admin client with ``bootstrap.controllers`` (KIP-919), a tool first asks what kind of
endpoint it has reached. A broker refuses, `kstore serve` among them.
"""

import argparse
from typing import TYPE_CHECKING

from kstore.arguments import read_properties
from kstore.cli.common import connection_security
from kstore.errors import KStoreError, SourceError

if TYPE_CHECKING:
    from kstore.remote.connection import Connection

_TIMEOUT = 30.0
ONLY_OF_BROKERS = (
    "org.apache.kafka.common.errors.UnsupportedEndpointTypeException: This Admin API is not yet "
    "supported when communicating directly with the controller quorum."
)


def add_bootstrap_controller(
    parser: "argparse._ActionsContainer", *short: str, default: object = None
) -> None:
    parser.add_argument(
        "--bootstrap-controller",
        *short,
        default=default,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="or a KRaft controller",
    )


def open_controller(arguments: argparse.Namespace) -> "tuple[Connection, str]":
    """Connect to the first of --bootstrap-controller that answers; return its cluster's id, too.

    The caller closes the connection. Raises KStoreError with Kafka's sentence if it is a broker,
    and SourceError if none answers.
    """
    from kstore.remote.cluster import parse_servers
    from kstore.remote.connection import Connection
    from kstore.remote.controllers import cluster_id_of_controller

    settings = read_properties(getattr(arguments, "command_config", None))
    security = connection_security(settings)
    problem: SourceError | None = None
    servers = parse_servers(arguments.bootstrap_controller, option="--bootstrap-controller")
    for host, port in servers:
        try:
            connection = Connection(
                host,
                port,
                client_id=settings.get("client.id", "kstore"),
                timeout=_TIMEOUT,
                security=security,
            )
        except SourceError as error:
            problem = error
            continue
        try:
            return connection, cluster_id_of_controller(connection)
        except SourceError as error:
            connection.close()
            problem = error
        except BaseException:
            connection.close()
            raise
    assert problem is not None
    raise problem


def refuse_controller(what: str) -> KStoreError:
    """The error for a controller that answers, where only a broker serves what is asked for."""
    return KStoreError(
        f"kstore asks a broker {what}, not a controller: name one by --bootstrap-server host:port"
    )
