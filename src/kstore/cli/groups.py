"""``kstore groups``: Kafka 4's kafka-groups, which lists the groups of all types."""

import argparse
from typing import TYPE_CHECKING

from kstore.cli.common import ToolParser, WrongOptionsError, exclusive, open_server
from kstore.cli.server_options import add_server

if TYPE_CHECKING:
    from kstore.remote.groups import ListedGroup

EPILOG = """\
examples:
  kstore groups --list --bootstrap-server localhost:9092
  kstore groups --list --group-type consumer --bootstrap-server localhost:9092
  kstore groups --list --consumer --bootstrap-server localhost:9092

Lists the groups of a server by id, with their type and protocol. kstore consumer-groups describes
and changes them.
"""
_TYPES = ("classic", "consumer", "share", "streams")
_FILTERS = ("consumer", "share", "streams")  # each excludes the others, and the next
_BY_VALUE = ("group_type", "protocol")
_LEAST_WIDTH = 20


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser)
    parser.add_argument("--list", action="store_true", help="list the groups")
    parser.add_argument("--group-type", metavar="TYPE",
        help=f"only groups of this type: {', '.join(_TYPES)}")  # fmt: skip
    parser.add_argument("--protocol", metavar="PROTOCOL",
        help="only groups with this protocol type")  # fmt: skip
    parser.add_argument("--consumer", action="store_true",
        help="only groups of consumers: of type consumer, or with protocol consumer or none",
    )  # fmt: skip
    parser.add_argument("--share", action="store_true", help="only share groups")
    parser.add_argument("--streams", action="store_true", help="only streams groups")


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.groups import list_all_groups

    if not arguments.list:
        raise WrongOptionsError("Command must include exactly one action: --list.")
    if arguments.group_type is not None and arguments.group_type.lower() not in _TYPES:
        raise WrongOptionsError("--group-type must be a valid group type.")
    for name in _FILTERS:
        for other in (*_FILTERS, *_BY_VALUE):
            if name != other and getattr(arguments, name) and getattr(arguments, other):
                raise exclusive(name, other)
    with open_server(arguments) as store:
        found = sorted(list_all_groups(store.cluster))
    rows = [
        (each.group_id, each.group_type.title(), each.protocol_type)
        for each in found
        if is_wanted(each, arguments)
    ]
    width = max(_LEAST_WIDTH, *(len(cell) for row in rows for cell in row), 0)
    print(f"{'GROUP':<{width}} {'TYPE':<{width}} {'PROTOCOL':<{width}}")
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))
    return 0


def is_wanted(group: "ListedGroup", arguments: argparse.Namespace) -> bool:
    """Whether a group passes the filters."""
    kind, protocol = group.group_type.lower(), group.protocol_type
    if arguments.group_type is not None:
        is_of_type = kind == arguments.group_type.lower()
        return is_of_type and arguments.protocol in (None, protocol)
    if arguments.protocol is not None:
        return bool(protocol == arguments.protocol)
    if arguments.consumer:
        return protocol in ("consumer", "") or kind == "consumer"
    if arguments.share or arguments.streams:
        return kind == ("share" if arguments.share else "streams")
    return True
