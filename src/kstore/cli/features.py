"""``kstore features``: what Kafka's kafka-features describes."""

import argparse

from kstore.cli.common import ActionParser, ToolParser, open_server
from kstore.cli.server_options import add_server, check_server

EPILOG = """\
examples:
  kstore features --bootstrap-server localhost:9092 describe

The features that the cluster's nodes support, and the level that each has. `kstore serve` has
none: nothing is printed. Levels are changed with Kafka's own kafka-features.sh.
"""
METADATA_VERSION = "metadata.version"
# Kafka's MetadataVersion: the last IV of each release, counted from level 1.
_RELEASES = (
    ("3.0", 1, 1), ("3.1", 0, 0), ("3.2", 0, 0), ("3.3", 0, 3), ("3.4", 0, 0), ("3.5", 0, 2),
    ("3.6", 0, 2), ("3.7", 0, 4), ("3.8", 0, 0), ("3.9", 0, 0), ("4.0", 0, 3),
)  # fmt: skip
_LEVELS = [f"{name}-IV{iv}" for name, low, high in _RELEASES for iv in range(low, high + 1)]


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    add_server(parser, before_action=True)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    text = "describe supported and active features"
    found = actions.add_parser("describe", help=text, description=f"{text.capitalize()}.")
    add_server(found, after_action=True)


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.admin import describe_features

    check_server(arguments)
    with open_server(arguments) as store:
        epoch, features = describe_features(store.cluster)
    for each in features:
        low, high, level = (
            level_name(each.name, number) for number in (each.min_level, each.max_level, each.level)
        )
        print(
            f"Feature: {each.name}\tSupportedMinVersion: {low}\tSupportedMaxVersion: {high}"
            f"\tFinalizedVersionLevel: {level}\tEpoch: {epoch}"
        )
    return 0


def level_name(feature: str, level: int) -> str:
    """A level as Kafka's tool prints it: the release for metadata.version, otherwise the number."""
    if feature == METADATA_VERSION and 1 <= level <= len(_LEVELS):
        return _LEVELS[level - 1]
    return str(level)
