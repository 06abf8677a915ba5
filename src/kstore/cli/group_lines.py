"""The tables of ``kstore consumer-groups``, in the widths of Kafka's tool."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore import ConsumerGroup

NONE = "-"


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lines with one blank between columns; the last one is padded too, as in Kafka."""
    return [
        " ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _width(texts: Iterable[str], least: int = 15) -> int:
    return max(least, *map(len, texts), 0)


def states(groups: Sequence[tuple[str, str]]) -> list[str]:
    """``--list --state``."""
    width = _width((name for name, _ in groups)) + 10
    return _table([("GROUP", "STATE"), *groups], (width, 20))


def offsets(group: "ConsumerGroup") -> list[str]:
    """``--describe``: an empty line, then a row for each partition; claimed ones without a commit
    have no offset.
    """
    header = (
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    )  # fmt: skip
    rows = []
    for tp in sorted({*group.offsets, *group.claimed}):
        found = group.offsets.get(tp)
        numbers = (
            (NONE, NONE, NONE) if found is None else (found.offset, found.end_offset, found.lag)
        )
        shown = (NONE if number is None else str(number) for number in numbers)
        rows.append((group.name, tp.topic, str(tp.partition), *shown, NONE, NONE, NONE))
    widths = (
        _width([group.name]), _width(row[1] for row in rows), 10, 15, 15, 15, 15, 15, 9,
    )  # fmt: skip
    return ["", *_trimmed(_table([header, *rows], widths))]


def members(group: "ConsumerGroup") -> list[str]:
    """``--describe --members``: kstore knows which partitions are claimed, and not by whom."""
    header = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")
    rows = []
    if group.claimed:
        topics: dict[str, list[int]] = {}
        for tp in sorted(group.claimed):
            topics.setdefault(tp.topic, []).append(tp.partition)
        assigned = ", ".join(
            f"{topic}({','.join(map(str, numbers))})" for topic, numbers in topics.items()
        )
        rows.append((group.name, NONE, NONE, NONE, str(len(group.claimed)), assigned))
    widths = (_width([group.name]), 15, 15, 15, 15, 10)
    return ["", *_trimmed(_table([header, *rows], widths))]


def state(group: "ConsumerGroup", word: str) -> list[str]:
    """``--describe --state``."""
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    row = (group.name, NONE, NONE, word, NONE if group.claimed else "0")
    return ["", *_trimmed(_table([header, row], (_width([group.name], 25), 25, 20, 15, 8)))]


def new_offsets(rows: Iterable[tuple[str, TopicPartition, int]]) -> list[str]:
    """What ``--reset-offsets`` prints."""
    header = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    shown = [(group, tp.topic, str(tp.partition), str(offset)) for group, tp, offset in rows]
    return ["", *_table([header, *shown], (30, 30, 10, 15))]


def deleted_offsets(rows: Iterable[tuple[TopicPartition, bool]]) -> list[str]:
    """What ``--delete-offsets`` prints: whether each partition exists."""
    shown = [
        (
            tp.topic,
            "Not Provided" if tp.partition < 0 else str(tp.partition),
            "Successful" if exists else "Error: This server does not host this topic-partition.",
        )
        for tp, exists in rows
    ]
    return ["", *_table([("TOPIC", "PARTITION", "STATUS"), *shown], (30, 15, 15))]


def _trimmed(lines: Iterable[str]) -> list[str]:
    """Without the blanks at the end: the last column of these tables is not padded in Kafka."""
    return [line.rstrip() for line in lines]
