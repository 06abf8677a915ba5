"""What is known of a store that is worked with: what was asked of it, and what it answered."""

from collections.abc import Iterable
from typing import Any, NamedTuple

Event = tuple[Any, ...]
TopicPartition = tuple[str, int]


class Transaction(NamedTuple):
    """A transaction: its state, its records, and the offset that it commits for the group."""

    state: str
    parts: dict[TopicPartition, list[bytes]]
    offset: int | None


class History:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.acked: list[bytes] = []  # by offset: every value whose append returned
        self.base = 0  # offset of the first in acked: a truncation may begin a log again
        self.tried: set[bytes] = set()
        self.low = 0  # a truncation that is in progress may have gone down to here
        self.flushed = 0  # below: acknowledged as being on disk
        self.start = 0  # below: asked to be deleted
        self.clean_end = False
        self.may_lack: set[int] = set()  # taken by a marker, or superseded where compaction began
        self.lacks: set[int] = set()  # compaction of these was done

    @property
    def end(self) -> int:
        return self.base + len(self.acked)


class Witness:
    """What had been asked and what had been answered when the lights went out."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.logs: dict[TopicPartition, History] = {}
        self.topics: dict[str, tuple[str, str | None, int]] = {}  # state, id, partitions
        # Group: lowest and highest it may be, and the lowest after a power cut.
        self.committed: dict[str, tuple[int, int, int]] = {}
        self.dirs = 0  # how many log directories there are; 0: one, the root itself
        self.transactions: dict[int, Transaction] = {}
        self.publications: list[
            dict[TopicPartition, list[bytes]]
        ] = []  # each shows completely, or not at all
        for event in events:
            self.hear(event)

    def log(self, tp: TopicPartition) -> History:
        return self.logs.setdefault(tp, History())

    def hear(self, event: Event) -> None:
        word, *rest = event
        if word == "topic":
            name, state, topic_id, partitions = rest
            self.topics[name] = (state, topic_id, partitions)
            return
        if word == "commit":
            group, *bounds = rest
            self.committed[group] = tuple(bounds)
            return
        if word == "dirs":
            (self.dirs,) = rest
            return
        if word == "transaction":
            number, *described = rest
            self.transactions[number] = Transaction(*described)
            return
        if word == "publication":
            self.publications.append(rest[0])
            return
        history = self.log(rest[0])
        if word == "trying":
            history.tried.update(rest[1])
        elif word == "in":
            history.acked += rest[1]
            history.low = history.end
        elif word == "markers":
            history.may_lack.update(range(history.end, rest[1]))
            history.acked += [b""] * (rest[1] - history.end)
            history.low = history.end
        elif word == "compacting":
            history.may_lack |= rest[1]
        elif word == "compacted":
            history.lacks |= rest[1]
        elif word == "flushed":
            history.flushed = max(history.flushed, rest[1])
        elif word == "cutting":
            history.low = min(history.end, rest[1])
            history.flushed = min(history.flushed, history.low)
        elif word == "cut":
            del history.acked[max(0, rest[1] - history.base) :]
            if rest[1] < history.base:
                history.base = rest[1]
            history.low = history.end
        elif word == "deleting":
            history.start = max(history.start, rest[1])
        elif word == "deleted":
            history.start = rest[1]
        else:
            raise ValueError(word)

    def floor(self, tp: TopicPartition, *, power: bool) -> int:
        """Every record below it must exist."""
        history = self.log(tp)
        return min(history.flushed, history.low) if power else history.low
