"""The tables of ``kstore consumer-groups``, with the column widths of Kafka's tool."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore import ConsumerGroup
    from kstore.partition_files import MemberDescription, StoredGroup
    from kstore.remote.groups import GroupDescription

    Described = GroupDescription | StoredGroup

NONE = "-"
# Of groups of KIP-848, in the tool of Kafka 4.
_EPOCHS = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lines with one space between columns; as in Kafka, the last column is padded, too."""
    return [
        " ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _width(texts: Iterable[str], least: int = 15) -> int:
    return max(least, *map(len, texts), 0)


class OffsetRow(NamedTuple):
    """A partition of a group: committed offset and log end, if any, and member.

    ``leader_epoch`` is the one that was committed with the offset; -1 if there is none.
    """

    tp: TopicPartition
    offset: int | None
    end_offset: int | None
    leader_epoch: int = -1
    member_id: str = NONE
    host: str = NONE
    client_id: str = NONE


class Committed(Protocol):
    """A committed offset."""

    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


def listed(header: Sequence[str], groups: Sequence[Sequence[str]]) -> list[str]:
    """``--list`` with further columns."""
    width = _width(row[0] for row in groups) + 10
    return _table([header, *groups], (width, *[20] * (len(header) - 1)))


def group_offsets(group: str, rows: Sequence[OffsetRow], *, verbose: bool) -> list[str]:
    """``--describe``: an empty line, then a row for each partition.

    ``verbose`` adds the leader epochs of the committed offsets, as Kafka 4 does.
    """
    header = [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    ]  # fmt: skip
    lines = []
    for row in rows:
        lag = None
        if row.offset is not None and row.end_offset is not None:
            lag = row.end_offset - row.offset
        shown = (NONE if each is None else str(each) for each in (row.offset, row.end_offset, lag))
        about = (row.member_id, row.host, row.client_id)
        lines.append([group, row.tp.topic, str(row.tp.partition), *shown, *about])
    widths = [
        _width([group]), _width(row.tp.topic for row in rows), 10, 15, 15, 15,
        _width(row.member_id for row in rows), _width(row.host for row in rows), 9,
    ]  # fmt: skip
    if verbose:
        header.insert(3, "LEADER-EPOCH")
        widths.insert(3, 15)
        for line, row in zip(lines, rows, strict=True):
            line.insert(3, NONE if row.leader_epoch < 0 else str(row.leader_epoch))
    return ["", *_trimmed(_table([header, *lines], widths))]


def member_rows(
    members: Iterable["MemberDescription"],
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, int],
) -> list[OffsetRow]:
    """The members with the most partitions first, then partitions with only an offset."""
    rows: list[OffsetRow] = []

    def add(partitions: Iterable[TopicPartition], *about: str) -> None:
        for tp in sorted(partitions):
            found = committed.get(tp)
            offset = None if found is None else found.offset
            epoch = -1 if found is None else found.leader_epoch
            rows.append(OffsetRow(tp, offset, ends.get(tp), epoch, *about))

    owned: set[TopicPartition] = set()
    for member in sorted(members, key=lambda each: -len(each.assignment)):
        add(member.assignment, member.member_id, member.host, member.client_id)
        owned.update(member.assignment)
    add(set(committed) - owned)
    return rows


def offsets(group: "ConsumerGroup", *, verbose: bool) -> list[str]:
    """``--describe`` of a directory's group; claimed partitions without a commit have no offset."""
    rows = []
    for tp in sorted({*group.offsets, *group.claimed}):
        found = group.offsets.get(tp)
        rows.append(
            OffsetRow(tp, None, None)
            if found is None
            else OffsetRow(tp, found.offset, found.end_offset, found.leader_epoch)
        )
    return group_offsets(group.name, rows, verbose=verbose)


def assignment(partitions: Iterable[TopicPartition]) -> str:
    """``orders(0,1), other(2)``, the format of Kafka's tool up to 3.7 and since 4.0."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    shown = (f"{topic}({','.join(map(str, numbers))})" for topic, numbers in topics.items())
    return ", ".join(shown) or NONE


def _by_topic(partitions: Iterable[TopicPartition]) -> str:
    """``orders:0,1;other:2``, as Kafka 4 shows assignments beside epochs."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    shown = (f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())
    return ";".join(shown) or NONE


def group_members(group: "Described", *, verbose: bool) -> list[str]:
    """``--describe --members``; with a column of instance ids only if a member has one."""
    members = group.members
    has_instances = any(each.instance_id for each in members)
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [
        _width([group.group_id]),
        _width(each.member_id for each in members),
        _width(each.host for each in members),
        _width(each.client_id for each in members),
        15,
    ]
    rows = [
        [group.group_id, each.member_id, each.host, each.client_id, str(len(each.assignment))]
        for each in members
    ]
    if has_instances:
        header.insert(2, "GROUP-INSTANCE-ID")
        widths.insert(2, _width((each.instance_id for each in members), 17))
        for row, member in zip(rows, members, strict=True):
            row.insert(2, member.instance_id)
    if verbose and group.epoch is not None:
        header += _EPOCHS
        widths += (15, 20, 15, 20)
        for row, member in zip(rows, members, strict=True):
            row += (
                str(member.epoch), _by_topic(member.assignment),
                str(group.target_epoch), _by_topic(member.target),
            )  # fmt: skip
    elif verbose:
        header.append("ASSIGNMENT")
        widths.append(1)
        for row, member in zip(rows, members, strict=True):
            row.append(assignment(member.assignment))
    return ["", *_trimmed(_table([header, *rows], widths))]


def group_state(group: "Described", coordinator: str, *, verbose: bool = False) -> list[str]:
    """``--describe --state``; the first column has the coordinator's width, as in Kafka.

    ``verbose`` adds the epochs of a group of KIP-848, as Kafka 4 does.
    """
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    row = [group.group_id, coordinator, group.assignor, group.state, str(len(group.members))]
    widths = [_width([coordinator], 25), 25, 20, 15, 8]
    if verbose and group.epoch is not None:
        header[4:4] = "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"
        row[4:4] = str(group.epoch), str(group.target_epoch)
        widths[4:4] = 15, 25
    return ["", *_trimmed(_table([header, row], widths))]


def members(group: "ConsumerGroup") -> list[str]:
    """``--describe --members``: kstore knows which partitions are claimed, but not by which
    consumer."""
    header = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")
    rows = []
    if group.claimed:
        claimed = assignment(group.claimed)
        rows.append((group.name, NONE, NONE, NONE, str(len(group.claimed)), claimed))
    widths = (_width([group.name]), 15, 15, 15, 15, 10)
    return ["", *_trimmed(_table([header, *rows], widths))]


def state(group: "ConsumerGroup", word: str) -> list[str]:
    """``--describe --state``."""
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    row = (group.name, NONE, NONE, word, NONE if group.claimed else "0")
    return ["", *_trimmed(_table([header, row], (_width([group.name], 25), 25, 20, 15, 8)))]


def new_offsets(rows: Iterable[tuple[str, TopicPartition, int]]) -> list[str]:
    """The output of ``--reset-offsets``."""
    header = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    shown = [(group, tp.topic, str(tp.partition), str(offset)) for group, tp, offset in rows]
    return ["", *_table([header, *shown], (30, 30, 10, 15))]


def deletions(rows: Iterable[tuple[TopicPartition, str]]) -> list[str]:
    """The output of ``--delete-offsets``: the status of each partition."""
    shown = [
        (tp.topic, "Not Provided" if tp.partition < 0 else str(tp.partition), status)
        for tp, status in rows
    ]
    return ["", *_table([("TOPIC", "PARTITION", "STATUS"), *shown], (30, 15, 15))]


def deleted_offsets(rows: Iterable[tuple[TopicPartition, bool]]) -> list[str]:
    """The output of ``--delete-offsets`` for a directory: whether each partition exists."""
    missing = "Error: This server does not host this topic-partition."
    return deletions((tp, "Successful" if exists else missing) for tp, exists in rows)


def _trimmed(lines: Iterable[str]) -> list[str]:
    """Remove trailing spaces, since Kafka does not pad the last column of these tables."""
    return [line.rstrip() for line in lines]
