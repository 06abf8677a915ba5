"""The strategies of ``kstore consumer-groups --reset-offsets``, by the rules of Kafka's tool."""

import argparse
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Protocol

from kstore.arguments import parse_time
from kstore.cli.common import WrongFileError, WrongOptionsError, complain, exclusive
from kstore.clock import now_ms
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError, UnknownTopicOrPartitionError
from kstore.integers import INT32_MAX
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.remote.remote_log import RemoteLog
    from kstore.remote.store import RemoteStore
    from kstore.store.store import Store


class Committed(Protocol):
    """A committed offset."""

    @property
    def offset(self) -> int: ...


class GroupOffsets(Protocol):
    """The committed offsets of a group, of a directory or a server."""

    @property
    def name(self) -> str: ...
    @property
    def offsets(self) -> Mapping[TopicPartition, Committed]: ...


# In the order of a set of Kafka's tool, which its errors show, and in that of its checks.
STRATEGIES = (
    "to_offset",
    "to_current",
    "to_datetime",
    "from_file",
    "by_duration",
    "to_earliest",
    "to_latest",
    "shift_by",
)
_CHECKED = (
    "to_offset",
    "to_datetime",
    "by_duration",
    "to_earliest",
    "to_latest",
    "to_current",
    "shift_by",
    "from_file",
)
# ISO 8601 as in java.time.Duration.parse: a day has 24 hours; years and months are not supported.
_NUMBER = r"([+-]?\d{1,9})"
_DURATION = re.compile(
    rf"([+-])?P(?:{_NUMBER}D)?"
    rf"(?:T(?=[+-]?\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,](\d{{1,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def strategies(arguments: argparse.Namespace) -> list[str]:
    """The chosen strategies."""
    given = {name: getattr(arguments, name) for name in STRATEGIES}
    return [name for name, value in given.items() if value is not None and value is not False]


def check_execute(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError for --execute with --dry-run."""
    if arguments.execute and arguments.dry_run:
        raise WrongOptionsError(
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
        )


def check_one_strategy(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError for two strategies; Kafka's tool names the same two."""
    chosen = strategies(arguments)
    if len(chosen) > 1:
        first = next(name for name in _CHECKED if name in chosen)
        raise exclusive(first, next(name for name in chosen if name != first))


def check_scope_and_strategy(arguments: argparse.Namespace) -> None:
    """Raise WrongOptionsError unless a scope and a strategy are chosen."""
    if arguments.topic and arguments.all_topics:
        raise exclusive("all_topics", "topic")
    if not arguments.topic and not arguments.all_topics and arguments.from_file is None:
        raise WrongOptionsError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not strategies(arguments):
        names = ", ".join(f"[{name.replace('_', '-')}]" for name in STRATEGIES)
        raise WrongOptionsError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]\n"
            "--to-current resets to the committed offsets: with --export it saves them"
        )


def milliseconds_of(text: str) -> int:
    """Parse an ISO 8601 duration such as ``P1DT2H30M`` to milliseconds. Raises
    WrongOptionsError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()[1:5]):
        raise WrongOptionsError(f"--by-duration takes a duration as P1DT2H30M, not {text[:40]!r}")
    sign, *units, fraction = found.groups()
    days, hours, minutes, seconds = (int(unit or 0) for unit in units)
    total = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000
    thousandths = int((fraction or "0").ljust(3, "0")[:3])
    total += -thousandths if (units[3] or "").startswith("-") else thousandths
    return -total if sign == "-" else total


def needs_committed(arguments: argparse.Namespace) -> bool:
    """Whether the new offsets depend on a group's committed ones."""
    return bool(arguments.all_topics or arguments.to_current or arguments.shift_by is not None)


def partitions_of(store: "Store | RemoteStore", topic: str) -> tuple[int, ...]:
    """The partitions of a topic; none if it does not exist, or was deleted meanwhile."""
    try:
        return store[topic].partitions
    except UnknownTopicOrPartitionError:
        return ()


def parse_topics(store: "Store | RemoteStore", texts: Iterable[str]) -> list[TopicPartition]:
    """The partitions of ``topic`` or ``topic:0,1``, without duplicates. Raises
    WrongOptionsError."""
    found: dict[TopicPartition, None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if colon:
            found |= {
                TopicPartition(topic, _partition(each, text)): None for each in numbers.split(",")
            }
        elif numbered := partitions_of(store, topic):
            found |= {TopicPartition(topic, number): None for number in numbered}
        else:
            found[TopicPartition(topic, -1)] = None
    return list(found)


def _partition(number: str, text: str) -> int:
    try:
        return parse_whole_number(number, 0, INT32_MAX)
    except InvalidConfigError as error:
        raise WrongOptionsError(
            f"Invalid partition '{number[:40]}' specified in topic arg '{text[:80]}''\n"
            f"a partition is {error}"
        ) from None


class Planner:
    """Finds the new offset of each partition; only reads the store. Not thread-safe."""

    def __init__(self, store: "Store | RemoteStore", arguments: argparse.Namespace) -> None:
        self._store = store
        self._arguments = arguments
        self._timestamp: int | None = None
        self._filed: dict[str | None, dict[TopicPartition, int]] = {}
        if arguments.to_datetime is not None:
            self._timestamp = parse_time(arguments.to_datetime, "--to-datetime", UTC)
        elif arguments.by_duration is not None:
            now = now_ms()
            self._timestamp = max(0, now - milliseconds_of(arguments.by_duration))
        elif arguments.from_file is not None:
            with open(arguments.from_file, encoding="utf-8", newline="") as file:
                self._filed = from_csv(file.read(), arguments.group)

    def has_plan(self, group: str) -> bool:
        """Whether the file of --from-file has rows of a group."""
        return bool(self._filed.get(None) or self._filed.get(group))

    def plan(
        self, group: GroupOffsets, scope: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The new offsets of a group, by partition. Raises KStoreError if a partition has none."""
        if self._arguments.from_file is not None:
            filed = {**self._filed.get(None, {}), **self._filed.get(group.name, {})}
            return {tp: self._within(tp, self._log(tp), filed[tp]) for tp in sorted(filed)}
        return {tp: self._new_offset(group, tp) for tp in sorted(scope)}

    def _new_offset(self, group: GroupOffsets, tp: TopicPartition) -> int:
        log, arguments = self._log(tp), self._arguments
        committed = group.offsets.get(tp)
        if arguments.to_earliest:
            return log.start_offset
        if arguments.to_offset is not None:
            return self._within(tp, log, arguments.to_offset)
        if arguments.shift_by is not None:
            if committed is None:
                raise InvalidConfigError(
                    f"Cannot shift offset for partition {tp.topic}-{tp.partition} since there is "
                    "no current committed offset"
                )
            return self._within(tp, log, committed.offset + arguments.shift_by)
        if self._timestamp is not None:
            return self._at(tp, log, self._timestamp)
        if arguments.to_current and committed is not None:
            return committed.offset
        return log.end_offset

    def _at(self, tp: TopicPartition, log: "Log | RemoteLog", timestamp: int) -> int:
        offset = log.offset_at(timestamp)
        if offset >= log.end_offset:
            complain(
                f"\nWarn: Partition {tp.partition} from topic {tp.topic} is empty. Falling back "
                "to latest known offset."
            )
        return min(offset, log.end_offset)

    def _within(self, tp: TopicPartition, log: "Log | RemoteLog", offset: int) -> int:
        """The offset, or the nearest offset in the log, with a warning."""
        nearest = min(max(offset, log.start_offset), log.end_offset)
        if nearest != offset:
            than = "lower than earliest" if offset < nearest else "higher than latest"
            complain(
                f"New offset ({offset}) is {than} offset for topic partition "
                f"{tp.topic}-{tp.partition}. Value will be set to {nearest}"
            )
        return nearest

    def _log(self, tp: TopicPartition) -> "Log | RemoteLog":
        if tp.partition not in partitions_of(self._store, tp.topic):
            number = "" if tp.partition < 0 else f"-{tp.partition}"
            raise UnknownTopicOrPartitionError(f"{tp.topic}{number} does not exist")
        return self._store[tp.topic][tp.partition]


# --- the file of --export and --from-file ---------------------------------------------------------


def to_csv(rows: Iterable[tuple[str, TopicPartition, int]], *, with_group: bool) -> str:
    """``topic,partition,offset``, or with the group first; quoted as in Kafka's tool."""
    return "".join(
        ",".join([*([_quoted(group)] * with_group), _quoted(tp.topic), f"{tp.partition},{offset}"])
        + "\n"
        for group, tp, offset in rows
    )


def _quoted(text: str) -> str:
    """Quote as Kafka's writer (Jackson) does: long texts, and those with a character below
    ``-``."""
    if len(text) <= 24 and all(character >= "-" for character in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def from_csv(text: str, groups: Sequence[str]) -> dict[str | None, dict[TopicPartition, int]]:
    """Offsets by group and partition; the group is None in rows without one.

    Raises WrongFileError for an invalid row, and, as in Kafka, for a row without a group unless
    exactly one group is chosen.
    """
    found: dict[str | None, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            *name, topic, partition, offset = (cell.strip() for cell in row)
            tp = TopicPartition(topic, parse_whole_number(partition, 0, INT32_MAX))
            value = parse_whole_number(offset)
            if len(name) > 1 or (not name and len(groups) != 1):
                raise ValueError
        except (ValueError, InvalidConfigError):
            shape = "topic,partition,offset"
            if len(groups) != 1:
                shape = f"group,{shape}"
            raise WrongFileError(
                f"line {number} of the file reads {shape}, not {','.join(row)[:80]!r}"
            ) from None
        found.setdefault(name[0] if name else None, {})[tp] = value
    return found
