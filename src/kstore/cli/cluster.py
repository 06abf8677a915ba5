"""``kstore cluster``: Kafka's kafka-cluster."""

import argparse

from kstore.arguments import whole_number
from kstore.cli.common import ActionParser, ToolParser, open_server
from kstore.cli.controller_options import (
    ONLY_OF_BROKERS,
    add_bootstrap_controller,
    open_controller,
    refuse_controller,
)
from kstore.cli.server_options import add_connection
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX, INT32_MIN

EPILOG = """\
examples:
  kstore cluster cluster-id --bootstrap-server localhost:9092

unregister takes a broker out of the metadata of a KRaft cluster. A directory that kstore serves
has one broker, which is always a member: the tool prints that the cluster does not support it. For
a Kafka cluster, use Kafka's own kafka-cluster.sh.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    for name, text in (
        ("cluster-id", "Print the id of the cluster."),
        ("unregister", "Unregister a broker; kstore refuses it: see below."),
        ("list-endpoints", "List the brokers and their addresses."),
    ):
        found = actions.add_parser(name, help=text, description=text)
        group = found.add_mutually_exclusive_group(required=True)
        group.add_argument(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT[,HOST:PORT...]",
            help="a Kafka broker, or `kstore serve`",
        )
        add_bootstrap_controller(group, "-C")
        add_connection(found, "--config", "-c")
        if name == "unregister":
            found.add_argument("--id", "-i", required=True, metavar="ID", help="the broker",
                type=whole_number(INT32_MIN, INT32_MAX))  # fmt: skip
    for name in ("--log-dir", "--path"):
        parser.hints[name] = "this tool asks a server: --bootstrap-server host:port"
    for name in ("--bootstrap-server", "--bootstrap-controller", "--command-config"):
        parser.hints[name] = f"the action comes first: kstore cluster cluster-id {name}"


def run(arguments: argparse.Namespace) -> int:
    if arguments.bootstrap_controller is not None:
        return ask_controller(arguments)
    from kstore.remote.controllers import can_unregister

    with open_server(arguments) as store:
        cluster = store.cluster
        if arguments.action == "unregister":
            if can_unregister(cluster):
                raise KStoreError(
                    "kstore unregisters no brokers of a Kafka cluster: use Kafka's "
                    f"kafka-cluster.sh for broker {arguments.id}"
                )
            print("The target cluster does not support the broker unregistration API.")
        elif arguments.action == "list-endpoints":
            print(f"{'ID':<10} {'HOST':<30} {'PORT':<10} {'RACK':<10}")
            for node in cluster.nodes:
                host, port = cluster.address(node)
                print(f"{node:<10} {host:<30} {port:<10} {cluster.rack(node) or 'null':<10}")
        elif cluster.cluster_id is None:
            print("No cluster ID found. The Kafka version is probably too old.")
        else:
            print(f"Cluster ID: {cluster.cluster_id}")
    return 0


def ask_controller(arguments: argparse.Namespace) -> int:
    """Run an action at --bootstrap-controller."""
    if arguments.action == "unregister":
        raise KStoreError(ONLY_OF_BROKERS)
    connection, cluster_id = open_controller(arguments)
    connection.close()
    if arguments.action == "list-endpoints":
        raise refuse_controller("for the brokers")
    print(f"Cluster ID: {cluster_id}")
    return 0
