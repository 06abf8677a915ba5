"""``kstore consumer-groups``: Kafka's kafka-consumer-groups on a directory or a server."""

import argparse
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli import directory_groups, group_lines, reset_offsets
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    complain,
    exception_name,
    exclusive,
    open_store,
)
from kstore.errors import GroupIdNotFoundError, KStoreError, NonEmptyGroupError
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore import ConsumerGroup
    from kstore.store.store import Store

ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
# Options that Kafka's tool refuses with others, in the order of its checks.
_EXCLUDES = {
    "group": ("all_groups", "list"),
    "topic": ("describe", "list"),
}
EPILOG = """\
examples:
  kstore consumer-groups --list --log-dir data
  kstore consumer-groups --describe --group billing --log-dir data
  kstore consumer-groups --reset-offsets --group billing --topic orders --to-earliest --execute \\
      --log-dir data
  kstore consumer-groups --reset-offsets --group billing --topic orders:0,1 --shift-by -100 \\
      --log-dir data
  kstore consumer-groups --reset-offsets --group billing --all-topics --to-current --export \\
      --log-dir data > offsets.csv
  kstore consumer-groups --delete --group billing --log-dir data
  kstore consumer-groups --describe --group billing --members --verbose \\
      --bootstrap-server localhost:9092

--reset-offsets shows the new offsets; only with --execute they are committed. Every offset ends up
within the log. --to-datetime takes a time as Kafka's tool does, in UTC unless an offset follows:
2026-01-31T10:00:00.000 or 2026-01-31T10:00:00.000+01:00; and also a date, or milliseconds since
1970. --by-duration counts back from now: P1DT2H30M. --from-file reads what --export writes.

--list, --describe and a reset that is only shown work beside a running broker or writer; the
others must be the only writer of the directory. A group with an open consumer is not changed.
Of a directory, members and states are those of the last complete rebalance, while a broker serves
it; without one, a group has no members but kstore's own consumers on this machine, whose ids are
not known. Of a server, output and exit status are those of Kafka's tool: 0 also where a group does
not exist or is not empty.
"""
NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing.In a future major "
    "release, the default behavior of this command will be to prompt the user before executing "
    "the reset rather than doing a dry run. You should add the --dry-run option explicitly if you "
    "are scripting this command and want to keep the current default behavior without prompting."
)


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir_or_server(parser)
    for name, text in (
        ("list", "the ids of all groups"),
        ("describe", "committed offsets and lag"),
        ("delete", "delete groups with their committed offsets"),
        ("reset-offsets", "commit other offsets; see below"),
        ("delete-offsets", "delete the committed offsets of topics"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    parser.add_argument(
        "--group", action="append", default=[], metavar="ID", help="the group; repeatable"
    )
    parser.add_argument("--all-groups", action="store_true", help="all groups")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:N,N...]",
        help="--reset-offsets, --delete-offsets: a topic, or some of its partitions; repeatable",
    )
    parser.add_argument(
        "--all-topics",
        action="store_true",
        help="--reset-offsets: all topics with committed offsets of the group",
    )
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE[,STATE...]",
        help="--list: with the state of each group, or those in a state; --describe: the state",
    )
    parser.add_argument(
        "--members", action="store_true", help="--describe: the members and their partitions"
    )
    parser.add_argument(
        "--offsets", action="store_true", help="--describe: offsets and lag, the default"
    )
    parser.add_argument(
        "--type",
        nargs="?",
        const="",
        metavar="TYPE[,TYPE...]",
        help="--list: with the type of each group, or those of a type: Classic, Consumer",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="--describe: with the leader epochs of committed offsets; --members: with the "
        "partitions of each member; --members and --state: with the epochs of a group of KIP-848",
    )
    parser.add_argument(
        "--timeout",
        type=whole_number(1, INT32_MAX),
        metavar="MS",
        help="how long to wait for a server's answers (default: 5000)",
    )
    describe_reset(parser)


def describe_reset(parser: ToolParser) -> None:
    """Add the strategies of --reset-offsets, and the options for its result."""
    strategy = parser.add_argument_group("where to reset offsets to")
    strategy.add_argument("--to-earliest", action="store_true", help="to the log start offset")
    strategy.add_argument("--to-latest", action="store_true", help="to the log end offset")
    strategy.add_argument(
        "--to-current", action="store_true", help="to the committed offset, or the log end"
    )
    strategy.add_argument(
        "--to-offset", type=whole_number(0, INT64_MAX), metavar="N", help="to this offset"
    )
    strategy.add_argument(
        "--shift-by",
        type=whole_number(-INT64_MAX, INT64_MAX),
        metavar="N",
        help="by so many offsets from the committed one; negative: back",
    )
    strategy.add_argument(
        "--to-datetime", metavar="WHEN", help="to the first record at or after a time; see below"
    )
    strategy.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="to the first record of the last so much time"
    )
    strategy.add_argument(
        "--from-file", metavar="FILE", help="to the offsets of a CSV file, as --export writes"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the new offsets only: the default"
    )
    parser.add_argument("--execute", action="store_true", help="commit the new offsets")
    parser.add_argument(
        "--export", action="store_true", help="print the new offsets as CSV, for --from-file"
    )


def run(arguments: argparse.Namespace) -> int:
    check_available(arguments)
    is_server = check_directory_or_server(arguments)
    action = check(arguments)
    if is_server:
        from kstore.cli import server_groups

        return server_groups.run(action, arguments)
    if arguments.timeout is not None:
        raise WrongOptionsError("--timeout goes with --bootstrap-server")
    writes = action in ("delete", "delete_offsets") or arguments.execute
    with open_store(arguments, "a" if writes else "r") as store:
        return _RUN[action](store, arguments)


def check_available(arguments: argparse.Namespace) -> None:
    """Refuse options of --describe and --list without these, as Kafka's parser does."""
    given = {
        "members": arguments.members,
        "offsets": arguments.offsets,
        "state": arguments.state is not None and not arguments.list,
        "verbose": arguments.verbose,
    }
    wrong = [name for name, is_given in given.items() if is_given and not arguments.describe]
    if arguments.type is not None and not arguments.list:
        wrong.append("type")
    if wrong:
        raise WrongOptionsError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command "
            "line"
        )


def check(arguments: argparse.Namespace) -> str:
    """Check the options by the rules of Kafka's ConsumerGroupCommandOptions, in their order;
    returns the action."""
    has_group = bool(arguments.group or arguments.all_groups)
    if arguments.describe:
        check_describe(arguments, has_group)
    if arguments.delete:
        refuse_without_group("delete", has_group)
        if arguments.topic:
            raise WrongOptionsError(
                "The consumer does not support topic-specific offset deletion from a consumer "
                "group.\n--delete-offsets deletes the committed offsets of topics"
            )
    if arguments.delete_offsets and not (arguments.group and arguments.topic):
        raise WrongOptionsError(
            "Option [delete-offsets] takes the following options: [topic], [group]"
        )
    if arguments.reset_offsets:
        reset_offsets.check_execute(arguments)
        refuse_without_group("reset-offsets", has_group)
        reset_offsets.check_one_strategy(arguments)
    for name, others in _EXCLUDES.items():
        for other in others:
            if getattr(arguments, name) and getattr(arguments, other):
                raise exclusive(name, other)
    chosen = [name for name in ACTIONS if getattr(arguments, name)]
    if len(chosen) != 1:
        raise WrongOptionsError(
            "Command must include exactly one action: --list, --describe, --delete, "
            "--reset-offsets, --delete-offsets"
        )
    if arguments.reset_offsets:
        reset_offsets.check_scope_and_strategy(arguments)
        if not arguments.dry_run and not arguments.execute:
            complain(NO_ACTION)
    else:
        refuse_without_effect(arguments)
    return chosen[0]


def check_describe(arguments: argparse.Namespace, has_group: bool) -> None:
    """Check the options of --describe."""
    refuse_without_group("describe", has_group)
    if arguments.members + arguments.offsets + (arguments.state is not None) > 1:
        raise WrongOptionsError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if arguments.state:
        raise WrongOptionsError("Option [describe] does not take a value for [state]")


def refuse_without_group(action: str, has_group: bool) -> None:
    """Raise WrongOptionsError for an action of groups without one."""
    if not has_group:
        raise WrongOptionsError(
            f"Option [{action}] takes one of these options: [all-groups], [group]"
        )


def refuse_without_effect(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError for an option that Kafka's tool ignores."""
    given = [n for n in ("execute", "dry_run", "export", "all_topics") if getattr(arguments, n)]
    for name in (*given, *reset_offsets.strategies(arguments)):
        raise WrongOptionsError(f"--{name.replace('_', '-')} goes with --reset-offsets")
    if arguments.delete_offsets and len(arguments.group) > 1:
        raise WrongOptionsError(
            "Found multiple arguments for option group, but you asked for only one"
        )


def chosen_groups(
    store: "Store", arguments: argparse.Namespace
) -> "dict[str, ConsumerGroup | None]":
    """The groups of --group in order, or all; None for an id that does not exist."""
    known = store.groups()
    return {name: known.get(name) for name in (known if arguments.all_groups else arguments.group)}


def describe_groups(store: "Store", arguments: argparse.Namespace) -> int:
    return directory_groups.describe_groups(store, chosen_groups(store, arguments), arguments)


def delete_groups(store: "Store", arguments: argparse.Namespace) -> int:
    names = store.groups() if arguments.all_groups else dict.fromkeys(arguments.group)
    deleted, failed = [], []
    for name in names:
        try:
            store.delete_group(name)
            deleted.append(name)
        except KStoreError as error:
            failed.append(f"* Group '{name}' could not be deleted due to: {reason(error)}")
    shown = ", ".join(f"'{name}'" for name in deleted)
    if not failed:
        print(f"Deletion of requested consumer groups ({shown}) was successful.")
        return 0
    print("\nError: Deletion of some consumer groups failed:", *failed, sep="\n")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {shown}")
    return 1


def reason(error: KStoreError) -> str:
    """Kafka's exception name and, if it has one, Kafka's message."""
    if isinstance(error, GroupIdNotFoundError):
        text = "The group id does not exist."
    elif isinstance(error, NonEmptyGroupError):
        text = f"The group is not empty. {error}"
    else:
        text = str(error)
    return f"{exception_name(error)}: {text}"


def delete_offsets(store: "Store", arguments: argparse.Namespace) -> int:
    (name,) = arguments.group
    topics = ", ".join(arguments.topic)
    partitions = reset_offsets.parse_topics(store, arguments.topic)
    known = [
        tp for tp in partitions if tp.partition in reset_offsets.partitions_of(store, tp.topic)
    ]
    try:
        store.delete_group_offsets(name, known)
    except GroupIdNotFoundError:
        print(f"'{name}' does not exist.")
        return 1
    except NonEmptyGroupError as error:
        print(
            f"Deleting offsets of a consumer group '{name}' is forbidden if the group is not "
            f"empty. {error}"
        )
        return 1
    if len(known) == len(partitions):
        print(f"Request succeed for deleting offsets with topic {topics} group {name}")
    else:
        print("\nError: Encounter some partition level error, see the follow-up details:")
    print("\n".join(group_lines.deleted_offsets([(tp, tp in known) for tp in partitions])))
    return 0 if len(known) == len(partitions) else 1


def all_topics(store: "Store", group: "ConsumerGroup") -> list[TopicPartition]:
    """Every partition of the topics with committed offsets."""
    return [
        TopicPartition(topic, number)
        for topic in sorted({tp.topic for tp in group.offsets})
        for number in reset_offsets.partitions_of(store, topic)
    ]


def reset(store: "Store", arguments: argparse.Namespace) -> int:
    from kstore import ConsumerGroup

    known = directory_groups.DirectoryGroups(store)
    planner = reset_offsets.Planner(store, arguments)
    scope = reset_offsets.parse_topics(store, arguments.topic)
    plans: dict[str, dict[TopicPartition, int]] = {}
    status = 0
    for name, group in chosen_groups(store, arguments).items():
        group = group or ConsumerGroup(name)
        if group.error is not None and reset_offsets.needs_committed(arguments):
            print(f"\nError: the offsets of group '{name}' cannot be read: {group.error}")
            status = 1
        elif (state := known.state_of(group)) != directory_groups.EMPTY:
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but "
                f"the current state is {state}."
            )
            status = 1
        else:
            plans[name] = planner.plan(
                group, all_topics(store, group) if arguments.all_topics else scope
            )
    if arguments.execute:  # only after all plans, so that an error changes no group
        for name, offsets in plans.items():
            store.alter_group_offsets(name, dict(offsets.items()))
    rows = [(name, tp, offset) for name, plan in plans.items() for tp, offset in plan.items()]
    if arguments.export:
        print(reset_offsets.to_csv(rows, with_group=len(arguments.group) != 1))
    else:
        print("\n".join(group_lines.new_offsets(rows)))
    return status


_RUN = {
    "list": directory_groups.list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "delete_offsets": delete_offsets,
    "reset_offsets": reset,
}
