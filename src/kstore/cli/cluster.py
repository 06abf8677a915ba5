"""``kstore cluster``: Kafka's kafka-cluster, without the unregistration of brokers."""

import argparse

from kstore.cli.common import ActionParser, ToolParser, WrongOptionsError, open_server
from kstore.cli.server_options import add_server

EPILOG = """\
examples:
  kstore cluster cluster-id --bootstrap-server localhost:9092

unregister takes a broker out of the metadata of a KRaft cluster. A directory that kstore serves
has one broker, which is always a member; of a Kafka cluster use Kafka's own kafka-cluster.sh.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    for name, text in (
        ("cluster-id", "Print the id of the cluster."),
        ("unregister", "Refused: see below."),
        ("list-endpoints", "List the brokers and their addresses."),
    ):
        found = actions.add_parser(name, help=text, description=text)
        add_server(found, "--config", "-c", short=("-b",))
        if name == "unregister":
            found.add_argument("--id", metavar="ID", help="the broker")
    for name in ("--log-dir", "--path"):
        parser.hints[name] = "this tool asks a server: --bootstrap-server host:port"
    for name in ("--bootstrap-server", "--command-config"):
        parser.hints[name] = "the action comes first: kstore cluster cluster-id --bootstrap-server"


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "unregister":
        raise WrongOptionsError(
            "unregister takes a broker out of a KRaft cluster, which kstore does not do: use "
            "Kafka's kafka-cluster.sh"
        )
    with open_server(arguments) as store:
        cluster = store.cluster
        if arguments.action == "list-endpoints":
            print(f"{'ID':<10} {'HOST':<30} {'PORT':<10} {'RACK':<10}")
            for node in cluster.nodes:
                host, port = cluster.address(node)
                print(f"{node:<10} {host:<30} {port:<10} {cluster.rack(node) or 'null':<10}")
        elif cluster.cluster_id is None:
            print("No cluster ID found. The Kafka version is probably too old.")
        else:
            print(f"Cluster ID: {cluster.cluster_id}")
    return 0
