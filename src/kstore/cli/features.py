"""``kstore features``: what Kafka's kafka-features describes."""

import argparse
from typing import TYPE_CHECKING

from kstore.cli.common import ActionParser, ToolParser, WrongOptionsError, open_server
from kstore.cli.controller_options import add_bootstrap_controller, open_controller
from kstore.cli.server_options import add_server
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.remote.admin import Feature

EPILOG = """\
examples:
  kstore features --bootstrap-server localhost:9092 describe

The features that the cluster's nodes support, and the level that each has. `kstore serve` has
none: nothing is printed. upgrade, downgrade and disable are refused: levels are changed with
Kafka's own kafka-features.sh.
"""
# The actions that are refused, with their options in Kafka's tool.
_CHANGES = {
    "upgrade": ("metadata", "feature", "dry-run"),
    "downgrade": ("metadata", "feature", "unsafe", "dry-run"),
    "disable": ("feature", "unsafe", "dry-run"),
}
_OPTIONS: dict[str, dict[str, str]] = {
    "metadata": {"metavar": "RELEASE", "help": "the level of metadata.version"},
    "feature": {"action": "append", "metavar": "NAME[=LEVEL]", "help": "a feature; repeatable"},
    "unsafe": {"action": "store_true", "help": "also where metadata is lost"},
    "dry-run": {"action": "store_true", "help": "only check the change"},
}
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
    add_bootstrap_controller(parser)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    text = "describe supported and active features"
    found = actions.add_parser("describe", help=text, description=f"{text.capitalize()}.")
    add_server(found, after_action=True)
    add_bootstrap_controller(found, default=argparse.SUPPRESS)
    for name, options in _CHANGES.items():
        found = actions.add_parser(name, help="refused: see below", description="Refused.")
        add_server(found, after_action=True)
        add_bootstrap_controller(found, default=argparse.SUPPRESS)
        for option in options:
            found.add_argument(f"--{option}", **_OPTIONS[option])  # type: ignore[arg-type]


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    if arguments.action in _CHANGES:
        raise KStoreError(
            f"kstore describes features and changes none: to {arguments.action} those of a Kafka "
            "cluster, use Kafka's kafka-features.sh; `kstore serve` has none"
        )
    epoch, features = described(arguments)
    for each in features:
        low, high, level = (
            level_name(each.name, number) for number in (each.min_level, each.max_level, each.level)
        )
        print(
            f"Feature: {each.name}\tSupportedMinVersion: {low}\tSupportedMaxVersion: {high}"
            f"\tFinalizedVersionLevel: {level}\tEpoch: {epoch}"
        )
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check by Kafka's rule that one server is named."""
    both = (arguments.bootstrap_server, arguments.bootstrap_controller)
    if both == (None, None):
        raise WrongOptionsError(
            "one of the arguments --bootstrap-server --bootstrap-controller is required"
        )
    if None not in both:
        raise WrongOptionsError(
            "argument --bootstrap-controller: not allowed with argument --bootstrap-server"
        )


def described(arguments: argparse.Namespace) -> "tuple[int, list[Feature]]":
    """The epoch and the features, of a broker or a controller."""
    from kstore.remote.admin import describe_features

    if arguments.bootstrap_controller is not None:
        connection, _ = open_controller(arguments)
        with connection:
            return describe_features(connection)
    with open_server(arguments) as store:
        return describe_features(store.cluster)


def level_name(feature: str, level: int) -> str:
    """A level as Kafka's tool prints it: the release for metadata.version, otherwise the number."""
    if feature == METADATA_VERSION and 1 <= level <= len(_LEVELS):
        return _LEVELS[level - 1]
    return str(level)


def release_level(text: str) -> str:
    """The level of a release, such as 3.9, or of a level's own name. Raises WrongOptionsError."""
    found = [level for level in _LEVELS if text in (level, level.partition("-")[0])]
    if not found:
        raise WrongOptionsError(f"Version {text} is not a valid version")
    return found[-1]
