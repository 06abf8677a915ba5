"""The options of ``kstore topics`` that report some partitions only, and those that exclude others.

As in Kafka's tool, a report has no lines of topics, only those of its partitions.
"""

import argparse
import re

from kstore.cli.common import exclusive
from kstore.errors import InvalidConfigError

REPORTS = {
    "under-replicated-partitions": "--describe: only partitions with a replica that is not in sync",
    "unavailable-partitions": "--describe: only partitions without a leader",
    "under-min-isr-partitions": "--describe: only partitions below min.insync.replicas",
    "at-min-isr-partitions": "--describe: only partitions at exactly min.insync.replicas",
}
# For each option the actions that take it.
_ACTIONS = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication-factor": ("create",),
    "replica-assignment": ("alter", "create"),
    "delete-config": ("alter",),
    **dict.fromkeys(REPORTS, ("describe",)),
    "topics-with-overrides": ("describe",),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topic-id": ("create", "describe"),
    "partition-size-limit-per-response": ("describe",),
}


def is_given(arguments: argparse.Namespace, option: str) -> bool:
    value = getattr(arguments, option.replace("-", "_"))
    return value is not None and value is not False and value != []


def check_options(action: str, arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError, with Kafka's sentence, for options that exclude each other."""
    for option, actions in _ACTIONS.items():
        if is_given(arguments, option) and action not in actions:
            raise exclusive(option, action)
    if action == "create" and is_given(arguments, "replica-assignment"):
        for option in ("partitions", "replication-factor"):
            if is_given(arguments, option):
                raise exclusive("replica-assignment", option)
    if is_given(arguments, "topics-with-overrides"):
        for option in REPORTS:
            if is_given(arguments, option):
                raise exclusive(option, "topics-with-overrides")


def is_report(arguments: argparse.Namespace) -> bool:
    """Whether only the partitions of a report are asked for."""
    return any(is_given(arguments, option) for option in REPORTS)


def is_reported(
    arguments: argparse.Namespace,
    *,
    replicas: int,
    in_sync: int,
    has_leader: bool,
    min_in_sync: int,
) -> bool:
    """Whether a partition is in one of the reports, or none is asked for."""
    found = {
        "under-replicated-partitions": in_sync < replicas,
        "unavailable-partitions": not has_leader,
        "under-min-isr-partitions": in_sync < min_in_sync,
        "at-min-isr-partitions": in_sync == min_in_sync,
    }
    return not is_report(arguments) or any(
        found[each] for each in REPORTS if is_given(arguments, each)
    )


def parse_assignment(text: str) -> list[list[int]]:
    """The brokers of each partition of --replica-assignment, as ``1:2,2:1``.

    Raises InvalidConfigError, which Kafka's tool reports like a server's answer.
    """
    found: list[list[int]] = []
    for each in text.split(","):
        wrong = [number for number in each.split(":") if not re.fullmatch("-?[0-9]{1,9}", number)]
        if wrong:
            raise InvalidConfigError(
                f'For input string: "{wrong[0][:40]}"\n--replica-assignment is brokers of '
                f"partitions as 1:2,2:1, not {text[:40]}"
            )
        brokers = [int(number) for number in each.split(":")]
        repeated = sorted({number for number in brokers if brokers.count(number) > 1})
        if repeated:
            shown = ",".join(map(str, repeated))
            raise InvalidConfigError(
                f"Partition replica lists may not contain duplicate entries: {shown}"
            )
        if found and len(brokers) != len(found[0]):
            raise InvalidConfigError(
                f"Partition {len(found)} has different replication factor: {brokers}"
            )
        found.append(brokers)
    return found
