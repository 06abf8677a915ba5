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
    from kstore.protocol.messages.describe_cluster import DescribeClusterResponse
    from kstore.remote.connection import Connection

_CONTROLLER = 2  # DescribeCluster's number of the type
_HAS_TYPES = 1  # the version since which it has them
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


def open_controller(
    arguments: argparse.Namespace,
) -> "tuple[Connection, DescribeClusterResponse]":
    """Connect to the first of --bootstrap-controller that answers, and describe its cluster.

    The caller closes the connection. Raises KStoreError with Kafka's sentence if it is a broker,
    and SourceError if none answers.
    """
    from kstore.remote.cluster import parse_servers
    from kstore.remote.connection import Connection

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
            return connection, describe_controllers(connection)
        except SourceError as error:
            connection.close()
            problem = error
        except BaseException:
            connection.close()
            raise
    assert problem is not None
    raise problem


def describe_controllers(connection: "Connection") -> "DescribeClusterResponse":
    """The controllers of a cluster. Raises KStoreError with Kafka's sentence for a broker."""
    from kstore.protocol.messages.describe_cluster import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )

    request = DescribeClusterRequest(endpoint_type=_CONTROLLER)
    if connection.version_of(request) < _HAS_TYPES:
        raise _of_kafka(35, "Attempted to write a non-default endpointType at version 0")
    answer = connection.ask(request, DescribeClusterResponse)
    if answer.error_code:
        raise _of_kafka(answer.error_code, answer.error_message)
    return answer


def _of_kafka(code: int, message: str | None) -> KStoreError:
    """An error as Kafka's tools print it: with the name of its exception."""
    from kstore.remote.answer_errors import error_of, exception_name, kafka_text

    error = error_of(code, message, "")
    return KStoreError(f"{exception_name(error)}: {kafka_text(error)}")


def refuse_controller(what: str) -> KStoreError:
    """The error for a controller that answers, where only a broker serves what is asked for."""
    return KStoreError(
        f"kstore asks a broker {what}, not a controller: name one by --bootstrap-server host:port"
    )
