"""``kstore storage``: Kafka's kafka-storage, for the directories of a server.properties."""

import argparse

from kstore.arguments import read_properties
from kstore.cli.common import ActionParser, ToolParser, WrongOptionsError, open_store
from kstore.cli.features import release_level
from kstore.errors import KStoreError

EPILOG = """\
examples:
  kstore storage random-uuid
  kstore storage format --cluster-id "$(kstore storage random-uuid)" --config server.properties
  kstore storage format --ignore-formatted -t wl29c-eVQmCyOOzKBLyFwA -c server.properties

A directory need not be formatted before `kstore serve`: without an id it gets a random one. format
checks the file, creates the directories of log.dirs and keeps the cluster's id in them. kstore has
no quorum and no metadata log: --standalone, --initial-controllers, --no-initial-controllers,
--feature and --release-version change only the text. Passwords of --add-scram are refused: set them
while the server runs, with kstore configs --entity-type users. Kafka's other actions are missing.
"""
_DEFAULT_RELEASE = "3.9-IV0"
_LEGACY = (
    "The kafka configuration file appears to be for a legacy cluster. Formatting is only supported "
    "for clusters in KRaft mode."
)


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    text = "print a random id"
    actions.add_parser("random-uuid", help=text, description=f"{text.capitalize()}.")
    text = "give directories the id of their cluster"
    found = actions.add_parser("format", help=text, description=f"{text.capitalize()}.")
    found.add_argument("--config", "-c", required=True, metavar="FILE",
        help="REQUIRED: Kafka's server.properties")  # fmt: skip
    found.add_argument("--cluster-id", "-t", required=True, metavar="ID",
        help="REQUIRED: the id of the cluster")  # fmt: skip
    found.add_argument("--ignore-formatted", "-g", action="store_true",
        help="leave directories alone that are formatted already")  # fmt: skip
    found.add_argument("--release-version", "-r", metavar="RELEASE", default=_DEFAULT_RELEASE,
        help="the metadata.version to print (default: 3.9-IV0)")  # fmt: skip
    found.add_argument("--feature", "-f", action="append", metavar="NAME=LEVEL",
        help="without effect")  # fmt: skip
    found.add_argument("--add-scram", "-S", action="append", metavar="CREDENTIAL",
        help="refused: see below")  # fmt: skip
    quorum = found.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="without effect")
    quorum.add_argument(
        "--no-initial-controllers", "-N", action="store_true", help="without effect"
    )
    quorum.add_argument("--initial-controllers", "-I", metavar="LIST", help="without effect")


def run(arguments: argparse.Namespace) -> int:
    from kstore.cluster.formatted_directories import new_cluster_id

    if arguments.action == "random-uuid":
        print(new_cluster_id())
    else:
        _format(arguments)
    return 0


def _format(arguments: argparse.Namespace) -> None:
    from kstore.broker.server_properties import read_server_properties
    from kstore.cluster.formatted_directories import formatted, write_cluster_id

    if arguments.add_scram:
        raise WrongOptionsError(
            "--add-scram: set passwords while the server runs, with kstore configs --alter "
            "--entity-type users --add-config 'SCRAM-SHA-256=[password=...]'"
        )
    properties = read_properties(arguments.config)
    if not properties.get("process.roles", "").strip():
        raise KStoreError(_LEGACY)
    file = read_server_properties(properties)
    if file.node_id is None:
        raise KStoreError("You must specify a valid non-negative node ID.")
    if not file.log_dirs:
        raise KStoreError(f"{arguments.config} has no log.dirs, the directories to format")
    release = release_level(arguments.release_version)
    done = formatted(file.log_dirs, arguments.cluster_id, file.node_id)
    if done and not arguments.ignore_formatted:
        raise KStoreError(
            f"Log directory {done[0]} is already formatted. Use --ignore-formatted to ignore this "
            "directory and format the others."
        )
    missing = [path for path in sorted(set(file.log_dirs)) if path not in done]
    if not missing:
        print("All of the log directories are already formatted.")
        return
    arguments.log_dir = list(file.log_dirs)
    with open_store(arguments, "a", create=True) as store:
        metadata = properties.get("metadata.log.dir", "").strip() or file.log_dirs[0]
        for path in missing:
            kind = _metadata_directory(arguments) if path == metadata else "data directory"
            print(f"Formatting {kind} {path} with metadata.version {release}.")
        write_cluster_id(store, arguments.cluster_id)


def _metadata_directory(arguments: argparse.Namespace) -> str:
    """What Kafka's tool calls the directory that would have the metadata log."""
    is_voter = arguments.standalone or arguments.initial_controllers is not None
    return "dynamic metadata voter directory" if is_voter else "metadata directory"
