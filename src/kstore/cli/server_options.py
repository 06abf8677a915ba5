"""Options and tables of tools that work only on a server."""

import argparse
from collections.abc import Iterable, Sequence

from kstore.cli.common import ToolParser, WrongOptionsError, add_command_config


def add_server(
    parser: ToolParser,
    *config_aliases: str,
    before_action: bool = False,
    after_action: bool = False,
) -> None:
    """--bootstrap-server, required, and --command-config.

    Of a tool with actions they stand before or after the action, and :func:`check_server` misses
    the server. ``config_aliases`` are older names of --command-config.
    """
    parser.add_argument(
        "--bootstrap-server",
        required=not before_action and not after_action,
        default=argparse.SUPPRESS if after_action else None,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="REQUIRED: a Kafka broker, or `kstore serve`",
    )
    del parser.hints["--bootstrap-server"]
    parser.hints["--broker-list"] = "name the server by --bootstrap-server host:port"
    parser.hints["--zookeeper"] = "name the server by --bootstrap-server host:port"
    parser.hints["--bootstrap-controller"] = "name a broker by --bootstrap-server host:port"
    add_command_config(parser, *config_aliases, default=argparse.SUPPRESS if after_action else None)
    for name in ("--log-dir", "--path"):
        parser.hints[name] = "this tool asks a server: --bootstrap-server host:port"


def check_server(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError if a tool with actions got no server."""
    if arguments.bootstrap_server is None:
        raise WrongOptionsError('Missing required argument "[bootstrap-server]"')


def pretty_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as kafka-transactions does: columns as wide as their widest cell, and a tab."""
    lines = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True))
        print("".join(cells).rstrip("\n"))
