"""``kstore consumer-groups --log-dir``: the states, types and members of a directory's groups.

The members of a broker's groups are in ``__consumer_offsets``. They are shown while a broker has
the directory open. After its end they are members of no group: the next broker loads them, and
removes those that do not return within their session timeouts.
"""

import argparse
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kstore.cli import group_lines
from kstore.cli.common import complain
from kstore.cli.server_groups import REBALANCING, STATES, TYPES, print_listed, words_of
from kstore.errors import KStoreError
from kstore.partition_files import (
    DISK,
    MemberDescription,
    StoredGroup,
    filenames,
    lock_holders,
    read_broker_addresses,
    read_stored_groups,
)
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore import ConsumerGroup
    from kstore.store.store import Store

EMPTY, STABLE = "Empty", "Stable"


class DirectoryGroups:
    """What a store's directory has of its groups besides commits, as it was read."""

    def __init__(self, store: "Store") -> None:
        self._stored = read_stored_groups(store)
        self._is_served = any(map(is_served, store.paths))

    def with_members(self, group: "ConsumerGroup") -> StoredGroup | None:
        """A group that has members in a broker, which runs, and with them its embedded consumers;
        None without members."""
        found = self._stored.get(group.name) if self._is_served else None
        if found is None or not found.members:
            return None
        if not group.claimed:
            return found
        none = group_lines.NONE
        embedded = MemberDescription(none, "", none, none, tuple(sorted(group.claimed)))
        return found._replace(members=(*found.members, embedded))

    def state_of(self, group: "ConsumerGroup") -> str:
        """The group's state, by Kafka's name."""
        found = self.with_members(group)
        if found is not None:
            return found.state
        return STABLE if group.is_claimed else EMPTY

    def type_of(self, group: "ConsumerGroup") -> str:
        """The group's type; as in Kafka, one that has only offsets is classic."""
        found = self._stored.get(group.name)
        return TYPES["classic"] if found is None else found.group_type


def is_served(directory: str) -> bool:
    """Whether a broker has a log directory open now: kstore's, or Kafka's, which is a Java program.

    Other programs that write to a directory do not have the groups of a broker that has ended.
    """
    if read_broker_addresses(DISK, directory):
        return True
    holders = lock_holders(os.path.join(directory, filenames.LOCK))
    return any(os.path.basename(each.command.partition(" ")[0]) == "java" for each in holders)


def list_groups(store: "Store", arguments: argparse.Namespace) -> int:
    states = words_of(arguments.state, STATES, "state")
    types = words_of(arguments.type, TYPES, "type")
    groups = store.groups().values()
    if arguments.state is None and arguments.type is None:
        print_listed([(group.name, "", "") for group in groups], arguments)
        return 0
    known = DirectoryGroups(store)
    found = []
    for group in groups:
        kind, state = known.type_of(group), known.state_of(group)
        if (not states or state in states) and (not types or kind in types):
            found.append((group.name, kind, state))
    print_listed(found, arguments)
    return 0


def describe_groups(
    store: "Store", chosen: Mapping[str, "ConsumerGroup | None"], arguments: argparse.Namespace
) -> int:
    """Describe groups; the status is 1 if one does not exist or cannot be read."""
    known = DirectoryGroups(store)
    status = 0
    for name, group in chosen.items():
        if group is None:
            print(f"\nError: Consumer group '{name}' does not exist.")
            status = 1
            continue
        if group.error is not None:
            complain(f"\nError: the offsets of group '{name}' cannot be read: {group.error}")
            status = 1
        state = known.state_of(group)
        if state == EMPTY:
            complain(f"\nConsumer group '{name}' has no active members.")
        elif state in REBALANCING:
            complain(f"\nWarning: Consumer group '{name}' is rebalancing.")
        with_members = known.with_members(group)
        if with_members is None:
            lines = claimed_lines(group, state, arguments)
        else:
            lines = member_lines(store, group, with_members, arguments)
        print("\n".join(lines))
    return status


def claimed_lines(group: "ConsumerGroup", state: str, arguments: argparse.Namespace) -> list[str]:
    """The table about a group that has at most embedded consumers, whose number is unknown."""
    if arguments.state is not None:
        return group_lines.state(group, state)
    if arguments.members:
        return group_lines.members(group)
    return group_lines.offsets(group, verbose=arguments.verbose)


def member_lines(
    store: "Store",
    group: "ConsumerGroup",
    with_members: StoredGroup,
    arguments: argparse.Namespace,
) -> list[str]:
    """The table about a group with members, which is that of a server without its address."""
    verbose: bool = arguments.verbose
    if arguments.state is not None:
        return group_lines.group_state(with_members, group_lines.NONE, verbose=verbose)
    if arguments.members:
        return group_lines.group_members(with_members, verbose=verbose)
    owned = {tp for member in with_members.members for tp in member.assignment}
    ends = end_offsets(store, group, owned)
    rows = group_lines.member_rows(with_members.members, group.offsets, ends)
    return group_lines.group_offsets(group.name, rows, verbose=verbose)


def end_offsets(
    store: "Store", group: "ConsumerGroup", owned: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The known log ends of committed and of assigned partitions."""
    committed = group.offsets.items()
    ends = {tp: each.end_offset for tp, each in committed if each.end_offset is not None}
    for topic in {tp.topic for tp in owned if tp not in ends}:
        with suppress(KStoreError):  # deleted meanwhile, or damaged: not known
            ends.update(store.end_offsets(topic))
    return ends
