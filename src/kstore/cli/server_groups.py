"""``kstore consumer-groups --bootstrap-server``: Kafka's kafka-consumer-groups on a server."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kstore.cli import group_lines, reset_offsets
from kstore.cli.common import WrongOptionsError, complain, open_server
from kstore.clock import now_ms
from kstore.errors import (
    GroupIdNotFoundError,
    KStoreError,
    NonEmptyGroupError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.remote.connection import NoResponseError
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.groups import CommittedOffset, GroupDescription
    from kstore.remote.store import RemoteStore

STATES = {
    each.replace(" ", "").lower(): each.replace(" ", "")
    for each in (
        "Preparing Rebalance", "Completing Rebalance", "Stable", "Dead", "Empty", "Assigning",
        "Reconciling",
    )
}  # fmt: skip
TYPES = {"classic": "Classic", "consumer": "Consumer"}
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_RESETTABLE = ("Empty", "Dead")
_LATEST = -1
_TIMEOUT_MS = 5000
_WRAPPED = "java.util.concurrent.ExecutionException: "
_TIMEOUT = "org.apache.kafka.common.errors.TimeoutException: "
_UNASSIGNED = f"{_TIMEOUT}Timed out waiting for a node assignment. Call: "
_FAILED = "\nError: Executing consumer group command failed due to "
_NO_BROKERS = "org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups"
# Kafka's names for requests that several actions send.
_CALLS = {
    "LIST_GROUPS": "listConsumerGroups",
    "OFFSET_FETCH": "offsetFetch(api=OFFSET_FETCH)",
    "OFFSET_COMMIT": "offsetCommit(api=OFFSET_COMMIT)",
    "OFFSET_DELETE": "offsetDelete(api=OFFSET_DELETE)",
    "LIST_OFFSETS": "listOffsets(api=LIST_OFFSETS)",
}
_SENTENCES = {
    3: "This server does not host this topic-partition.",
    68: "The group is not empty.",
    69: "The group id does not exist.",
    86: "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
}


class _Group(NamedTuple):
    """A group as the strategies of --reset-offsets need it."""

    name: str
    offsets: "dict[TopicPartition, CommittedOffset]"


def run(action: str, arguments: argparse.Namespace) -> int:
    """Run one action with validated options; the exit status is Kafka's.

    It is 0 even if a group is missing or not empty, which the output reports.
    """
    wanted = words_of(arguments.state, STATES, "state") if action == "list" else []
    types = words_of(arguments.type, TYPES, "type") if action == "list" else []
    timeout_ms = _TIMEOUT_MS if arguments.timeout is None else arguments.timeout
    try:
        store = open_server(arguments, timeout_ms=timeout_ms)
    except SourceError:
        print("\n".join(unreachable(action, arguments)))
        raise
    with store:
        try:
            if action == "list":
                return list_groups(store, arguments, wanted, types)
            return _RUN[action](store, arguments)
        except SourceError as error:
            print(unanswered(action, arguments, error, store))
            raise


def unreachable(action: str, arguments: argparse.Namespace) -> list[str]:
    """The lines that Kafka's tool prints if no server answers the first request in time."""
    if action == "list" or arguments.all_groups:
        return [f"{_FAILED}{_WRAPPED}{_NO_BROKERS}"]
    call = "deleteConsumerGroups" if action == "delete" else "describeConsumerGroups"
    problem = f"{_UNASSIGNED}{call}(api=FIND_COORDINATOR)"
    if action == "delete":
        each = (
            f"* Group '{name}' could not be deleted due to: {_WRAPPED}{problem}"
            for name in dict.fromkeys(arguments.group)
        )
        return ["\nError: Deletion of some consumer groups failed:", *each]
    if action == "delete_offsets":
        return ["\nError: Encounter some unknown error: REQUEST_TIMED_OUT"]
    return [f"{_FAILED}{_WRAPPED if action == 'reset_offsets' else ''}{problem}"]


def unanswered(
    action: str, arguments: argparse.Namespace, error: SourceError, store: "RemoteStore"
) -> str:
    """The line that Kafka's tool prints if the server stops answering after the first request."""
    is_listing = action == "list" or arguments.all_groups
    late = error if isinstance(error, NoResponseError) else None
    request = None if late is None else late.request
    if is_listing and request == "METADATA":
        return f"{_FAILED}{_WRAPPED}{_NO_BROKERS}"
    # Kafka's tool wraps the exceptions of these calls once more.
    is_wrapped = action == "reset_offsets" or request in (
        "OFFSET_FETCH", "LIST_OFFSETS", "METADATA"
    )  # fmt: skip
    if is_listing and request in (None, "LIST_GROUPS"):
        is_wrapped = action != "list" or arguments.state is arguments.type is None
    problem = timed_out(action, error)
    if late is not None and request == "LIST_GROUPS":
        problem = problem.replace(_TIMEOUT, f"{_TIMEOUT}{listing_on(store, late)}")
    return f"{_FAILED}{_WRAPPED * is_wrapped}{problem}"


def listing_on(store: "RemoteStore", error: NoResponseError) -> str:
    """The broker that did not list its groups, as Kafka's Admin client prints it."""
    cluster = store.cluster
    for node in cluster.nodes:
        host, port = cluster.address(node)
        if f"{host}:{port}" == error.address:
            rack = cluster.rack(node) or "null"
            return f"Error listing groups on {error.address} (id: {node} rack: {rack}): "
    return ""


def timed_out(action: str, error: SourceError) -> str:
    """Kafka's exception for a request that a server left unanswered."""
    if not isinstance(error, NoResponseError):  # the connection ended, and no other was possible
        first = "LIST_GROUPS" if action == "list" else "FIND_COORDINATOR"
        return f"{_UNASSIGNED}{call_of(action, first)}"
    now = now_ms()
    tries = 2 if error.request == "DESCRIBE_GROUPS" else 1  # CONSUMER_GROUP_DESCRIBE is first
    call = f"callName={call_of(action, error.request)}, deadlineMs={now}, tries={tries}, "
    end = f"timed out at {now} after {tries} attempt(s)"
    return f"{_TIMEOUT}Call({call}nextAllowedTryMs={now}) {end}"


def call_of(action: str, request: str) -> str:
    """The name that Kafka's Admin client has for a request of an action."""
    if request == "METADATA":
        return "listOffsets(api=METADATA)" if action == "describe" else "describeTopics"
    own = {"delete": "deleteConsumerGroups", "delete_offsets": "offsetDelete"}
    of_action = own.get(action, "describeConsumerGroups")
    return _CALLS.get(request, f"{of_action}(api={request})")


def words_of(text: str | None, known: dict[str, str], what: str) -> list[str]:
    """The states or types in an option, in Kafka's spelling. Raises WrongOptionsError."""
    words = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    if any(word not in known for word in words):
        plural = f"{what}s"
        valid = ", ".join(sorted(known.values()))
        listed = f"{what} list" if what == "state" else f"{plural} list"
        raise WrongOptionsError(
            f"Invalid {listed} '{(text or '')[:80]}'. Valid {plural} are: {valid}"
        )
    return [known[word] for word in dict.fromkeys(words)]


def chosen(store: "RemoteStore", arguments: argparse.Namespace) -> list[str]:
    """The groups of --group, or all consumer groups."""
    from kstore.remote import groups

    if arguments.all_groups:
        return sorted(each.group_id for each in groups.list_groups(store.cluster))
    return list(dict.fromkeys(arguments.group))


# --- list -------------------------------------------------------------------------------------


def list_groups(
    store: "RemoteStore", arguments: argparse.Namespace, states: list[str], types: list[str]
) -> int:
    from kstore.remote import groups

    found = groups.list_groups(store.cluster, states=states, types=types)
    found.sort(key=lambda each: each.group_id)
    print_listed([(each.group_id, each.group_type, each.state) for each in found], arguments)
    return 0


def print_listed(found: Sequence[tuple[str, str, str]], arguments: argparse.Namespace) -> None:
    """Print ids of groups, with their types and states if the options say so."""

    def columns(group_type: str, state: str) -> tuple[str, ...]:
        both = ((arguments.type, group_type), (arguments.state, state))
        return tuple(text for option, text in both if option is not None)

    if arguments.state is None and arguments.type is None:
        print("".join(f"{name}\n" for name, _, _ in found), end="")
        return
    rows = []
    for name, group_type, state in found:
        kind = TYPES.get(group_type.lower(), group_type) or "Unknown"
        rows.append((name, *columns(kind, state or "Unknown")))
    print("\n".join(group_lines.listed(("GROUP", *columns("TYPE", "STATE")), rows)))


# --- describe ---------------------------------------------------------------------------------


def describe_groups(store: "RemoteStore", arguments: argparse.Namespace) -> int:
    from kstore.remote import groups

    for name in sorted(chosen(store, arguments)):
        group = groups.describe_group(store.cluster, name)
        exists = is_described(group)
        if arguments.members:  # Kafka prints the header even without members
            print("\n".join(group_lines.group_members(group, verbose=arguments.verbose)))
        elif not exists:
            continue
        elif arguments.state is not None:
            host, port = store.cluster.address(group.coordinator)
            coordinator = f"{host}:{port}  ({group.coordinator})"
            print("\n".join(group_lines.group_state(group, coordinator, verbose=arguments.verbose)))
        else:
            describe_offsets(store, group, verbose=arguments.verbose)
    return 0


def is_described(group: "GroupDescription") -> bool:
    """Print a message about the group's state; return whether the group exists."""
    if group.state == "Dead":
        print(f"\nError: Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        complain(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in REBALANCING:
        complain(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    return True


def describe_offsets(store: "RemoteStore", group: "GroupDescription", *, verbose: bool) -> None:
    """Print members with their partitions, then partitions with only an offset."""
    from kstore.remote import groups
    from kstore.remote.offsets import list_offsets

    committed = groups.committed_offsets(store.cluster, group.group_id)
    owned = {tp for member in group.members for tp in member.assignment}
    ends = list_offsets(store.cluster, owned | committed.keys(), _LATEST)
    rows = group_lines.member_rows(group.members, committed, ends)
    if rows:
        print("\n".join(group_lines.group_offsets(group.group_id, rows, verbose=verbose)))


# --- delete -----------------------------------------------------------------------------------


def delete_groups(store: "RemoteStore", arguments: argparse.Namespace) -> int:
    from kstore.remote import groups

    deleted, failed = [], []
    late: SourceError | None = None
    for name in chosen(store, arguments):
        try:
            groups.delete_group(store.cluster, name)
            deleted.append(name)
        except SourceError as error:
            late = error
            why = f"{_WRAPPED}{timed_out('delete', error)}"
            failed.append(f"* Group '{name}' could not be deleted due to: {why}")
        except KStoreError as error:
            failed.append(f"* Group '{name}' could not be deleted due to: {reason(error)}")
    if not failed:
        shown = ", ".join(deleted)
        print(f"Deletion of requested consumer groups ('{shown}') was successful.")
        return 0
    print("\nError: Deletion of some consumer groups failed:", *failed, sep="\n")
    if deleted:
        shown = ", ".join(f"'{name}'" for name in deleted)
        print(f"\nThese consumer groups were deleted successfully: {shown}")
    return status_of(late)


def reason(error: KStoreError) -> str:
    """Kafka's exception name, with the message that its tool prints, if known."""
    from kstore.remote import answer_errors

    if isinstance(error, SourceError):
        return timed_out("delete_offsets", error)
    return f"{answer_errors.exception_name(error)}: {_SENTENCES.get(error.code, error.reason)}"


def status_of(late: SourceError | None) -> int:
    """The status where the rows of a table say that a server stopped answering."""
    if late is None:
        return 0
    complain(f"kstore consumer-groups: {late}")
    return 1


def delete_offsets(store: "RemoteStore", arguments: argparse.Namespace) -> int:
    from kstore.remote import groups

    (name,) = arguments.group
    partitions = reset_offsets.parse_topics(store, arguments.topic)
    known = [tp for tp in partitions if tp.partition >= 0]
    results: dict[TopicPartition, KStoreError | None] = {}
    late: SourceError | None = None
    try:
        results = groups.delete_offsets(store.cluster, name, known)
    except KStoreError as error:
        results = dict.fromkeys(known, error)
        if isinstance(error, GroupIdNotFoundError):
            print(f"\nError: '{name}' does not exist.")
        elif isinstance(error, NonEmptyGroupError):
            print(
                f"\nError: Deleting offsets of a consumer group '{name}' is forbidden if the "
                "group is not empty."
            )
        else:
            late = error if isinstance(error, SourceError) else None
            why = error.reason if late is None else "REQUEST_TIMED_OUT"
            print(f"\nError: Encounter some unknown error: {why}")
    else:
        if any(results.values()):  # not for a topic that does not exist, as in Kafka
            print("\nError: Encounter some partition level error, see the follow-up details:")
        else:
            topics = ", ".join(arguments.topic)
            print(f"Request succeed for deleting offsets with topic {topics} group {name}")
    missing = UnknownTopicOrPartitionError("")
    rows = [(tp, _status(results.get(tp) if tp in known else missing)) for tp in partitions]
    print("\n".join(group_lines.deletions(rows)))
    return status_of(late)


def _status(error: KStoreError | None) -> str:
    return "Successful" if error is None else f"Error: :{reason(error)}"


# --- reset-offsets ----------------------------------------------------------------------------


def reset(store: "RemoteStore", arguments: argparse.Namespace) -> int:
    from kstore.remote import groups

    planner = reset_offsets.Planner(store, arguments)
    scope = reset_offsets.parse_topics(store, arguments.topic)
    plans: dict[str, dict[TopicPartition, int]] = {}
    for name in chosen(store, arguments):
        state = groups.describe_group(store.cluster, name).state
        if state not in _RESETTABLE:
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but "
                f"the current state is {state}."
            )
            continue
        group = _Group(name, groups.committed_offsets(store.cluster, name))
        if arguments.from_file and not planner.has_plan(name):
            print(f"\nError: No reset plan for group {name} found")
            continue
        plans[name] = planner.plan(group, list(group.offsets) if arguments.all_topics else scope)
    if arguments.execute:  # only after all plans, so that an error changes no group
        for name, offsets in plans.items():
            groups.commit_offsets(store.cluster, name, offsets)
    rows = [(name, tp, offset) for name, plan in plans.items() for tp, offset in plan.items()]
    if arguments.export:
        print(reset_offsets.to_csv(rows, with_group=len(arguments.group) != 1))
    else:
        print("\n".join(group_lines.new_offsets(rows)))
    return 0


_RUN = {
    "describe": describe_groups,
    "delete": delete_groups,
    "delete_offsets": delete_offsets,
    "reset_offsets": reset,
}
