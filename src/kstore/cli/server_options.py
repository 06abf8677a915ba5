"""Options and tables of tools that work only on a server."""

import argparse
from collections.abc import Iterable, Sequence

from kstore.cli.common import ToolParser, WrongOptionsError, add_broker_list, add_command_config


def add_server(
    parser: ToolParser,
    *config_aliases: str,
    short: tuple[str, ...] = (),
    before_action: bool = False,
    after_action: bool = False,
    has_broker_list: bool = False,
) -> None:
    """--bootstrap-server, required, and --command-config.

    Of a tool with actions they stand before or after the action. There, and with --broker-list,
    an older name, :func:`check_server` misses the server. ``config_aliases`` are older names of
    --command-config, ``short`` of --bootstrap-server.
    """
    default = argparse.SUPPRESS if after_action else None
    parser.add_argument(
        "--bootstrap-server",
        *short,
        required=not before_action and not after_action and not has_broker_list,
        default=default,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="REQUIRED: a Kafka broker, or `kstore serve`",
    )
    if has_broker_list:
        add_broker_list(parser)
    add_connection(parser, *config_aliases, default=default)


def add_connection(parser: ToolParser, *config_aliases: str, default: str | None = None) -> None:
    """--command-config, and hints for other ways to name a server."""
    del parser.hints["--bootstrap-server"]
    parser.hints["--broker-list"] = "name the server by --bootstrap-server host:port"
    parser.hints["--zookeeper"] = "name the server by --bootstrap-server host:port"
    parser.hints["--bootstrap-controller"] = "name a broker by --bootstrap-server host:port"
    add_command_config(parser, *config_aliases, default=default)
    for name in ("--log-dir", "--path"):
        parser.hints[name] = "this tool asks a server: --bootstrap-server host:port"


def add_either_server(parser: ToolParser, *config_aliases: str) -> None:
    """As :func:`add_server`, with --broker-list, an older name; exactly one of the two is given."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="REQUIRED: a Kafka broker, or `kstore serve`",
    )
    add_broker_list(parser, group)
    add_connection(parser, *config_aliases)


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
